"""Removes from a disk what only one machine may have, so that clones of it are machines of their own.

The disk is a copy that nothing else uses. File systems on it are changed by e2fsprogs in this
process, and not mounted: their partitions have no devices here, and what is on them is a guest's.
"""

import os
import struct
import subprocess
import tempfile

from daemon_lib.ceph import map_volume, unmap_volume
from daemon_lib.vmbuilder import ProvisioningError, VMBuilder, open_zk

# What is removed, with everything below it. A directory that ends with a slash stays itself.
GONE = (
    "/etc/machine-id",
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/netplan/50-cloud-init.yaml",
    "/etc/network/interfaces.d/50-cloud-init",
    "/etc/network/interfaces.d/50-cloud-init.cfg",
    "/var/lib/dbus/machine-id",
    "/var/lib/cloud/",
    "/var/lib/dhcp/",
    "/var/lib/systemd/random-seed",
    "/var/log/cloud-init.log",
    "/var/log/cloud-init-output.log",
    "/var/log/journal/",
)

# In this directory, only files of these names are removed.
KEYS, KEY_NAMES = "/etc/ssh", ("ssh_host_",)

# What seeds cloud-init from within an image is not the state of a machine.
KEPT = ("/var/lib/cloud/seed",)

SECTOR = 512


class VMBuilderScript(VMBuilder):
    def install(self):
        pool, volume = self.vm_data["pool"], self.vm_data["volume"]
        with open_zk(None) as handler:
            ok, device = map_volume(handler, pool, volume)
            if not ok:
                self.fail(device)
            try:
                self.generalise(device)
            finally:
                unmap_volume(handler, pool, volume)

    def generalise(self, device):
        systems = 0
        for offset in partitions(device):
            if not is_ext(device, offset):
                continue
            fs = FileSystem("%s?offset=%d" % (device, offset))
            fs.check()
            if not fs.kind("/etc"):
                continue
            if not fs.kind("/var/lib"):
                self.fail("the system at byte %d of the disk has its /var on another file system: it cannot be generalised" % offset)
            systems += 1
            removed = fs.generalise()
            fs.check()
            self.log_info("removed %d files and directories of the system at byte %d of the disk" % (removed, offset))
        if not systems:
            self.fail(
                "no Linux system was found on the disk: expected an ext4, ext3 or ext2 file system with /etc and /var, "
                "on the disk or in a partition of it, without LVM and encryption"
            )


class FileSystem:
    """An ext file system, by the name that e2fsprogs takes."""

    def __init__(self, name):
        self.name = name
        self.removed = []

    def check(self):
        """Replays the journal, and repairs what a cut-off guest has left."""
        if "needs_recovery" in self.header("Filesystem features"):
            # Having replayed the journal, e2fsck opens the file system again, and some versions
            # forget the offset then: the journal is empty, but is still marked.
            self.fsck()
            if "needs_recovery" in self.header("Filesystem features") and self.header("Journal start") == "0":
                self.change("feature -needs_recovery")
        status, output = self.fsck()
        if status & ~3:
            print(output)
            raise ProvisioningError("the file system %s cannot be repaired (e2fsck: %d)" % (self.name, status))

    def fsck(self):
        done = subprocess.run(["e2fsck", "-f", "-y", self.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def header(self, field):
        """A field of the superblock, or of the journal's."""
        done = subprocess.run(["dumpe2fs", "-h", self.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            if line.startswith(field + ":"):
                return line.partition(":")[2].strip()
        return ""

    def generalise(self):
        """Removes what only one machine may have, and returns how much that was."""
        was = self.kind("/etc/machine-id")
        for path in GONE:
            self.remove(path.rstrip("/"), path.endswith("/"))
        for name, _ in self.entries(KEYS):
            if name.startswith(KEY_NAMES):
                self.remove(KEYS + "/" + name, False)
        if was:  # an empty one is filled at the first boot
            with tempfile.NamedTemporaryFile() as empty:
                self.change('write %s "/etc/machine-id"' % empty.name)
            for field, value in (("mode", "0100444"), ("uid", "0"), ("gid", "0")):
                self.change('set_inode_field "/etc/machine-id" %s %s' % (field, value))
        left = [path for path in self.removed if self.kind(path) and not (was and path == "/etc/machine-id")]
        if left or was and "Size: 0" not in self.ask('stat "/etc/machine-id"'):
            raise ProvisioningError("%s could not be removed" % (left or ["/etc/machine-id"])[0])
        return len(self.removed)

    def remove(self, path, only_below):
        """Removes what is at a path, and below it."""
        kind = self.kind(path)
        if not kind or path in KEPT:
            return
        if kind != "directory":
            self.change('rm "%s"' % path)
            self.removed.append(path)
            return
        for name, _ in self.entries(path):
            self.remove(path + "/" + name, False)
        if not only_below and not self.entries(path):
            self.change('rmdir "%s"' % path)
            self.removed.append(path)

    def entries(self, path):
        """The names and modes in a directory; none if it is not one."""
        found = []
        if self.kind(path) != "directory":
            return found
        for line in self.ask('ls -p "%s"' % path).splitlines():
            parts = line.split("/")  # /inode/mode/uid/gid/name/size/
            if len(parts) >= 7 and parts[1] != "0" and parts[5] not in (".", "..", ""):
                if '"' in parts[5]:
                    raise ProvisioningError("%s has a file with a quotation mark in its name, which cannot be removed" % path)
                found.append((parts[5], parts[2]))
        return found

    def kind(self, path):
        """What is at a path, such as directory or regular; None for nothing."""
        for line in self.ask('stat "%s"' % path).splitlines():
            if "Type:" in line:
                return line.split("Type:")[1].split()[0]
        return None

    def ask(self, command):
        return self._run([], command)

    def change(self, command):
        return self._run(["-w"], command)

    def _run(self, how, command):
        done = subprocess.run(
            ["debugfs", *how, "-R", os.fsencode(command), self.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if done.returncode:
            raise ProvisioningError("debugfs %s: %s" % (self.name, done.stderr.decode("utf-8", "replace").strip()))
        return done.stdout.decode("utf-8", "surrogateescape")


def read(device, offset, size):
    with open(device, "rb") as f:
        f.seek(offset)
        return f.read(size)


def is_ext(device, offset):
    return read(device, offset + 1024 + 56, 2) == b"\x53\xef"


def partitions(device):
    """Where the disk's partitions begin, in bytes; 0 is the disk as a whole."""
    starts = [0]
    header = read(device, SECTOR, 92)
    if header[:8] == b"EFI PART":
        table, count, size = struct.unpack("<QII", header[72:88])
        if not 128 <= size <= 4096 or count > 1024:
            raise ProvisioningError("the disk's partition table is not usable")
        for n in range(count):
            entry = read(device, table * SECTOR + n * size, size)
            if len(entry) == size and entry[:16] != bytes(16):
                starts.append(struct.unpack("<Q", entry[32:40])[0] * SECTOR)
        return starts
    record = read(device, 0, SECTOR)
    if record[510:] == b"\x55\xaa":
        for n in range(4):
            start = struct.unpack("<I", record[454 + 16 * n : 458 + 16 * n])[0]
            if start:
                starts.append(start * SECTOR)
    return starts
