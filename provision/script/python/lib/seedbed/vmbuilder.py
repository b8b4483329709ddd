"""The class that scripts extend, and what goes with it."""

import contextlib
import os
import uuid

from . import _channel
from ._modules import missing


class ProvisioningError(Exception):
    """The machine cannot be made as asked."""


class ValidationError(Exception):
    """Something that was given is not valid."""


class ClusterError(Exception):
    """The host or its storage cannot do what is asked."""


# What scripts hand to open_zk. There is nothing in it: hosts keep their secrets.
config = {}

# The UUID of the machine that is being made: the session sets it.
machine = None


class VMBuilder:
    """The five steps of making a machine, none of which does anything yet.

    vm_name, vm_profile   str
    vm_id                 int: the number at the end of vm_name, 0 without one
    vm_uuid               uuid.UUID: the one the machine will have
    vm_data               dict: system_details, networks, volumes, mac_template,
                          script_arguments, and what a disk of Ceph is reached by

    create returns the domain's XML as a string. cleanup is called after install, and
    also after a step that failed.
    """

    def __init__(self, vm_name, vm_id, vm_profile, vm_data):
        self.vm_name = vm_name
        self.vm_id = vm_id
        self.vm_uuid = machine or uuid.uuid4()
        self.vm_profile = vm_profile
        self.vm_data = vm_data

    def log_info(self, msg):
        """Puts a line into the job's log."""
        log_info(msg)

    def log_warn(self, msg):
        """Puts a warning into the job's log."""
        log_warn(msg)

    def log_err(self, msg):
        """Puts an error into the job's log; the job goes on."""
        log_err(msg)

    def fail(self, msg, exception=ProvisioningError):
        """Ends the job with this message: raises the exception."""
        fail(msg, exception)

    def setup(self):
        """Looks whether all that is needed is there."""

    def create(self):
        """Returns the domain's XML."""

    def prepare(self):
        """Makes volumes and filesystems, and mounts them."""

    def install(self):
        """Installs the system."""

    def cleanup(self):
        """Unmounts and unmaps; what is there of it, for it runs after a failure as well."""


def log_info(msg):
    """Puts a line into the job's log."""
    _channel.current.log("info", msg)


def log_warn(msg):
    """Puts a warning into the job's log."""
    _channel.current.log("warn", msg)


def log_err(msg):
    """Puts an error into the job's log; the job goes on."""
    _channel.current.log("error", msg)


def fail(msg, exception=ProvisioningError):
    """Ends the job with this message: raises the exception."""
    raise exception(msg)


class _Cluster:
    """What open_zk gives: only to be handed on to the functions for volumes."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ClusterError(
            "a script has no way into the cluster's records (zkhandler.%s): "
            "use vm_data, and add_volume, clone_volume, map_volume and unmap_volume" % name
        )


@contextlib.contextmanager
def open_zk(config):
    """Gives what the functions for volumes take as their first argument."""
    yield _Cluster()


@contextlib.contextmanager
def open_db(config):
    """Is refused: a script has no database. vm_data has what the profile says."""
    raise ClusterError("a script has no database: vm_data has what the profile says")
    yield  # a context manager must be a generator


@contextlib.contextmanager
def chroot(destination):
    """Runs what is in its block with another root directory; such blocks nest."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chroot(destination)
            try:
                os.chdir("/")
                yield
            finally:
                os.fchdir(root)
                os.chroot(".")
                os.fchdir(before)
        finally:
            os.close(before)
    finally:
        os.close(root)


__all__ = [
    "ClusterError",
    "ProvisioningError",
    "VMBuilder",
    "ValidationError",
    "chroot",
    "config",
    "fail",
    "log_err",
    "log_info",
    "log_warn",
    "open_db",
    "open_zk",
]
__getattr__ = missing(__name__, __all__)
