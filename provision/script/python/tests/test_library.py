"""The library by itself."""

import importlib
import os
import re
import time
import unittest
import uuid
import xml.etree.ElementTree as etree
from unittest import mock

import library  # noqa: F401  puts the library on the path
from host import vm_data
from seedbed import _channel, _modules, _surface, ceph, common, domain, libvirt_schema, vmbuilder

_modules.install()


class Surface(unittest.TestCase):
    def test_names(self):
        for alias, (source, names) in _surface.ALIASES.items():
            module, ours = importlib.import_module(alias), importlib.import_module(source)
            for name in names:
                self.assertIs(getattr(module, name), getattr(ours, name), (alias, name))
            self.assertRaisesRegex(ImportError, re.escape("%s has no nothing; it has" % alias), getattr, module, "nothing")
            self.assertFalse(hasattr(module, "__nothing__"))
        for name, names in _surface.MODULES.items():
            module = importlib.import_module(name)
            self.assertEqual(set(names), set(module.__all__), name)
            self.assertRaises(ImportError, getattr, module, "nothing")

    def test_forms_of_import(self):
        scope = {}
        exec(
            "import daemon_lib.common as c, daemon_lib.ceph, pvcapid.libvirt_schema as s\n"
            "from daemon_lib import vmbuilder\nfrom pvcapid.vmbuilder import *\n"
            "assert daemon_lib.common is c and VMBuilder is vmbuilder.VMBuilder and s.libvirt_header",
            scope,
        )

    def test_unknown_module(self):
        for name in ("daemon_lib.node", "pvcapid.flaskapi", "seedbed.other", "pvcworkerd.celery"):
            with self.assertRaisesRegex(ModuleNotFoundError, "there are %s" % name.split(".")[0]):
                importlib.import_module(name)
        with self.assertRaises(ImportError):
            exec("from daemon_lib import zkhandler", {})

    def test_placeholders(self):
        want = {
            "libvirt_header": "vm_name vm_uuid vm_description vm_memory vm_vcpus vm_architecture",
            "devices_disk_header": "disk_id ceph_storage_secret disk_pool vm_name",
            "devices_disk_coordinator": "coordinator_name coordinator_ceph_mon_port",
            "devices_net_interface": "eth_macaddr eth_bridge",
            "devices_serial": "vm_name",
            "devices_vnc": "vm_vncport vm_vnc_autoport vm_vnc_bind",
        }
        for name in libvirt_schema.__all__:
            found = set(re.findall(r"{(\w*)}", getattr(libvirt_schema, name)))
            self.assertEqual(found, set(want.get(name, "").split()), name)
        self.assertEqual(len(libvirt_schema.__all__), 11)
        self.assertEqual(libvirt_schema.libvirt_header.count("{vm_vcpus}"), 2)


class Builder(vmbuilder.VMBuilder):
    def __init__(self, data, name="web7"):
        super().__init__(name, 7, "small", data)


class Domain(unittest.TestCase):
    def test_whole(self):
        builder = Builder(vm_data())
        doc = etree.fromstring(domain.domain_xml(builder))
        self.assertEqual(doc.findtext("name"), "web7")
        self.assertEqual(uuid.UUID(doc.findtext("uuid")), builder.vm_uuid)
        self.assertEqual((doc.findtext("memory"), doc.findtext("vcpu")), ("512", "2"))
        self.assertEqual([d.get("name") for d in doc.findall("devices/disk/source")], ["vms/web7_sda", "vms/web7_sdb", "vms/web7_sdc"])
        self.assertEqual([d.get("dev") for d in doc.findall("devices/disk/target")], ["sda", "sdb", "sdc"])
        self.assertEqual([h.get("name") for h in doc.findall("devices/disk[1]/source/host")], ["mon1", "mon2"])
        self.assertEqual([m.get("address") for m in doc.findall("devices/interface/mac")], ["52:54:00:00:00:01", "52:54:00:00:00:02"])
        self.assertEqual([b.get("bridge") for b in doc.findall("devices/interface/source")], ["vmbrlan", "vmbrwan"])
        self.assertEqual(doc.find("devices/graphics").get("listen"), "127.0.0.1")
        self.assertIsNotNone(doc.find("devices/serial"))

    def test_without(self):
        data = vm_data(networks=[], volumes=[], ceph_monitor_list=[])
        data["system_details"].update(serial=False, vnc=False)
        doc = etree.fromstring(domain.domain_xml(Builder(data)))
        for path in ("disk", "interface", "serial", "graphics"):
            self.assertIsNone(doc.find("devices/" + path), path)

    def test_escapes(self):
        data = vm_data()
        data["networks"][0]["eth_bridge"] = "a'/><x y='"
        doc = etree.fromstring(domain.domain_xml(Builder(data, name="<&>")))
        self.assertEqual(doc.findtext("name"), "<&>")
        self.assertEqual(doc.find("devices/interface/source").get("bridge"), "a'/><x y='")

    def test_macs(self):
        data = vm_data(mac_template="{prefix}:00:{vmid}0:0{netid}")
        for network in data["networks"]:
            del network["mac"]
        macs = re.findall(r"<mac address='(.*?)'", domain.domain_xml(Builder(data)))
        self.assertEqual(macs, ["52:54:01:00:70:00", "52:54:01:00:70:01"])
        data["mac_template"] = None
        for mac in re.findall(r"<mac address='(.*?)'", domain.domain_xml(Builder(data))):
            self.assertRegex(mac, "^52:54:00(:[0-9a-f]{2}){3}$")


class Commands(unittest.TestCase):
    def test_results(self):
        sh = lambda script: ["sh", "-c", script]  # noqa: E731
        for name, command, more, want in (
            ("list", ["echo", "a b"], {}, (0, "a b\n", "")),
            ("text is split, and no shell sees it", "printf %s 'a $HOME;b'", {}, (0, "a $HOME;b", "")),
            ("status and standard error", sh("echo bad >&2; exit 3"), {}, (3, "", "bad\n")),
            ("not ASCII", ["printf", "é\\377"], {}, (0, "é\ufffd", "")),
            ("environment replaces", ["/usr/bin/env"], {"environment": {"A": "1"}}, (0, "A=1\n", "")),
            ("background", ["true"], {"background": True}, (0, None, None)),
        ):
            with self.subTest(name):
                self.assertEqual(common.run_os_command(command, **more), want)

    def test_not_started(self):
        for command in (["/no/such"], "unbalanced '", "", ["a\0b"]):
            status, out, err = common.run_os_command(command)
            self.assertEqual((status, out), (255, ""))
            self.assertTrue(err)

    def test_timeout_kills_what_it_started(self):
        began = time.monotonic()
        status, out, err = common.run_os_command(["sh", "-c", "echo early; sleep 60 & sleep 60"], timeout=0.3)
        self.assertEqual((status, out), (128, "early\n"))
        self.assertIn("0.3 s", err)
        self.assertLess(time.monotonic() - began, 20)


class Chroot(unittest.TestCase):
    def test_nests_and_restores(self):
        """The order of what is asked of the kernel: it grants it to root alone."""
        asked = []
        with mock.patch("os.chroot", lambda p: asked.append("chroot " + p)), mock.patch("os.chdir", lambda p: asked.append("chdir " + p)), mock.patch(
            "os.fchdir", lambda fd: asked.append("fchdir " + os.readlink("/proc/self/fd/%d" % fd))
        ):
            here = os.getcwd()
            with vmbuilder.chroot("/a"):
                with self.assertRaises(KeyError), vmbuilder.chroot("/b"):
                    raise KeyError
                asked.append("inner is left")
        out = ["fchdir /", "chroot .", "fchdir " + here]
        self.assertEqual(asked, ["chroot /a", "chdir /", "chroot /b", "chdir /"] + out + ["inner is left"] + out)

    def test_no_such_directory(self):
        before = len(os.listdir("/proc/self/fd"))
        with self.assertRaises(OSError), vmbuilder.chroot("/no/such/directory"):
            self.fail("it was entered")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Alone(unittest.TestCase):
    """Without a worker the library can be imported, and changes nothing."""

    def test_calls(self):
        for answer in (ceph.add_volume(None, "p", "v", 1), ceph.add_volume(None, "p", "v", 1, zk_only=True), ceph.map_volume(None, "p", "v")):
            self.assertFalse(answer[0])
            self.assertTrue(answer[1].startswith("ERROR: "))

    def test_builder(self):
        b = Builder({})
        self.assertIsInstance(b.vm_uuid, uuid.UUID)
        for step in ("setup", "create", "prepare", "install", "cleanup"):
            self.assertIsNone(getattr(b, step)())
        with self.assertRaisesRegex(vmbuilder.ClusterError, "why"):
            b.fail("why", vmbuilder.ClusterError)
        with mock.patch("sys.stderr", new=mock.MagicMock()) as err:
            b.log_info("said")
        self.assertIn("said", str(err.mock_calls))

    def test_text(self):
        self.assertEqual(_channel.text("a\udcffé"), "a\\udcffé")
        self.assertEqual(_channel.text(7), "7")
        self.assertLess(len(_channel.text("x" * 1000, 100)), 200)


if __name__ == "__main__":
    unittest.main()
