"""The library that provisioning scripts import.

    from seedbed import VMBuilder, ProvisioningError, chroot, run_os_command

A script has either a class VMBuilderScript(VMBuilder), whose steps setup, create,
prepare, install and cleanup run in that order on one object, or a function
install(**kwargs). The same names exist under the module paths that scripts written
for PVC import. _surface.py lists them all.

The worker changes volumes, not the script. add_volume, clone_volume, map_volume and
unmap_volume call the worker. Each change is recorded, with what undoes it, before it
is made.
"""

from ._modules import missing
from .ceph import add_volume, clone_volume, map_volume, unmap_volume
from .common import run_os_command
from .domain import domain_xml
from .vmbuilder import (
    ClusterError,
    ProvisioningError,
    ValidationError,
    VMBuilder,
    chroot,
    config,
    fail,
    log_err,
    log_info,
    log_warn,
    open_db,
    open_zk,
)

__all__ = [
    "ClusterError",
    "ProvisioningError",
    "VMBuilder",
    "ValidationError",
    "add_volume",
    "chroot",
    "clone_volume",
    "config",
    "domain_xml",
    "fail",
    "log_err",
    "log_info",
    "log_warn",
    "map_volume",
    "open_db",
    "open_zk",
    "run_os_command",
    "unmap_volume",
]

__getattr__ = missing(__name__, __all__)
