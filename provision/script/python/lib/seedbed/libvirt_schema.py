"""Pieces of a domain's XML. Fill them with str.format and join them in this order:

libvirt_header; for each disk devices_disk_header, devices_disk_coordinator for each
monitor, devices_disk_footer; devices_net_interface for each NIC; devices_default;
devices_serial and devices_vnc if required; devices_scsi_controller; libvirt_footer.

When the domain is defined, Seedbed replaces what the host decides: domain type,
machine, emulator, SMBIOS, names of taps, and the path of a disk of a directory pool.
"""

from ._modules import missing

# vm_name, vm_uuid, vm_description, vm_memory (MiB), vm_vcpus, vm_architecture
libvirt_header = """<domain type='kvm'>
  <name>{vm_name}</name>
  <uuid>{vm_uuid}</uuid>
  <description>{vm_description}</description>
  <memory unit='MiB'>{vm_memory}</memory>
  <vcpu>{vm_vcpus}</vcpu>
  <cpu mode='host-model'>
    <topology sockets='1' cores='{vm_vcpus}' threads='1'/>
  </cpu>
  <os>
    <type arch='{vm_architecture}' machine='pc'>hvm</type>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>restart</on_crash>
  <devices>
"""

libvirt_footer = """  </devices>
</domain>
"""

devices_default = """    <emulator>/usr/bin/kvm</emulator>
    <controller type='usb' index='0'/>
    <controller type='pci' index='0' model='pci-root'/>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
"""

# vm_name
devices_serial = """    <serial type='pty'>
      <log file='/var/log/libvirt/{vm_name}.log' append='on'/>
    </serial>
    <console type='pty'/>
"""

# vm_vncport, vm_vnc_autoport (yes or no), vm_vnc_bind
devices_vnc = """    <graphics type='vnc' port='{vm_vncport}' autoport='{vm_vnc_autoport}' listen='{vm_vnc_bind}'/>
"""

devices_scsi_controller = """    <controller type='scsi' index='0' model='virtio-scsi'/>
"""

# disk_id, ceph_storage_secret, disk_pool, vm_name
devices_disk_header = """    <disk type='network' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap'/>
      <target dev='{disk_id}' bus='scsi'/>
      <auth username='libvirt'>
        <secret type='ceph' uuid='{ceph_storage_secret}'/>
      </auth>
      <source protocol='rbd' name='{disk_pool}/{vm_name}_{disk_id}'>
"""

# coordinator_name, coordinator_ceph_mon_port
devices_disk_coordinator = """        <host name='{coordinator_name}' port='{coordinator_ceph_mon_port}'/>
"""

devices_disk_footer = """      </source>
    </disk>
"""

devices_vhostmd = """    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='/dev/shm/vhostmd0'/>
      <target dev='sdz' bus='usb'/>
      <readonly/>
    </disk>
"""

# eth_macaddr, eth_bridge
devices_net_interface = """    <interface type='bridge'>
      <mac address='{eth_macaddr}'/>
      <source bridge='{eth_bridge}'/>
      <model type='virtio'/>
    </interface>
"""

__all__ = [
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
]
__getattr__ = missing(__name__, __all__)
