"""The steps around a script that has only install(**kwargs).

Volumes are made and mounted under the temporary directory before the function is
called, parents first. They are unmounted and unmapped after it, even if it fails.
"""

import os
import shutil
import subprocess

from . import ceph
from .domain import domain_xml
from .vmbuilder import ProvisioningError, VMBuilder, log_info

# What mkfs needs to write over what a step that ran before has left.
_AGAIN = {"xfs": ["-f"], "btrfs": ["-f"]}


class FunctionScript(VMBuilder):
    """Makes a machine around a function. function and temporary_directory are set before the first step."""

    function = None
    temporary_directory = "/tmp/target"

    def setup(self):
        arguments = self.vm_data.get("script_arguments") or {}
        taken = sorted(set(arguments) & set(self._given()))
        if taken:
            raise ProvisioningError("the profile has an argument %s: install() is given one of that name already" % ", ".join(taken))
        for volume in self.vm_data["volumes"]:
            mountpoint, filesystem = volume.get("mountpoint"), volume.get("filesystem")
            if mountpoint and filesystem != "swap" and (not mountpoint.startswith("/") or ".." in mountpoint.split("/")):
                raise ProvisioningError("disk %s: expected an absolute mountpoint, not %r" % (volume["disk_id"], mountpoint))
            if filesystem and shutil.which(_mkfs(filesystem)) is None:
                raise ProvisioningError("disk %s: %s is not installed on this host" % (volume["disk_id"], _mkfs(filesystem)))

    def create(self):
        return domain_xml(self)

    def prepare(self):
        for volume in self.vm_data["volumes"]:
            pool, name = volume["pool"], self._name(volume)
            if volume.get("source_volume"):
                _must(ceph.clone_volume(None, pool, volume["source_volume"], name))
            else:
                _must(ceph.add_volume(None, pool, name, "%sG" % volume["disk_size_gb"]))
            if volume.get("filesystem"):
                device = _must(ceph.map_volume(None, pool, name))
                log_info("making %s on %s" % (volume["filesystem"], device))
                _run(mkfs_command(volume["filesystem"], volume.get("filesystem_args"), device))
        for volume in self._mounted():
            target = self._target(volume)
            os.makedirs(target, exist_ok=True)
            _run(["mount", "-t", volume["filesystem"], self._device(volume), target])

    def install(self):
        os.makedirs(self.temporary_directory, exist_ok=True)
        kwargs = dict(self.vm_data.get("script_arguments") or {})
        kwargs.update(self._given())
        self.function(**kwargs)

    def cleanup(self):
        wrong = []
        for target in mounts_below(self.temporary_directory):
            try:
                _run(["umount", target])
            except ProvisioningError as e:
                wrong.append(str(e))
        for volume in reversed(self.vm_data["volumes"]):
            if volume.get("filesystem") and os.path.exists(self._device(volume)):
                ok, message = ceph.unmap_volume(None, volume["pool"], self._name(volume))
                if not ok:
                    wrong.append(message)
        if wrong:
            raise ProvisioningError("; ".join(wrong))

    def _given(self):
        return {
            "vm_name": self.vm_name,
            "vm_id": self.vm_id,
            "temporary_directory": self.temporary_directory,
            "disks": [dict(v) for v in self.vm_data["volumes"]],
            "networks": [dict(n) for n in self.vm_data["networks"]],
        }

    def _mounted(self):
        """The volumes that have a place in the new system, parents first."""
        there = [v for v in self.vm_data["volumes"] if v.get("filesystem") not in (None, "", "swap") and v.get("mountpoint")]
        return sorted(there, key=lambda v: [part for part in v["mountpoint"].split("/") if part])

    def _name(self, volume):
        return "%s_%s" % (self.vm_name, volume["disk_id"])

    def _device(self, volume):
        return "/dev/rbd/%s/%s" % (volume["pool"], self._name(volume))

    def _target(self, volume):
        return os.path.join(self.temporary_directory, volume["mountpoint"].lstrip("/")).rstrip("/")


def mkfs_command(filesystem, args, device):
    """The command that makes a filesystem. An argument "opt=val" is two words for it."""
    words = []
    for arg in (args or "").split():
        option, equals, value = arg.partition("=")
        words += [option, value] if equals else [option]
    return [_mkfs(filesystem)] + _AGAIN.get(filesystem, []) + words + [device]


def mounts_below(directory, table="/proc/self/mountinfo"):
    """Where something is mounted at or below a directory, what lies deepest and was mounted last first."""
    found = []
    with open(table, encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            target = _unescape(line.split()[4])
            if target == directory or target.startswith(directory.rstrip("/") + "/"):
                found.append(target)
    return found[::-1]


def _unescape(path):
    """A path as /proc/self/mountinfo writes it (proc(5)), with octal escapes."""
    for char in " \t\n\\":
        path = path.replace("\\%03o" % ord(char), char)
    return path


def _mkfs(filesystem):
    return "mkswap" if filesystem == "swap" else "mkfs." + filesystem


def _must(answer):
    ok, message = answer
    if not ok:
        raise ProvisioningError(message)
    return message


def _run(argv):
    """Runs a command; what it prints is told where it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise ProvisioningError("%s: status %d: %s" % (" ".join(argv), done.returncode, done.stdout.decode("utf-8", "replace").strip()))
