"""One volume, and arguments that must be there."""

import os

from daemon_lib.vmbuilder import VMBuilder


class VMBuilderScript(VMBuilder):
    def setup(self):
        from daemon_lib.common import run_os_command

        arguments = self.vm_data["script_arguments"]
        self.interface = arguments.get("pfsense_wan_iface", "vtnet0")
        if arguments.get("pfsense_wan_dhcp") is None and arguments.get("pfsense_wan_address") is None:
            self.log_info("the address is by DHCP")
        if run_os_command("sh -c true", environment=dict(os.environ, CHECKPOINT_DISABLE="1"))[0] != 0:
            self.fail("no shell")

    def create(self):
        import datetime
        import random

        import daemon_lib.libvirt_schema as schema

        data, system = self.vm_data, self.vm_data["system_details"]
        now = datetime.datetime.now().strftime("%Y-%m-%d")
        xml = schema.libvirt_header.format(
            vm_name=self.vm_name,
            vm_uuid=self.vm_uuid,
            vm_description=f"made {now}, profile '{self.vm_profile}'".replace("'", "&apos;"),
            vm_memory=system["vram_mb"],
            vm_vcpus=system["vcpu_count"],
            vm_architecture=data["system_architecture"],
        )
        for volume in data["volumes"]:
            xml += schema.devices_disk_header.format(
                ceph_storage_secret=data["ceph_monitor_secret"],
                disk_pool=volume["pool"],
                vm_name=self.vm_name,
                disk_id=volume["disk_id"],
            )
            for monitor in data["ceph_monitor_list"]:
                xml += schema.devices_disk_coordinator.format(
                    coordinator_name=monitor, coordinator_ceph_mon_port=data["ceph_monitor_port"]
                )
            xml += schema.devices_disk_footer
        xml += schema.devices_vhostmd
        for number, network in enumerate(data["networks"]):
            if data["mac_template"] is not None:
                mac = data["mac_template"].format(
                    prefix="52:54:01", vmid="{:x}".format(int(self.vm_id % 16)), netid="{:x}".format(number % 16)
                )
            else:
                mac = "52:54:00:" + ":".join("{:02x}".format(random.randint(0x10, 0xEE)) for _ in range(3))
            xml += schema.devices_net_interface.format(eth_macaddr=mac, eth_bridge=network["eth_bridge"])
        xml += schema.devices_default
        if system["serial"]:
            xml += schema.devices_serial.format(vm_name=self.vm_name)
        if system["vnc"]:
            xml += schema.devices_vnc.format(
                vm_vncport="5900", vm_vnc_autoport="yes", vm_vnc_bind=system["vnc_bind"] or "127.0.0.1"
            )
        xml += schema.devices_scsi_controller
        xml += schema.libvirt_footer
        return xml

    def prepare(self):
        from daemon_lib.ceph import add_volume, map_volume
        from daemon_lib.vmbuilder import open_zk
        from pvcworkerd.Daemon import config

        volume = self.vm_data["volumes"][0]
        with open_zk(config) as zkhandler:
            success, message = add_volume(zkhandler, volume["pool"], f"{self.vm_name}_{volume['disk_id']}", "8G")
            if success:
                success, message = map_volume(zkhandler, volume["pool"], f"{self.vm_name}_{volume['disk_id']}")
            if not success:
                self.fail(message)

    def install(self):
        self.log_info(f"installing for {self.interface}")

    def cleanup(self):
        from daemon_lib.ceph import unmap_volume
        from daemon_lib.vmbuilder import open_zk
        from pvcworkerd.Daemon import config

        volume = self.vm_data["volumes"][0]
        with open_zk(config) as zkhandler:
            unmap_volume(zkhandler, volume["pool"], f"{self.vm_name}_{volume['disk_id']}")
