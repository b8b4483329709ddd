// Package ceph keeps volumes and images as RBD images in one pool of a Ceph
// cluster:
//
//	seedbed-image.<name>              images; their snapshot @seedbed is what volumes are cloned from
//	seedbed-volume.<name>             volumes: clones (format 2) of an image, or blank
//	seedbed-building.<node>.<random>  what that node has not finished; swept when it opens the pool, or by others once abandoned
//	RBD's trash                       volumes that were removed, until their time is over
//
// The tag that says whose an image is stands in its image-meta, under the key
// "seedbed" ("rbd image-meta get POOL/IMAGE seedbed"). What has our prefix and
// no tag is a stranger's, and never touched. A thing is made under a building
// name and renamed, and its tag says "ready" only then: RBD's rename is not
// atomic, and what a crash left half renamed is not ready. Tags and names are read
// and written in the RADOS objects that RBD keeps them in, because to open an image
// costs more than all the rest (docs/decisions/0015-rbd-headers.md).
//
// The names, tags and parsers are plain Go and always built. The driver needs
// librados and librbd and is built with the tag "ceph" (cgo; on Debian 12 also
// "pacific"). librbd knows no context: each call runs in a goroutine that its
// caller leaves when the context ends, and librados' own timeouts end it soon after.
package ceph
