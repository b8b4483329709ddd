// Package libvirt is the hypervisor of a node: it defines, starts, watches and
// removes libvirt domains (QEMU, with KVM or under software emulation).
//
// The domain XML, the choice of the domain type and the console log are plain
// Go and always built. The driver itself needs libvirt's C library and is built
// with the tag "libvirt" (cgo, libvirt 9 or newer at run time).
//
// Three rules hold everywhere. A domain is ours only when its metadata carries
// our tag with the domain's own UUID; any other is never touched. Every call
// has a connection for itself and ends when its context ends, whatever the C
// library does meanwhile; one more connection follows events. A libvirtd that is
// absent or goes away is no failure of the worker: calls answer
// seedbed.ErrUnavailable until it is back.
package libvirt
