"""Runs commands."""

import os
import shlex
import signal
import subprocess

from ._modules import missing

# The status of a command that did not end in time, and of one that could not be started.
TIMED_OUT = 128
NOT_STARTED = 255


# Opened here, because a chroot in which a command runs may have no /dev.
_NOTHING = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def run_os_command(command_string, background=False, environment=None, timeout=None):
    """Runs a command without a shell: (status, standard output, standard error).

    command_string is a list, or a text that is split as a shell does. environment
    replaces that of the script. After timeout seconds the command and everything that
    it started are killed, and the status is 128. If the command could not be started,
    the status is 255 and the reason replaces its standard error. With background, the
    function does not wait, and returns (0, None, None).
    """
    try:
        argv = shlex.split(command_string) if isinstance(command_string, str) else [os.fspath(a) for a in command_string]
        if background:
            subprocess.Popen(
                argv, env=environment, stdin=_NOTHING, stdout=_NOTHING, stderr=_NOTHING, start_new_session=True
            )
            return 0, None, None
        process = subprocess.Popen(
            argv, env=environment, stdin=_NOTHING, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except Exception as e:  # noqa: BLE001  PVC's gives a status for whatever happens
        return NOT_STARTED, "", "%s: %s" % (type(e).__name__, e)
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process)
            out, err = process.communicate()
            status = TIMED_OUT
            err += b"killed: it had not ended after %g s\n" % timeout
        except BaseException:
            _kill(process)
            raise
    return status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _kill(process):
    """Kills the command and the rest of its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


__all__ = ["run_os_command"]
__getattr__ = missing(__name__, __all__)
