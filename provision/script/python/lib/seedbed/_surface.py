"""Which names a script may import, by module. Plain data: the static check reads it too."""

_BUILDER = (
    "ClusterError",
    "ProvisioningError",
    "VMBuilder",
    "ValidationError",
    "chroot",
    "fail",
    "log_err",
    "log_info",
    "log_warn",
    "open_db",
    "open_zk",
)
_CEPH = ("add_volume", "clone_volume", "map_volume", "unmap_volume")
_COMMON = ("run_os_command",)
_SCHEMA = (
    "devices_default",
    "devices_disk_coordinator",
    "devices_disk_footer",
    "devices_disk_header",
    "devices_net_interface",
    "devices_scsi_controller",
    "devices_serial",
    "devices_vhostmd",
    "devices_vnc",
    "libvirt_footer",
    "libvirt_header",
)

# The library's own modules.
MODULES = {
    "seedbed": _BUILDER + _CEPH + _COMMON + ("config", "domain_xml"),
    "seedbed.vmbuilder": _BUILDER + ("config",),
    "seedbed.ceph": _CEPH,
    "seedbed.common": _COMMON,
    "seedbed.libvirt_schema": _SCHEMA,
    "seedbed.domain": ("domain_xml",),
}

# The module paths of scripts written for PVC: which of ours has the names, and the names.
# The first four are those of 0.9.84 and later, the pvcapid ones those of 0.9.56 to 0.9.83.
ALIASES = {
    "daemon_lib.vmbuilder": ("seedbed.vmbuilder", _BUILDER),
    "daemon_lib.libvirt_schema": ("seedbed.libvirt_schema", _SCHEMA),
    "daemon_lib.common": ("seedbed.common", _COMMON),
    "daemon_lib.ceph": ("seedbed.ceph", _CEPH),
    "pvcworkerd.Daemon": ("seedbed.vmbuilder", ("config",)),
    "pvcapid.vmbuilder": ("seedbed.vmbuilder", _BUILDER),
    "pvcapid.libvirt_schema": ("seedbed.libvirt_schema", _SCHEMA),
    "pvcapid.Daemon": ("seedbed.vmbuilder", ("config",)),
}
