// Package ceph keeps volumes and images as RBD images in one pool of a Ceph cluster:
//
//	seedbed-image.<name>              images; volumes are cloned from their snapshot @seedbed
//	seedbed-volume.<name>             volumes: clones (format 2) of an image, or blank
//	seedbed-building.<node>.<random>  what that node has not finished; swept when it opens the
//	                                  pool, or by others once abandoned
//	RBD's trash                       removed volumes, until they expire
//
// The tag that says to whom an image belongs is in its image-meta, under the key "seedbed" ("rbd
// image-meta get POOL/IMAGE seedbed"). An image that has our prefix and no tag belongs to another
// program and is never touched. An image is made under a building name and then renamed, and its
// tag says "ready" only after the rename: RBD's rename is not atomic, and an image that a crash
// left half renamed is not ready. Tags and names are read and written in the RADOS objects in which
// RBD keeps them, because opening an image costs more than everything else
// (docs/decisions/0015-rbd-headers.md).
//
// The names, tags and parsers are plain Go and always built. The driver needs librados and librbd
// and is built with the tag "ceph" (cgo; on Debian 12 also "pacific"). librbd does not take
// contexts: each call runs in a goroutine that its caller leaves when the context ends, and
// librados' own timeouts end it soon after.
package ceph
