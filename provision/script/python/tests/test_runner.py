"""The runner, as the worker sees it."""

import os
import unittest

from host import HERE, UUID, Host, vm_data

CLASS = """from seedbed import VMBuilder
class VMBuilderScript(VMBuilder):
    def create(self):
        return "<domain/>"
"""


def method(name, body):
    """A script whose step is this body."""
    lines = "".join("        %s\n" % line for line in body.splitlines())
    text = CLASS if name != "create" else CLASS.split("    def create")[0]
    return text + "    def %s(self):\n%s" % (name, lines)


class Session(unittest.TestCase):
    def test_class(self):
        script = method(
            "install",
            "import uuid\n"
            "assert type(self.vm_uuid) is uuid.UUID and str(self.vm_uuid) == %r\n"
            "assert (self.vm_name, self.vm_id, self.vm_profile) == ('web7', 7, 'small')\n"
            "assert type(self.vm_id) is int and self.vm_data['volumes'][0]['disk_id'] == 'sda'\n"
            "assert __name__ == 'installer_script'\n"
            "self.log_info('it is ' + self.seen)\n"
            "self.log_warn('warm'); self.log_err('hot')" % UUID,
        )
        script += "    def setup(self):\n        self.seen = 'one object'\n"
        with Host(script) as h:
            answers = h.run()
            self.assertEqual(h.end(), 0, bytes(h.err))
        self.assertEqual(answers["load"], {"op": "ready", "kind": "class"})
        self.assertEqual(answers["create"], {"op": "done", "step": "create", "xml": "<domain/>"})
        for step in ("setup", "prepare", "install", "cleanup"):
            self.assertEqual(answers[step], {"op": "done", "step": step})
        self.assertEqual(h.logs, [("info", "it is one object"), ("warn", "warm"), ("error", "hot")])

    def test_scripts_written_for_pvc(self):
        """Class scripts of both generations, each with the imports and attributes that PVC's examples have."""
        folder = os.path.join(HERE, "scripts")
        names = sorted(os.listdir(folder))
        self.assertEqual(len(names), 5)
        for name in names:
            with self.subTest(name), open(os.path.join(folder, name), "rb") as f:
                text = f.read()
                for old in (False, True):
                    if old:
                        for new, former in (
                            (b"daemon_lib.vmbuilder", b"pvcapid.vmbuilder"),
                            (b"daemon_lib.libvirt_schema", b"pvcapid.libvirt_schema"),
                            (b"pvcworkerd.Daemon", b"pvcapid.Daemon"),
                        ):
                            text = text.replace(new, former)
                    data = vm_data()
                    if b"ova_details" in text:
                        data["ova_details"] = {"name": "appliance"}
                        data["volumes"] = [
                            {"pool": "vms", "volume_name": "ova_appliance_sda", "volume_format": "vmdk", "disk_id": "sda", "disk_size_gb": 2}
                        ]
                    with Host(text, data) as h:
                        answers = h.run()
                        self.assertEqual(h.end(), 0)
                    for step, answer in answers.items():
                        self.assertNotEqual(answer["op"], "failed", (name, step, answer))
                    self.assertIn("<name>web7</name>", answers["create"]["xml"])
                    self.assertIn(UUID, answers["create"]["xml"])

    def test_failures_of_loading(self):
        for name, script, cls, says in (
            ("syntax", "def (\n", "SyntaxError", "invalid syntax"),
            ("empty", "", "ScriptError", "neither a class VMBuilderScript(VMBuilder) nor a function install"),
            ("another class", "class VMBuilderScript:\n    pass\n", "ScriptError", "extends VMBuilder"),
            ("top level raises", "1/0\n", "ZeroDivisionError", "division by zero"),
            ("top level exits", "import sys\nsys.exit(0)\n", "SystemExit", "sys.exit(0)"),
            ("not UTF-8", b"x = '\xff'\n", "SyntaxError", "utf-8"),
            ("NUL", b"x = '\0'\n", None, "null byte"),
            ("unknown name", "from daemon_lib.common import get_vm\n", "ImportError", "daemon_lib.common has no get_vm; it has run_os_command"),
            ("unknown module", "import daemon_lib.vm\n", "ModuleNotFoundError", "daemon_lib.ceph, daemon_lib.common"),
            ("own unknown name", "from seedbed import Builder\n", "ImportError", "VMBuilder"),
        ):
            with self.subTest(name), Host(script) as h:
                answer = h.begin()
                self.assertEqual((answer["op"], answer["step"]), ("failed", "load"))
                if cls:
                    self.assertEqual(answer["class"], cls)
                self.assertIn(says, answer["message"])
                self.assertEqual(h.step("setup")["class"], "ScriptError")
                self.assertEqual(h.end(), 0)

    def test_failures_of_steps(self):
        for step in ("setup", "create", "prepare", "install", "cleanup"):
            script = method(step, "self.fail('no luck with %s' % self.vm_name)")
            with self.subTest(step), Host(script) as h:
                answer = h.run()[step]
                self.assertEqual(h.end(), 0)
            self.assertEqual((answer["op"], answer["step"], answer["class"], answer["message"]), ("failed", step, "ProvisioningError", "no luck with web7"))

    def test_exceptions(self):
        for name, body, cls, says in (
            ("exit", "import sys; sys.exit(3)", "SystemExit", "sys.exit(3)"),
            ("interrupt", "raise KeyboardInterrupt", "KeyboardInterrupt", ""),
            ("generator", "raise GeneratorExit", "GeneratorExit", ""),
            ("recursion", "def f(): return f()\nf()", "RecursionError", "recursion"),
            ("memory", "raise MemoryError('no more')", "MemoryError", "no more"),
            ("own", "class Mine(BaseException): pass\nraise Mine('x')", "Mine", "x"),
            ("surrogate", "raise OSError('a \\udcff b')", "OSError", "a \\udcff b"),
            ("bad text", "class Bad(Exception):\n  def __str__(self): raise ValueError\nraise Bad()", "Bad", "cannot be had"),
            ("long text", "raise OSError('x' * (1 << 26))", "OSError", "characters left out"),
        ):
            with self.subTest(name), Host(method("install", body)) as h:
                answer = h.run()["install"]
                self.assertEqual(h.end(), 0)
                self.assertEqual((answer["op"], answer["class"]), ("failed", cls))
                self.assertIn(says, answer["message"])

    def test_traceback_is_the_scripts(self):
        script = CLASS + "    def install(self):\n        inner(self)\n\ndef inner(b):\n    try:\n        {}['key']\n    except KeyError as e:\n        raise RuntimeError('outer') from e\n"
        with Host(script) as h:
            answer = h.run()["install"]
            trace = answer["traceback"]
        for line in ("KeyError: 'key'", "direct cause", "RuntimeError: outer", "in install", "in inner", "{}['key']"):
            self.assertIn(line, trace)
        for line in ("_session.py", "runner.py", "frozen"):
            self.assertNotIn(line, trace)
        with Host(method("install", "self.fail('x')")) as h:
            trace = h.run()["install"]["traceback"]
        self.assertNotIn("vmbuilder.py", trace)
        self.assertIn("self.fail('x')", trace)

    def test_create_must_return_text(self):
        for body, says in (("return None", "NoneType"), ("return b'<domain/>'", "bytes"), ("return '  '", "str"), ("return 'x' * (9 << 20)", "at most")):
            with self.subTest(body), Host(method("create", body)) as h:
                answer = h.run()["create"]
                self.assertEqual(answer["op"], "failed")
                self.assertIn(says, answer["message"])

    def test_output_is_the_scripts(self):
        body = "import sys, os\nprint('out', chr(0xdcff)); print('err', file=sys.stderr)\nsys.stdout.buffer.write(b'\\xff\\xfe\\n'); os.write(1, b'raw\\n')"
        with Host(method("install", body)) as h:
            self.assertEqual(h.run()["install"]["op"], "done")
            self.assertEqual(h.end(), 0)
        self.assertEqual(bytes(h.out), b"out \xff\n\xff\xfe\nraw\n")
        self.assertEqual(bytes(h.err), b"err\n")

    def test_children_do_not_speak(self):
        body = (
            "import os, subprocess, sys\n"
            "r = subprocess.run([sys.executable, '-I', '-c', 'import os; os.fstat(3)'], close_fds=False, stderr=subprocess.DEVNULL)\n"
            "assert r.returncode == 1, 'a command has the channel'\n"
            "from seedbed import add_volume\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    self.log_info('child'); assert not add_volume(None, 'p', 'v', '1G')[0]\n"
            "    return\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    raise ValueError('in the child')\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    sys.exit(9)\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9\n"
        )
        with Host(method("install", body)) as h:
            answers = h.run()
            self.assertEqual(h.end(), 0)
        self.assertEqual(answers["install"], {"op": "done", "step": "install"})
        self.assertEqual((h.logs, h.calls), ([], []))
        self.assertIn(b"child\n", bytes(h.err))
        self.assertIn(b"ValueError: in the child", bytes(h.err))

    def test_threads(self):
        body = (
            "import threading\n"
            "from seedbed import add_volume\n"
            "self.late = threading.Event(); self.said = []\n"
            "def after():\n"
            "    self.late.wait(); self.said.append(add_volume(None, 'p', 'late', '1G'))\n"
            "self.thread = threading.Thread(target=after); self.thread.start()\n"
            "ts = [threading.Thread(target=add_volume, args=(None, 'p', str(i), '1G')) for i in range(8)]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]\n"
        )
        script = method("install", body) + (
            "    def cleanup(self):\n        self.late.set(); self.thread.join()\n        assert self.said[0][0], self.said\n"
        )
        with Host(script) as h:
            answers = h.run()
            self.assertEqual(h.end(), 0)
        self.assertEqual([answers["install"]["op"], answers["cleanup"]["op"]], ["done", "done"], answers)
        self.assertEqual(sorted(args["name"] for _, args in h.calls), sorted([str(i) for i in range(8)] + ["late"]))

    def test_a_thread_does_not_keep_it(self):
        with Host(method("install", "import threading\nthreading.Thread(target=threading.Event().wait).start()")) as h:
            self.assertEqual(h.run()["install"]["op"], "done")
            self.assertEqual(h.end(), 0)

    def test_the_worker_goes(self):
        with Host(CLASS) as h:
            self.assertEqual(h.begin()["op"], "ready")
            h.socket.shutdown(2)
            self.assertEqual(h.process.wait(timeout=20), 0)

    def test_unknown_step(self):
        with Host(CLASS) as h:
            h.begin()
            self.assertIn("step 'rest' does not exist", h.step("rest")["message"])


class Calls(unittest.TestCase):
    BODY = (
        "from daemon_lib.ceph import add_volume, clone_volume, map_volume, unmap_volume\n"
        "from daemon_lib.vmbuilder import open_zk\n"
        "from pvcworkerd.Daemon import config\n"
        "with open_zk(config) as zk:\n"
        "    for ok, message in (add_volume(zk, 'vms', 'a', '8G'), clone_volume(zk, 'vms', 'src', 'b'), map_volume(zk, 'vms', 'a'), unmap_volume(zk, 'vms', 'a')):\n"
        "        self.log_info('%s %s' % (ok, message))"
    )

    def test_done(self):
        with Host(method("prepare", self.BODY)) as h:
            self.assertEqual(h.run()["prepare"]["op"], "done")
        self.assertEqual(
            h.calls,
            [
                ("add_volume", {"pool": "vms", "name": "a", "size": "8G"}),
                ("clone_volume", {"pool": "vms", "name": "b", "source": "src"}),
                ("map_volume", {"pool": "vms", "name": "a"}),
                ("unmap_volume", {"pool": "vms", "name": "a"}),
            ],
        )
        self.assertIn(("info", "True /dev/rbd/vms/a"), h.logs)

    def test_refused(self):
        refuse = {"add_volume": "the pool is full", "map_volume": 'ERROR: No volume with name "a" is present in pool "vms".'}
        with Host(method("prepare", self.BODY), refuse=refuse) as h:
            self.assertEqual(h.run()["prepare"]["op"], "done")
        self.assertIn(("info", "False ERROR: the pool is full"), h.logs)
        self.assertIn(("info", 'False ERROR: No volume with name "a" is present in pool "vms".'), h.logs)

    def test_no_way_around(self):
        for body, cls, says in (
            ("from daemon_lib.vmbuilder import open_zk\nwith open_zk({}) as zk:\n    zk.read('x')", "ClusterError", "zkhandler.read"),
            ("from pvcapid.vmbuilder import open_db\nwith open_db({}) as (conn, cur):\n    pass", "ClusterError", "no database"),
        ):
            with self.subTest(says), Host(method("setup", body)) as h:
                answer = h.run()["setup"]
                self.assertEqual(answer["class"], cls)
                self.assertIn(says, answer["message"])


if __name__ == "__main__":
    unittest.main()
