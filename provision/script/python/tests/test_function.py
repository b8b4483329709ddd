"""Scripts that have install(**kwargs) alone."""

import os
import shutil
import tempfile
import unittest

import library  # noqa: F401  puts the library on the path
from host import Host, vm_data, volume
from seedbed import _function

SCRIPT = """import json, os
def install(**kwargs):
    print(json.dumps(kwargs, sort_keys=True))
    open(os.path.join(kwargs['temporary_directory'], 'installed'), 'w').close()
"""


class Tools:
    """A folder of commands that note how they were called."""

    def __init__(self, failing=()):
        self.path = tempfile.mkdtemp(prefix="seedbed-tools-")
        self.log = os.path.join(self.path, "log")
        for name in ("mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkswap", "mount", "umount", "debootstrap"):
            with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\necho "%s $*" >>%s\n' % (name, self.log))
                if name in failing:
                    f.write("echo it is broken >&2; exit 4\n")
            os.chmod(f.name, 0o755)

    def calls(self):
        try:
            with open(self.log, encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)


class Function(unittest.TestCase):
    def test_whole(self):
        data = vm_data(
            volumes=[
                volume("sdc", mountpoint="/var/log", filesystem="btrfs"),
                volume("sda", mountpoint="/", filesystem="ext4", filesystem_args="-L=root -O=^x=y -q"),
                volume("sdb", mountpoint="/var", filesystem="xfs"),
                volume("sdd", filesystem="swap"),
                volume("sde"),
                volume("sdf", source="golden"),
            ]
        )
        with Tools() as tools, Host(SCRIPT, data, path=tools.path) as h:
            answers = h.run()
            for step, answer in answers.items():
                self.assertNotEqual(answer["op"], "failed", (step, answer))
            self.assertEqual(answers["load"]["kind"], "function")
            self.assertTrue(os.path.exists(os.path.join(h.target, "installed")))
            self.assertEqual(h.end(), 0)
            self.assertEqual(
                tools.calls(),
                [
                    "mkfs.btrfs -f /dev/rbd/vms/web7_sdc",
                    "mkfs.ext4 -L root -O ^x=y -q /dev/rbd/vms/web7_sda",
                    "mkfs.xfs -f /dev/rbd/vms/web7_sdb",
                    "mkswap /dev/rbd/vms/web7_sdd",
                    "mount -t ext4 /dev/rbd/vms/web7_sda " + h.target,
                    "mount -t xfs /dev/rbd/vms/web7_sdb %s/var" % h.target,
                    "mount -t btrfs /dev/rbd/vms/web7_sdc %s/var/log" % h.target,
                ],
            )
            made = [(name, args.get("name"), args.get("size") or args.get("source")) for name, args in h.calls if name != "map_volume"]
            self.assertEqual(
                made,
                [("add_volume", "web7_" + d, "4G") for d in ("sdc", "sda", "sdb", "sdd", "sde")] + [("clone_volume", "web7_sdf", "golden")],
            )
            out = h.out.decode()
            for part in ('"vm_name": "web7"', '"vm_id": 7', '"temporary_directory": "%s"' % h.target, '"deb_release": "stable"', '"disk_id": "sda"', '"vni": "lan"'):
                self.assertIn(part, out)

    def test_failures(self):
        for name, data, failing, refuse, step, says in (
            ("argument taken", vm_data(script_arguments={"vm_id": "4"}), (), {}, "setup", "an argument vm_id"),
            ("mountpoint", vm_data(volumes=[volume("sda", mountpoint="/../etc", filesystem="ext4")]), (), {}, "setup", "absolute mountpoint"),
            ("no such mkfs", vm_data(volumes=[volume("sda", mountpoint="/", filesystem="zfsx")]), (), {}, "setup", "mkfs.zfsx is not installed"),
            ("mkfs fails", vm_data(), ("mkfs.xfs",), {}, "prepare", "mkfs.xfs -f /dev/rbd/vms/web7_sdb: status 4: it is broken"),
            ("mount fails", vm_data(), ("mount",), {}, "prepare", "status 4: it is broken"),
            ("no volume", vm_data(), (), {"add_volume": "the pool is full"}, "prepare", "the pool is full"),
        ):
            with self.subTest(name), Tools(failing) as tools, Host(SCRIPT, data, refuse=refuse, path=tools.path) as h:
                answers = h.run()
                self.assertEqual((answers[step]["op"], answers[step]["class"]), ("failed", "ProvisioningError"))
                self.assertIn(says, answers[step]["message"])
                self.assertEqual(answers["cleanup"]["op"], "done")

    def test_install_fails(self):
        with Tools() as tools, Host("def install(**kwargs):\n    raise OSError('disk full')\n", path=tools.path) as h:
            answer = h.run()["install"]
        self.assertEqual((answer["class"], answer["message"]), ("OSError", "disk full"))
        self.assertNotIn("_function.py", answer["traceback"])
        self.assertIn("in install", answer["traceback"])

    def test_mounts_below(self):
        table = os.path.join(tempfile.mkdtemp(), "mountinfo")
        with open(table, "w", encoding="utf-8") as f:
            for i, path in enumerate(("/", "/tmp/t", "/tmp/target", "/tmp/target/var", "/tmp/target/a\\040b", "/tmp/targets")):
                f.write("%d 1 8:0 / %s rw - ext4 /dev/x rw\n" % (i, path))
        self.assertEqual(_function.mounts_below("/tmp/target", table), ["/tmp/target/a b", "/tmp/target/var", "/tmp/target"])
        shutil.rmtree(os.path.dirname(table))


if __name__ == "__main__":
    unittest.main()
