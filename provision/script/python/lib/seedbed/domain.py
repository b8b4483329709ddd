"""Makes the domain of an instance from its profile and the pieces of libvirt_schema."""

import datetime
import random

from . import libvirt_schema
from ._modules import missing

# The value of {prefix} in a MAC template, and the beginning of a MAC without a template.
TEMPLATE_PREFIX = "52:54:01"
RANDOM_PREFIX = "52:54:00"


def domain_xml(builder):
    """Returns the XML for create(), by the templates of the builder's profile."""
    data = builder.vm_data
    system = data["system_details"]
    xml = [
        libvirt_schema.libvirt_header.format(
            vm_name=_escape(builder.vm_name),
            vm_uuid=builder.vm_uuid,
            vm_description=_escape(
                "Seedbed @ %s, profile '%s'"
                % (datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ"), builder.vm_profile)
            ),
            vm_memory=system["vram_mb"],
            vm_vcpus=system["vcpu_count"],
            vm_architecture=_escape(data["system_architecture"]),
        )
    ]
    for volume in data["volumes"]:
        xml.append(
            libvirt_schema.devices_disk_header.format(
                disk_id=_escape(volume["disk_id"]),
                ceph_storage_secret=_escape(data.get("ceph_monitor_secret") or ""),
                disk_pool=_escape(volume["pool"]),
                vm_name=_escape(builder.vm_name),
            )
        )
        for monitor in data.get("ceph_monitor_list") or ():
            xml.append(
                libvirt_schema.devices_disk_coordinator.format(
                    coordinator_name=_escape(monitor), coordinator_ceph_mon_port=_escape(data.get("ceph_monitor_port") or "")
                )
            )
        xml.append(libvirt_schema.devices_disk_footer)
    for index, network in enumerate(data["networks"]):
        xml.append(
            libvirt_schema.devices_net_interface.format(
                eth_macaddr=_escape(_mac(builder, network, index)), eth_bridge=_escape(network["eth_bridge"])
            )
        )
    xml.append(libvirt_schema.devices_default)
    if system["serial"]:
        xml.append(libvirt_schema.devices_serial.format(vm_name=_escape(builder.vm_name)))
    if system["vnc"]:
        xml.append(
            libvirt_schema.devices_vnc.format(
                vm_vncport=5900, vm_vnc_autoport="yes", vm_vnc_bind=_escape(system["vnc_bind"] or "127.0.0.1")
            )
        )
    xml.append(libvirt_schema.devices_scsi_controller)
    xml.append(libvirt_schema.libvirt_footer)
    return "".join(xml)


def _mac(builder, network, index):
    """Returns the MAC of a NIC: the job's, or the template's, or a random one."""
    if network.get("mac"):
        return network["mac"]
    template = builder.vm_data.get("mac_template")
    if template:
        return template.format(prefix=TEMPLATE_PREFIX, vmid="%x" % (builder.vm_id % 16), netid="%x" % (index % 16))
    return RANDOM_PREFIX + "".join(":%02x" % random.randrange(256) for _ in range(3))


def _escape(value):
    """Escapes a value for an attribute or for text between tags."""
    value = str(value)
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&apos;"), ('"', "&quot;")):
        value = value.replace(char, entity)
    return value


__all__ = ["domain_xml"]
__getattr__ = missing(__name__, __all__)
