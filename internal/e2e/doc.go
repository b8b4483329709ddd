// Package e2e holds the end-to-end tests: the real daemons, started as an
// operator starts them, with libvirt, the kernel and real guests. They need root.
package e2e
