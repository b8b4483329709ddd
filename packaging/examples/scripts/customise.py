"""Changes an image before the machine starts: files are written, and commands run.

For profiles whose first disk has a source volume. It does what virt-customize does, with
what every host has:

- A disk that is one filesystem, as debootstrap.py makes it, is mounted: files are
  written, and commands run inside.
- A disk with a partition table, as cloud images have it, has no device for each
  partition here. Files go into its largest Linux partition by debugfs, if that is
  ext4; commands cannot run.

Change FILES and COMMANDS; what stands in {braces} is the machine's name and the
profile's arguments.
"""

import json
import os
import subprocess
import tempfile

from seedbed import VMBuilder, add_volume, chroot, clone_volume, config, domain_xml, map_volume, open_zk, unmap_volume

TARGET = "/tmp/target"

FILES = {
    "/etc/motd": "{vm_name}: {motd}\n",
}

# Each a list: the program, and its arguments.
COMMANDS = []

# The types that partition tables have for a Linux filesystem: MBR, and GPT (any use, root of x86-64 and of arm64).
LINUX = (
    "83",
    "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
    "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
    "B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
)


class VMBuilderScript(VMBuilder):
    def setup(self):
        self.device = None
        self.words = dict({"motd": "ready"}, **self.vm_data["script_arguments"])
        self.words["vm_name"] = self.vm_name
        self.files = {path: text.format(**self.words) for path, text in FILES.items()}
        self.commands = [[word.format(**self.words) for word in command] for command in COMMANDS]
        if not self.vm_data["volumes"] or not self.vm_data["volumes"][0]["source_volume"]:
            self.fail("the first disk has no source volume: there is nothing to change")

    def create(self):
        return domain_xml(self)

    def prepare(self):
        with open_zk(config) as cluster:
            for volume in self.vm_data["volumes"]:
                pool, name = volume["pool"], self.volume(volume)
                if volume["source_volume"]:
                    done, message = clone_volume(cluster, pool, volume["source_volume"], name)
                else:
                    done, message = add_volume(cluster, pool, name, "%sG" % volume["disk_size_gb"])
                if not done:
                    self.fail(message)
            first = self.vm_data["volumes"][0]
            done, message = map_volume(cluster, first["pool"], self.volume(first))
            if not done:
                self.fail(message)
            self.device = message

    def install(self):
        probe = subprocess.run(["blkid", "-p", "-o", "export", self.device], stdout=subprocess.PIPE, check=True).stdout.decode()
        found = dict(line.split("=", 1) for line in probe.splitlines() if "=" in line)
        if "PTTYPE" in found:
            self.change_partition()
        elif "TYPE" in found:
            self.change_filesystem(found["TYPE"])
        else:
            self.fail("%s has neither a partition table nor a filesystem" % self.device)

    def change_filesystem(self, kind):
        os.makedirs(TARGET, exist_ok=True)
        subprocess.run(["mount", "-t", kind, self.device, TARGET], check=True)
        for path, text in self.files.items():
            os.makedirs(os.path.dirname(TARGET + path), exist_ok=True)
            with open(TARGET + path, "w", encoding="utf-8") as f:
                f.write(text)
        if not self.commands:
            return
        for place in ("dev", "proc", "sys"):
            os.makedirs(os.path.join(TARGET, place), exist_ok=True)
            subprocess.run(["mount", "--rbind", "/" + place, os.path.join(TARGET, place)], check=True)
        with chroot(TARGET):
            for command in self.commands:
                subprocess.run(command, stdin=subprocess.DEVNULL, check=True)

    def change_partition(self):
        if self.commands:
            self.fail("%s has a partition table: commands can run only in a disk that is one filesystem" % self.device)
        table = json.loads(subprocess.run(["sfdisk", "--json", self.device], stdout=subprocess.PIPE, check=True).stdout)["partitiontable"]
        linux = [p for p in table["partitions"] if p["type"].upper() in LINUX]
        if not linux:
            self.fail("%s has no Linux partition" % self.device)
        largest = max(linux, key=lambda p: p["size"])
        filesystem = "%s?offset=%d" % (self.device, largest["start"] * table.get("sectorsize", 512))
        with tempfile.TemporaryDirectory() as folder:
            for number, (path, text) in enumerate(self.files.items()):
                part = os.path.join(folder, str(number))
                with open(part, "w", encoding="utf-8") as f:
                    f.write(text)
                # Replace an existing file. debugfs prints its errors, but exits with 0.
                for request in ("rm %s" % path, "write %s %s" % (part, path), "sif %s mode 0100644" % path):
                    subprocess.run(["debugfs", "-w", "-R", request, filesystem], check=True)
                there = subprocess.run(["debugfs", "-R", "cat %s" % path, filesystem], stdout=subprocess.PIPE, check=True).stdout
                if there != text.encode():
                    self.fail("%s could not be written to the partition at sector %d" % (path, largest["start"]))

    def cleanup(self):
        with open("/proc/self/mounts", encoding="utf-8") as f:
            places = [line.split()[1] for line in f]
        for place in reversed(places):
            if place == TARGET or place.startswith(TARGET + "/"):
                subprocess.run(["umount", place], check=True)
        if self.device:
            first = self.vm_data["volumes"][0]
            with open_zk(config) as cluster:
                done, message = unmap_volume(cluster, first["pool"], self.volume(first))
            if not done:
                self.fail(message)

    def volume(self, volume):
        return "%s_%s" % (self.vm_name, volume["disk_id"])
