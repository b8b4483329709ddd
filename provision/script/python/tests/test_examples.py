"""The examples that are installed, as far as they go without root; a guest of debootstrap.py is booted elsewhere."""

import os
import shutil
import subprocess
import tempfile
import unittest

from host import HERE, Host, vm_data, volume
from test_function import Tools

EXAMPLES = os.path.join(HERE, "..", "..", "..", "..", "packaging", "examples", "scripts")


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
        return f.read()


class Files(Host):
    """A worker whose volumes are files: what map_volume answers with is one."""

    def __init__(self, script, folder, **more):
        self.folder = folder
        super().__init__(script, **more)

    def send(self, message):
        if message.get("op") == "answer" and message["ok"]:
            name, args = self.calls[-1]
            path = os.path.join(self.folder, args["name"])
            if name == "add_volume":
                with open(path, "wb") as f:
                    f.truncate(1 << 20)
            elif name == "clone_volume":
                shutil.copy(os.path.join(self.folder, args["source"]), path)
            elif name == "map_volume":
                message["message"] = path
        super().send(message)


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="seedbed-examples-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.environ["PATH"] += ":/usr/sbin:/sbin"

    def well(self, answers):
        for step, answer in answers.items():
            self.assertNotEqual(answer["op"], "failed", (step, answer))

    def test_noop(self):
        data = vm_data(volumes=[volume("sda", source="golden"), volume("sdb", size=3)])
        with Host(example("noop.py"), data) as h:
            self.well(h.run())
        self.assertEqual(
            [(n, a["name"], a.get("source") or a["size"]) for n, a in h.calls],
            [("clone_volume", "web7_sda", "golden"), ("add_volume", "web7_sdb", "3G")],
        )
        with Host(example("noop.py"), data, refuse={"clone_volume": "no such image"}) as h:
            self.assertIn("no such image", h.run()["prepare"]["message"])

    def test_debootstrap_refuses(self):
        for name, more, says in (
            ("no root", {"volumes": [volume("sda", filesystem="ext4", mountpoint="/srv")]}, "no disk has the mountpoint /"),
            ("xfs alone", {"volumes": [volume("sda", filesystem="xfs", mountpoint="/")]}, "make the first disk a small ext4 /boot"),
            (
                "boot is not first",
                {"volumes": [volume("sda", filesystem="swap"), volume("sdb", filesystem="ext4", mountpoint="/")]},
                "/ must be the first disk",
            ),
            ("no mirror", {"script_arguments": {}}, "deb_mirror is missing"),
        ):
            with self.subTest(name), Tools() as tools, Host(example("debootstrap.py"), vm_data(**more), path=tools.path) as h:
                answers = h.run()
                self.assertIn(says, answers["setup"]["message"])
                self.assertEqual(answers["cleanup"]["op"], "done")
                self.assertEqual(h.calls, [])

    def test_debootstrap_takes_back(self):
        with Tools(failing=["mkfs.xfs", "debootstrap"]) as tools, Host(example("debootstrap.py"), path=tools.path) as h:
            answers = h.run()
        self.assertIn("mkfs.xfs", answers["prepare"]["message"])
        self.assertEqual(answers["cleanup"]["op"], "done")
        self.assertEqual([a["name"] for n, a in h.calls if n == "unmap_volume"], ["web7_sdb", "web7_sda"])

    def test_function(self):
        data = vm_data(script_arguments={})
        with Tools() as tools, Host(example("debootstrap_function.py"), data, path=tools.path) as h:
            answers = h.run()
            self.assertIn("deb_mirror is missing", answers["install"]["message"])
            self.assertEqual(answers["cleanup"]["op"], "done")

    def customise(self, image, script=None, **arguments):
        with open(os.path.join(self.folder, "golden"), "wb") as f:
            f.write(image)
        data = vm_data(volumes=[volume("sda", source="golden"), volume("sdb")], script_arguments=arguments)
        with Files(script or example("customise.py"), self.folder, data=data) as h:
            answers = h.run()
            h.end()
        return h, answers

    def partitioned(self):
        """A disk with an MBR and an ext4 partition, in which there is a file."""
        path, root = os.path.join(self.folder, "disk"), os.path.join(self.folder, "root")
        os.makedirs(os.path.join(root, "etc"))
        with open(os.path.join(root, "etc", "motd"), "w", encoding="utf-8") as f:
            f.write("as it was\n")
        with open(path, "wb") as f:
            f.truncate(16 << 20)
        subprocess.run(["sfdisk", "-q", path], input=b"start=2048, size=2048, type=82\nstart=4096, type=83\n", check=True)
        subprocess.run(["mkfs.ext4", "-q", "-E", "offset=%d" % (4096 * 512), "-d", root, path, "14M"], check=True)
        with open(path, "rb") as f:
            return f.read()

    def test_customise_partition(self):
        h, answers = self.customise(self.partitioned(), motd="changed")
        self.well(answers)
        self.assertIn("<name>web7</name>", answers["create"]["xml"])
        disk = os.path.join(self.folder, "web7_sda")
        shown = subprocess.run(["debugfs", "-R", "cat /etc/motd", "%s?offset=%d" % (disk, 4096 * 512)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual(shown.stdout, b"web7: changed\n")
        with open(disk, "rb") as f:
            f.seek(4096 * 512)
            part = os.path.join(self.folder, "part")
            with open(part, "wb") as p:
                shutil.copyfileobj(f, p)
        subprocess.run(["fsck.ext4", "-fn", part], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual([n for n, _ in h.calls], ["clone_volume", "add_volume", "map_volume", "unmap_volume"])

    def test_customise_refuses(self):
        h, answers = self.customise(b"\0" * (1 << 20))
        self.assertEqual(answers["install"]["op"], "failed")
        self.assertEqual(h.calls[-1][0], "unmap_volume")
        script = example("customise.py").replace("COMMANDS = []", 'COMMANDS = [["true"]]')
        _, answers = self.customise(self.partitioned(), script)
        self.assertIn("commands can run only", answers["install"]["message"])
        with Host(example("customise.py")) as h:
            self.assertIn("no source volume", h.run()["setup"]["message"])

    def test_ova(self):
        data = vm_data(
            ova_details={"name": "box"},
            volumes=[
                {"pool": "vms", "volume_name": "ova_box_sda", "volume_format": "vmdk", "disk_id": "sda", "disk_size_gb": 2},
                {"pool": "vms", "volume_name": "ova_box_sdb", "volume_format": "raw", "disk_id": "sdb", "disk_size_gb": 1},
                volume("sdc", size=5),
            ],
        )
        with Tools() as tools:
            with open(os.path.join(tools.path, "qemu-img"), "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\necho "qemu-img $*" >>%s\n' % tools.log)
            os.chmod(f.name, 0o755)
            with Host(example("ova.py"), data, path=tools.path) as h:
                self.well(h.run())
            self.assertEqual(tools.calls(), ["qemu-img convert -n -W -f vmdk -O raw /dev/rbd/vms/ova_box_sda /dev/rbd/vms/web7_sda"])
            self.assertEqual(
                [(n, a["name"]) for n, a in h.calls],
                [
                    ("add_volume", "web7_sda"),
                    ("clone_volume", "web7_sdb"),
                    ("add_volume", "web7_sdc"),
                    ("map_volume", "ova_box_sda"),
                    ("map_volume", "web7_sda"),
                    ("unmap_volume", "web7_sda"),
                    ("unmap_volume", "ova_box_sda"),
                ],
            )
            with open(os.path.join(tools.path, "qemu-img"), "a", encoding="utf-8") as f:
                f.write("exit 1\n")
            with Host(example("ova.py"), data, path=tools.path) as h:
                answers = h.run()
            self.assertEqual((answers["install"]["class"], answers["cleanup"]["op"]), ("CalledProcessError", "done"))
            self.assertEqual([n for n, _ in h.calls[-2:]], ["unmap_volume", "unmap_volume"])
        with Host(example("ova.py")) as h:
            self.assertIn("not one of an OVA", h.run()["setup"]["message"])


if __name__ == "__main__":
    unittest.main()
