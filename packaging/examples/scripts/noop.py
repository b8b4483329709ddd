"""Defines a machine, and does nothing else: its disks are clones, or stay blank.

For profiles whose storage template has source volumes. The volumes are made by
prepare(); none is formatted or mounted.
"""

from seedbed import VMBuilder, add_volume, clone_volume, domain_xml, open_zk, config


class VMBuilderScript(VMBuilder):
    def create(self):
        return domain_xml(self)

    def prepare(self):
        with open_zk(config) as cluster:
            for volume in self.vm_data["volumes"]:
                pool, name = volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"])
                if volume["source_volume"]:
                    done, message = clone_volume(cluster, pool, volume["source_volume"], name)
                else:
                    done, message = add_volume(cluster, pool, name, "%sG" % volume["disk_size_gb"])
                if not done:
                    self.fail(message)
