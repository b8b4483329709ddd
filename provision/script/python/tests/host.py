"""A stand-in for the worker: starts the runner on a socket pair, and answers it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(os.path.dirname(HERE), "runner.py")

# Puts the socket where the runner expects it.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.argv[2], sys.argv[2:])"

UUID = "ec2aaaaa-0000-4000-8000-000000000001"


def vm_data(**more):
    """vm_data as pvc.md has it: a machine with root, /var and swap, and two NICs."""
    data = {
        "script_arguments": {"deb_release": "stable", "deb_mirror": "http://mirror.invalid/debian"},
        "system_details": {"vram_mb": 512, "vcpu_count": 2, "serial": True, "vnc": True, "vnc_bind": None, "name": "small"},
        "mac_template": None,
        "networks": [
            {"vni": "lan", "eth_bridge": "vmbrlan", "mac": "52:54:00:00:00:01"},
            {"vni": "wan", "eth_bridge": "vmbrwan", "mac": "52:54:00:00:00:02"},
        ],
        "volumes": [
            volume("sda", mountpoint="/", filesystem="ext4", filesystem_args="-L=root -q"),
            volume("sdb", mountpoint="/var", filesystem="xfs"),
            volume("sdc", mountpoint="swap", filesystem="swap"),
        ],
        "script": "",
        "system_architecture": "x86_64",
        "ceph_monitor_list": ["mon1", "mon2"],
        "ceph_monitor_port": "6789",
        "ceph_monitor_secret": "96721723-8650-4a72-b8f6-a93cd1a20f0c",
    }
    data.update(more)
    return data


def volume(disk, pool="vms", size=4, source=None, mountpoint=None, filesystem=None, filesystem_args=""):
    return {
        "pool": pool,
        "disk_id": disk,
        "disk_size_gb": None if source else size,
        "source_volume": source,
        "mountpoint": mountpoint,
        "filesystem": filesystem,
        "filesystem_args": filesystem_args,
    }


class Host:
    """A runner that has got a script. Use it as a context manager."""

    def __init__(self, script, data=None, refuse=None, name="web7", path=None):
        self.directory = tempfile.mkdtemp(prefix="seedbed-runner-")
        self.script = os.path.join(self.directory, "script.py")
        with open(self.script, "wb") as f:
            f.write(script if isinstance(script, bytes) else script.encode())
        self.target = os.path.join(self.directory, "target")
        self.data = vm_data() if data is None else data
        self.refuse = refuse or {}  # call name -> message
        self.name = name
        self.calls = []
        self.logs = []
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.lines = ours.makefile("rb")
        env = dict(os.environ)
        if path:
            env["PATH"] = path + ":" + env["PATH"]
        argv = [sys.executable, "-I", "-B", "-u", "-X", "utf8", RUNNER]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", LAUNCH, str(theirs.fileno())] + argv,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        theirs.close()
        self.out, self.err = bytearray(), bytearray()
        self.readers = [
            threading.Thread(target=self._drain, args=(self.process.stdout, self.out)),
            threading.Thread(target=self._drain, args=(self.process.stderr, self.err)),
        ]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _drain(pipe, into):
        with pipe:
            while True:
                more = pipe.read1(1 << 16)
                if not more:
                    return
                into += more

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()
        try:
            self.process.wait(timeout=20)
        finally:
            self.process.kill()
            for reader in self.readers:
                reader.join()
            shutil.rmtree(self.directory)

    def send(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def answer(self):
        """The runner's next message that ends a turn; calls are answered and logs kept on the way."""
        while True:
            line = self.lines.readline()
            if not line:
                return None
            message = json.loads(line)
            if message["op"] == "log":
                self.logs.append((message["level"], message["msg"]))
            elif message["op"] == "call":
                self.calls.append((message["name"], message["args"]))
                refused = self.refuse.get(message["name"])
                self.send({"op": "answer", "id": message["id"], "ok": refused is None, "message": refused or ""})
            else:
                return message

    def begin(self):
        self.send(
            {
                "op": "begin",
                "script": self.script,
                "vm_name": self.name,
                "vm_id": 7,
                "vm_uuid": UUID,
                "vm_profile": "small",
                "vm_data": self.data,
                "temporary_directory": self.target,
                "define": {"macs": [n["mac"] for n in self.data["networks"]]},
            }
        )
        return self.answer()

    def step(self, name):
        self.send({"op": "step", "step": name})
        return self.answer()

    def run(self):
        """The whole session: the answers by step, the first failure ending it but for cleanup."""
        answers = {"load": self.begin()}
        for name in ("setup", "create", "prepare", "install", "cleanup"):
            if any(a is None or a["op"] == "failed" for a in answers.values()) and name != "cleanup":
                continue
            answers[name] = self.step(name)
        return answers

    def end(self):
        """Ends the session: the runner's exit status."""
        self.send({"op": "end"})
        status = self.process.wait(timeout=20)
        for reader in self.readers:
            reader.join()
        return status
