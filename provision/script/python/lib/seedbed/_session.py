"""The session of one script: loads it, and runs its steps as the worker asks for them.

    worker: {"op":"begin","script":PATH,"vm_name":…,"vm_id":…,"vm_uuid":…,"vm_profile":…,
             "vm_data":{…},"temporary_directory":PATH}
    we:     {"op":"ready","kind":"class"|"function"}
    worker: {"op":"step","step":"setup"|"create"|"prepare"|"install"|"cleanup"}
    we:     {"op":"done","step":…[,"xml":…]} or {"op":"failed","step":…|"load","class":…,"message":…,"traceback":…
                                                      [,"unreached":true]}
    worker: {"op":"end"}

While a step runs, a call and its answer, and lines for the log, go between
(_channel.py). The script's module is loaded here too, and only then.
"""

import linecache
import os
import sys
import types
import uuid

from . import _channel, _function, _modules, _report, vmbuilder

STEPS = ("setup", "create", "prepare", "install", "cleanup")

# The name of the script's module, as in PVC.
MODULE = "installer_script"

# The longest XML that create() may return.
MAX_XML = 8 << 20


class ScriptError(Exception):
    """The script cannot be run."""


def main(fd):
    """Runs the session over a file descriptor, and ends the process."""
    channel = _channel.use(_channel.Channel(fd))
    status = 0
    try:
        session = Session(channel)
        while session.turn(channel.receive()):
            pass
    except _channel.Gone as e:
        print("runner: %s" % e, file=sys.stderr)
        status = 1
    _leave(status)


class Session:
    """The state of a script between two messages."""

    def __init__(self, channel):
        self.channel = channel
        self.script = None  # the object whose methods are the steps
        self.root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def turn(self, message):
        """Carries out a message. Returns False if there is nothing more to do."""
        op = message and message.get("op")
        if op == "begin":
            self._answer("load", lambda: self._load(message))
        elif op == "step":
            self._answer(message.get("step"), lambda: self._step(message.get("step")))
        elif op in (None, "end"):
            return False
        else:
            raise _channel.Gone("the worker asks for %r, which is unknown" % op)
        return True

    def _answer(self, step, work):
        """Runs work, a part of the script, and sends the result."""
        error = None
        try:
            answer = work()
        except _channel.Gone:
            raise
        except BaseException as e:  # noqa: BLE001  SystemExit and KeyboardInterrupt too
            error = e
        if not self.channel.own:
            _end_child(error)
        self._restore()
        _flush()
        self.channel.send(answer if error is None else _report.failure(step, error))

    def _load(self, begin):
        if self.script is not None:
            raise ScriptError("a script is loaded already")
        _modules.install()
        vmbuilder.machine = uuid.UUID(begin["vm_uuid"])
        module = load(begin["script"])
        kind, make = entry(module)
        script = make(
            vm_name=begin["vm_name"],
            vm_id=int(begin["vm_id"]),
            vm_profile=begin["vm_profile"],
            vm_data=begin["vm_data"],
        )
        if kind == "function":
            script.function = module.install
            script.temporary_directory = begin["temporary_directory"].rstrip("/")
        self.script = script
        return {"op": "ready", "kind": kind}

    def _step(self, step):
        if step not in STEPS:
            raise ScriptError("step %r does not exist; the steps are %s" % (step, ", ".join(STEPS)))
        if self.script is None:
            raise ScriptError("the script could not be loaded")
        self.channel.step(True)
        try:
            result = getattr(self.script, step)()
        finally:
            if self.channel.own:
                self.channel.step(False)
        if step != "create":
            return {"op": "done", "step": step}
        if not isinstance(result, str) or not result.strip():
            raise ScriptError("create() returned %s: expected the domain's XML as a string" % type(result).__name__)
        if len(result) > MAX_XML:
            raise ScriptError("create() returned %d characters: at most %d are read" % (len(result), MAX_XML))
        return {"op": "done", "step": step, "xml": _channel.text(result, MAX_XML)}

    def _restore(self):
        """Restores the root and the working directory of the runner's start."""
        os.fchdir(self.root)
        if not os.path.samestat(os.stat("."), os.stat("/")):
            os.chroot(".")


def load(path):
    """The script's module, its top level having run."""
    with open(path, "rb") as f:
        source = f.read()
    code = compile(source, path, "exec")
    # A traceback shows its lines wherever the script has its root by then.
    lines = source.decode("utf-8", "replace").splitlines(True)
    linecache.cache[path] = (len(source), None, lines, path)
    module = types.ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    exec(code, module.__dict__)  # noqa: S102  this is what the sandbox is for
    return module


def entry(module):
    """What to run of a module: its kind, and what makes the object whose methods are the steps."""
    made = getattr(module, "VMBuilderScript", None)
    if made is not None:
        if not isinstance(made, type) or not issubclass(made, vmbuilder.VMBuilder):
            raise ScriptError("VMBuilderScript is not a class that extends VMBuilder")
        return "class", made
    if callable(getattr(module, "install", None)):
        return "function", _function.FunctionScript
    raise ScriptError("the script has neither a class VMBuilderScript(VMBuilder) nor a function install(**kwargs)")


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  the script may have put anything there
            pass


def _end_child(error):
    """Ends a child process of the script that came out of its step: the step is its parent's."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        print(_report.trace(error), file=sys.stderr, end="")
        status = 1
    _leave(status & 0xFF)


def _leave(status):
    """Ends the process at once, without waiting for threads or atexit functions of the script."""
    _flush()
    os._exit(status)
