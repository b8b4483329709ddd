"""Copies the volumes of an OVA: names are imported within the steps, and by another name."""

from daemon_lib.vmbuilder import VMBuilder


class VMBuilderScript(VMBuilder):
    def setup(self):
        if "ova_details" not in self.vm_data:
            self.fail("this script is for profiles of an OVA")

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
        import daemon_lib.ceph as pvc_ceph
        from daemon_lib.vmbuilder import open_zk
        from pvcworkerd.Daemon import config

        self.log_info("Copying the disks of %s" % self.vm_data["ova_details"]["name"])
        for volume in self.vm_data["volumes"]:
            pool, new = volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"])
            with open_zk(config) as zkhandler:
                success, message = pvc_ceph.add_volume(zkhandler, pool, new, "%sG" % volume["disk_size_gb"])
                if not success:
                    self.fail(message)
                for name in (volume["volume_name"], new):
                    success, message = pvc_ceph.map_volume(zkhandler, pool, name)
                    if not success:
                        self.fail(message)

    def install(self):
        import daemon_lib.common as pvc_common

        for volume in self.vm_data["volumes"]:
            retcode, stdout, stderr = pvc_common.run_os_command(
                "echo convert -f %s /dev/rbd/%s/%s" % (volume["volume_format"], volume["pool"], volume["volume_name"])
            )
            if retcode:
                self.log_err(stderr)
                self.fail("the disk could not be copied")

    def cleanup(self):
        import daemon_lib.ceph as pvc_ceph
        from daemon_lib.vmbuilder import open_zk
        from pvcworkerd.Daemon import config

        for volume in reversed(self.vm_data["volumes"]):
            for name in ("%s_%s" % (self.vm_name, volume["disk_id"]), volume["volume_name"]):
                with open_zk(config) as zkhandler:
                    success, message = pvc_ceph.unmap_volume(zkhandler, volume["pool"], name)
                    if not success:
                        self.log_err(message)
