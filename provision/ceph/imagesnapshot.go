//go:build ceph

package ceph

import (
	"context"
	"fmt"
	"syscall"

	"github.com/ceph/go-ceph/rbd"
)

// #cgo LDFLAGS: -lrados
// #include <rados/librados.h>
import "C"

// The monitors assign the IDs of snapshots, and they change the map of the OSDs at most once a
// second (paxos_propose_interval): librbd waits for that after the disk is written. We ask for the
// ID while the disk is being written, and then take the snapshot with the steps that librbd takes
// once it has the ID. See docs/decisions/0016-image-snapshots.md.

// ready reports whether we can take the snapshot ourselves: the image's data must be in the pool
// that assigns the ID.
func (h header) ready() bool { return h.plain() && h.features&rbd.FeatureDataPool == 0 }

// numbered asks for the ID of a snapshot of h, and returns a function that waits for the answer at
// most until ctx ends. The ID is 0 for an image whose snapshot librbd must take. name is for
// messages.
func (p *Pool) numbered(ctx context.Context, h header, name string) (wait func() (uint64, error)) {
	if !h.ready() {
		return func() (uint64, error) { return 0, nil }
	}
	var (
		id   uint64
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		id, err = call(ctx, p, "ask for a snapshot of "+name, "", func(_ context.Context, s *session) (uint64, error) { return s.snapshotID() })
	}()
	return func() (uint64, error) {
		<-done
		return id, err
	}
}

// snapshotID returns an ID that no snapshot in the pool ever had. An unused ID does no harm.
func (s *session) snapshotID() (uint64, error) {
	var id C.rados_snap_t
	if code := C.rados_ioctx_selfmanaged_snap_create(C.rados_ioctx_t(s.io.Pointer()), &id); code < 0 {
		return 0, refusal(-code)
	}
	return uint64(id), nil
}

// refusal is an errno of librados for which go-ceph has no function.
type refusal syscall.Errno

func (r refusal) Error() string  { return "librados: " + syscall.Errno(r).Error() }
func (r refusal) ErrorCode() int { return int(r) }

// isProtected is the state of a protected snapshot (RBD_PROTECTION_STATUS_PROTECTED in
// cls_rbd_types.h).
const isProtected = 2

// takeSnapshot takes and protects the snapshot from which volumes are cloned, on an image that only
// its caller knows of. Clones of format 2 do not require protection, but it keeps the snapshot from
// an operator's rbd snap purge. A removal cleans up what an interrupted takeSnapshot leaves.
func (s *session) takeSnapshot(h header, id uint64) error {
	if id == 0 {
		return s.byID(h.id, func(img *rbd.Image) error {
			snap, err := img.CreateSnapshot(snapshot)
			if err = ignore(err, eexist); err != nil {
				return err
			}
			if snap == nil {
				snap = img.GetSnapshot(snapshot)
			}
			return ignore(snap.Protect(), ebusy) // it already is
		})
	}
	// As in librbd/operation/SnapshotCreateRequest.h: the header first, then the object map.
	if err := s.change(headerObject+h.id, method{"snapshot_add", append(encodeTexts(snapshot), encodeNumber(id)...)}); err != nil {
		return err
	}
	if h.features&rbd.FeatureObjectMap != 0 {
		if err := s.keepMap(h, id); err != nil {
			return err
		}
	}
	return s.change(headerObject+h.id, method{"set_protection_status", append(encodeNumber(id), isProtected)})
}

// keepMap copies an image's object map to its snapshot, and records that nothing has changed since
// (librbd/object_map/SnapshotCreateRequest.h).
func (s *session) keepMap(h header, id uint64) error {
	head := mapObject + h.id
	st, err := s.io.Stat(head)
	if err != nil {
		return err
	}
	bits := make([]byte, st.Size)
	n, err := s.io.Read(head, bits, 0)
	if err != nil {
		return err
	}
	if err := s.io.WriteFull(fmt.Sprintf("%s.%016x", head, id), bits[:n]); err != nil {
		return err
	}
	if h.features&rbd.FeatureFastDiff == 0 {
		return nil
	}
	return s.change(head, method{name: "object_map_snap_add"})
}
