// Package mapper maps volumes to block devices of this host, so that file systems can be made and
// mounted on them. The method depends on what the host has:
//
//	krbd        RBD, by the kernel's own client (rbd device map)
//	rbd-nbd     RBD, by librbd behind a network block device (rbd device map -t nbd)
//	rbd-fuse    RBD, by QEMU's storage daemon as a file (FUSE) under a loop device
//	qemu-nbd    qcow2, by qemu-nbd behind a network block device
//	qcow2-fuse  qcow2, like rbd-fuse
//
// The first one that works is used. What a qcow2 file says is understood by a confined process of
// its own (reader), because a guest can have written it. A mapping is recorded in the host's
// directory before anything of it is made, and until nothing of it is left:
//
//	<token>.json    the record; the token is random, and everything of the mapping carries it
//	<token>/        the mapping's own files: disk (the FUSE file), key (the Ceph user's, 0600)
//	lock            held by the one process that uses the directory
//
// Host.Sweep uses these records to find and remove what a crash left: loop devices by the token in
// their name, processes by the token in their arguments, kernel mappings by the image. Mappings
// belong to sessions, which end with their worker: no mapping survives a restart.
package mapper
