"""Describes an exception: its class, its message, and the script's part of its traceback."""

import os
import traceback

from ._channel import text

# The longest traceback that is sent.
MAX_TRACEBACK = 256 << 10

# Files whose frames do not help the author of a script.
_LIBRARY = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RUNNER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(_LIBRARY))), "runner.py")


def failure(step, error):
    """The message that says how a step failed."""
    message = {
        "op": "failed",
        "step": step,
        "class": type(error).__name__,
        "message": _message(error),
        "traceback": trace(error),
    }
    if _unreached():
        message["unreached"] = True
    return message


def _unreached():
    """Reports whether any process of this network has asked for a host that no route leads to, or for
    a name server of this host that is not there. Only a network without the host's can tell by that."""
    try:
        with open("/proc/self/net/snmp") as f:
            lines = [line.split() for line in f]
        with open("/proc/self/net/snmp6") as f:
            counts = dict(line.split() for line in f)
    except (OSError, ValueError):
        return False
    for names, values in zip(lines[::2], lines[1::2]):
        counts.update({names[0] + name: value for name, value in zip(names[1:], values[1:])})
    return any(counts.get(name, "0") != "0" for name in ("Ip:OutNoRoutes", "Ip6OutNoRoutes", "Udp:NoPorts"))


def _message(error):
    if isinstance(error, SystemExit):
        return "the script ended itself with sys.exit(%s): a step ends by returning, and a job by raising" % (
            "" if error.code is None else _shown(error.code)
        )
    try:
        return text(str(error), 64 << 10)
    except BaseException as e:  # noqa: BLE001  a script's exception may raise whatever it likes
        return "(its message cannot be had: %s)" % type(e).__name__


def _shown(value):
    try:
        return text(repr(value), 1 << 10)
    except BaseException:  # noqa: BLE001
        return type(value).__name__


def trace(error):
    """The traceback as Python prints it, without the runner's and the library's frames."""
    try:
        told = traceback.TracebackException.from_exception(error)
        _strip(told, set())
        return text("".join(told.format()), MAX_TRACEBACK)
    except BaseException as e:  # noqa: BLE001  __str__ and __repr__ are the script's
        return "%s (its traceback cannot be shown: %s)\n" % (type(error).__name__, type(e).__name__)


def _strip(told, seen):
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    told.stack = traceback.StackSummary.from_list([f for f in told.stack if not _ours(f.filename)])
    _strip(told.__cause__, seen)
    _strip(told.__context__, seen)
    for inner in getattr(told, "exceptions", None) or ():
        _strip(inner, seen)


def _ours(filename):
    return filename.startswith(_LIBRARY) or filename == _RUNNER or filename.startswith("<frozen ")
