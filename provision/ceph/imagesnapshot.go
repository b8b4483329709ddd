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

// The ID of a snapshot is the monitors' to give, who change the map of the OSDs
// once a second at most (paxos_propose_interval): librbd waits for that when the disk
// is written. Here it is asked for while the disk is written, and the snapshot is then taken by
// the steps that librbd takes once it has the ID. See docs/decisions/0016-image-snapshots.md.

// ready is what an RBD image needs for that: its data is in the pool that gives the ID.
func (h header) ready() bool { return h.plain() && h.features&rbd.FeatureDataPool == 0 }

// numbered asks for the ID of a snapshot of h, whose name is for messages, and gives the
// function that waits for the answer, until ctx ends at most: 0 for an image whose snapshot
// is librbd's to take.
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

// snapshotID is one that no snapshot in the pool ever had. One that is not used is of no harm.
func (s *session) snapshotID() (uint64, error) {
	var id C.rados_snap_t
	if code := C.rados_ioctx_selfmanaged_snap_create(C.rados_ioctx_t(s.io.Pointer()), &id); code < 0 {
		return 0, refusal(-code)
	}
	return uint64(id), nil
}

// refusal is an error of librados that go-ceph has no function for.
type refusal syscall.Errno

func (r refusal) Error() string  { return "librados: " + syscall.Errno(r).Error() }
func (r refusal) ErrorCode() int { return int(r) }

// isProtected is the state of a snapshot that is not removed by mistake (RBD_PROTECTION_STATUS_PROTECTED in cls_rbd_types.h).
const isProtected = 2

// takeSnapshot gives an RBD image that is written, and that nobody else knows of, the snapshot
// that its volumes are clones of, and protects it: of the second format, they do not ask for
// that, but an operator's rbd snap purge then leaves it. What this leaves when it is cut off, a removal takes.
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
			return ignore(snap.Protect(), ebusy) // it is
		})
	}
	// librbd/operation/SnapshotCreateRequest.h: the header first, then the map of the objects.
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

// keepMap keeps the map of an image's objects as that of its snapshot, and notes that
// nothing has changed since (librbd/object_map/SnapshotCreateRequest.h).
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
