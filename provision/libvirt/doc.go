// Package libvirt is the hypervisor of a node: it defines, starts, watches and removes libvirt
// domains (QEMU, with KVM or under software emulation).
//
// The domain XML, the choice of the domain type and the console log are plain Go and always built.
// The driver itself needs libvirt's C library and is built with the tag "libvirt" (cgo, libvirt 9
// or newer at run time).
//
// Three rules hold everywhere. A domain is ours only if its metadata has our tag with the domain's
// own UUID; no other domain is ever touched. Every call has a connection to itself and ends when
// its context ends, even if the C library does not return; one more connection follows events. The
// worker survives a libvirtd that is absent or goes away: calls return seedbed.ErrUnavailable until
// it is back.
package libvirt
