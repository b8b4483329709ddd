"""Makes a machine of an OVA that was uploaded: the script that such profiles have.

Each volume of the OVA becomes a disk. One that is raw is cloned; any other format is
converted. Disks of a storage template, if the profile has one, follow, and are blank.
As the script ova or default_ova, it runs once it is told to (`seedbed script options NAME --always`):
without it, the machine gets the same clones.
"""

import subprocess

from seedbed import VMBuilder, add_volume, clone_volume, config, domain_xml, map_volume, open_zk, unmap_volume


class VMBuilderScript(VMBuilder):
    def setup(self):
        self.mapped = []
        if not self.vm_data.get("ova_details"):
            self.fail("the profile %s is not one of an OVA" % self.vm_profile)

    def create(self):
        return domain_xml(self)

    def prepare(self):
        for volume in self.vm_data["volumes"]:
            pool, new = volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"])
            if volume.get("volume_name") and volume["volume_format"] == "raw":
                self.do(clone_volume, pool, volume["volume_name"], new)
            elif volume.get("source_volume"):
                self.do(clone_volume, pool, volume["source_volume"], new)
            else:
                self.do(add_volume, pool, new, "%sG" % volume["disk_size_gb"])

    def install(self):
        for volume in self.vm_data["volumes"]:
            if not volume.get("volume_name") or volume["volume_format"] == "raw":
                continue
            pool, new = volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"])
            self.log_info("converting %s from %s" % (volume["volume_name"], volume["volume_format"]))
            devices = []
            for name in (volume["volume_name"], new):
                devices.append(self.do(map_volume, pool, name))
                self.mapped.append((pool, name))
            # -n: the volume is there; -W: blocks in whatever order they come.
            subprocess.run(["qemu-img", "convert", "-n", "-W", "-f", volume["volume_format"], "-O", "raw"] + devices, check=True)
            while self.mapped:
                self.do(unmap_volume, *self.mapped.pop())

    def cleanup(self):
        while self.mapped:
            self.do(unmap_volume, *self.mapped.pop())

    def do(self, change, *args):
        """Changes something, and gives what is said of it."""
        with open_zk(config) as cluster:
            done, message = change(cluster, *args)
        if not done:
            self.fail(message)
        return message
