"""The class that scripts extend, its exceptions and its functions."""

import contextlib
import os
import uuid

from . import _channel
from ._modules import missing


class ProvisioningError(Exception):
    """The instance cannot be made as requested."""


class ValidationError(Exception):
    """A given value is not valid."""


class ClusterError(Exception):
    """The host or its storage cannot do what was requested."""


# What scripts pass to open_zk. It is empty, so that a script gets no secret of the host.
config = {}

# The UUID of the instance that the script makes. The session sets it.
machine = None


class VMBuilder:
    """The five steps of making an instance. By default, they do nothing.

    vm_name, vm_profile   str
    vm_id                 int: the number at the end of vm_name, 0 without one
    vm_uuid               uuid.UUID: the UUID of the instance
    vm_data               dict: system_details, networks, volumes, mac_template,
                          script_arguments, and how disks in Ceph are reached

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
        """Adds a line to the job's log."""
        log_info(msg)

    def log_warn(self, msg):
        """Adds a warning to the job's log."""
        log_warn(msg)

    def log_err(self, msg):
        """Adds an error to the job's log. The job continues."""
        log_err(msg)

    def fail(self, msg, exception=ProvisioningError):
        """Fails the job with this message, by raising the exception."""
        fail(msg, exception)

    def setup(self):
        """Checks that everything that is needed exists."""

    def create(self):
        """Returns the domain's XML."""

    def prepare(self):
        """Makes volumes and filesystems, and mounts them."""

    def install(self):
        """Installs the system."""

    def cleanup(self):
        """Unmounts and unmaps what exists. It also runs after a step that failed."""


def log_info(msg):
    """Adds a line to the job's log."""
    _channel.current.log("info", msg)


def log_warn(msg):
    """Adds a warning to the job's log."""
    _channel.current.log("warn", msg)


def log_err(msg):
    """Adds an error to the job's log. The job continues."""
    _channel.current.log("error", msg)


def fail(msg, exception=ProvisioningError):
    """Fails the job with this message, by raising the exception."""
    raise exception(msg)


class _Cluster:
    """The result of open_zk, to pass to the functions for volumes."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ClusterError(
            "a script has no way into the cluster's records (zkhandler.%s): "
            "use vm_data, and add_volume, clone_volume, map_volume and unmap_volume" % name
        )


@contextlib.contextmanager
def open_zk(config):
    """Returns the first argument of the functions for volumes."""
    yield _Cluster()


@contextlib.contextmanager
def open_db(config):
    """Is refused, because a script has no database. vm_data has the data of the profile."""
    raise ClusterError("a script has no database: vm_data has what the profile says")
    yield  # a context manager must be a generator


@contextlib.contextmanager
def chroot(destination):
    """Runs its block with another root directory. Such blocks can be nested."""
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
