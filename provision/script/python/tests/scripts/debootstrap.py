"""Volumes, filesystems and mounts, a chroot, and commands by os.system."""

import os

from daemon_lib.ceph import add_volume, clone_volume, map_volume, unmap_volume
from daemon_lib.common import run_os_command
from daemon_lib.vmbuilder import ProvisioningError, VMBuilder, chroot, open_zk
from pvcworkerd.Daemon import config


class VMBuilderScript(VMBuilder):
    def setup(self):
        retcode, stdout, stderr = run_os_command("sh -c true")
        if retcode:
            raise ProvisioningError("there is no shell")
        self.release = self.vm_data["script_arguments"].get("deb_release", "stable")

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
        for volume in self.vm_data["volumes"]:
            name = f"{self.vm_name}_{volume['disk_id']}"
            with open_zk(config) as zkhandler:
                if volume["source_volume"] is not None:
                    success, message = clone_volume(zkhandler, volume["pool"], volume["source_volume"], name)
                else:
                    success, message = add_volume(zkhandler, volume["pool"], name, f"{volume['disk_size_gb']}G")
            self.log_info(message)
            if not success:
                raise ProvisioningError(f"no volume {name}")
            if volume["filesystem"] is None:
                continue
            with open_zk(config) as zkhandler:
                success, message = map_volume(zkhandler, volume["pool"], name)
            if not success:
                self.fail(f"no device for {name}")
            args = [part for arg in volume["filesystem_args"].split(" ") for part in arg.split("=", 1)]
            retcode, stdout, stderr = run_os_command(["echo", f"mkfs.{volume['filesystem']}"] + args + [message])
            if retcode:
                self.fail(stderr)

    def install(self):
        if os.system(f"exit $(test -n {self.release}; echo $?)"):
            self.fail("the system could not be installed")
        if os.geteuid() == 0:
            with chroot("/"):
                os.system("true")

    def cleanup(self):
        for volume in list(reversed(self.vm_data["volumes"])):
            if volume["source_volume"] is None and volume["filesystem"] not in (None, "swap"):
                with open_zk(config) as zkhandler:
                    unmap_volume(zkhandler, volume["pool"], f"{self.vm_name}_{volume['disk_id']}")
