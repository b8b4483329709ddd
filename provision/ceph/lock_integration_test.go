//go:build integration && ceph

package ceph

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rados"

	"seedbed"
	"seedbed/internal/lab"
)

// TestOwnLock: what an operation of ours that was given up has locked all the same
// can be changed, removed, put into the trash and swept by the connection that holds the lock.
func TestOwnLock(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	cfg.Trash = time.Hour
	p := open(t, cfg)
	base(t, p)
	locked := func(t *testing.T, name string) {
		t.Helper()
		err := p.do(t.Context(), "lock", "", func(_ context.Context, s *session) error {
			h, err := s.header(name)
			if err != nil {
				return err
			}
			return leaveLock(s, h.id)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	spec := func(volume, name string) seedbed.SnapshotSpec {
		return seedbed.SnapshotSpec{Volume: volume, Instance: "i", Name: name}
	}
	for what, do := range map[string]func(name string) error{
		"resize": func(name string) error {
			_, err := p.ResizeVolume(t.Context(), name, "i", 32*seedbed.MiB)
			return err
		},
		"snapshot": func(name string) error {
			_, err := p.CreateSnapshot(t.Context(), "job", spec(name, "one"))
			return err
		},
		"remove snapshot": func(name string) error {
			return p.RemoveSnapshot(t.Context(), spec(name, "first"), "job")
		},
	} {
		t.Run(what, func(t *testing.T) {
			name := strings.ReplaceAll(what, " ", "-")
			if _, err := p.CloneVolume(t.Context(), "job", volume(name)); err != nil {
				t.Fatal(err)
			}
			if _, err := p.CreateSnapshot(t.Context(), "job", spec(name, "first")); err != nil {
				t.Fatal(err)
			}
			locked(t, rbdOf(roleVolume, name))
			if err := do(name); err != nil {
				t.Error(err)
			}
			locked(t, rbdOf(roleVolume, name))
			item, err := p.TrashVolume(t.Context(), name, "i")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.PurgeVolume(t.Context(), item.ID, true); err != nil {
				t.Error(err)
			}
			if _, err := p.CloneVolume(t.Context(), "job", volume(name)); err != nil {
				t.Fatal(err)
			}
			locked(t, rbdOf(roleVolume, name))
			if err := p.RemoveVolume(t.Context(), name, "i"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("sweep", func(t *testing.T) {
		name := buildingName(cfg.Node)
		c.RBD(t, "create", "--size", "8M", cfg.Pool+"/"+name)
		c.RBD(t, "snap", "create", cfg.Pool+"/"+name+"@"+snapshot)
		locked(t, name)
		if err := p.sweep(t.Context()); err != nil {
			t.Error(err)
		}
	})
	only(t, c, p)
}

// TestLeftOpen: an image that an operation of ours has left open is free once the pool has connected
// again, which a removal that finds it so brings about.
func TestLeftOpen(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	base(t, p)
	if _, err := p.CloneVolume(t.Context(), "job", volume("open")); err != nil {
		t.Fatal(err)
	}
	err := p.do(t.Context(), "watch", "", func(_ context.Context, s *session) error {
		h, err := s.header(rbdOf(roleVolume, "open"))
		if err != nil {
			return err
		}
		w, err := s.io.WatchWithTimeout(headerObject+h.id, 20*time.Second) // its connection renews it every 5 s
		if err != nil {
			return err
		}
		go func() { // the callback of the connection waits for its reader
			for {
				select {
				case n := <-w.Events():
					n.Ack(nil)
				case <-w.Errors():
				case <-t.Context().Done():
					return
				}
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(t.Context(), "open", "i"); !errors.Is(err, errLeftOpen) {
		t.Errorf("%v; want %v", err, errLeftOpen)
	}
	lab.Await(t, lab.Patience, "the volume can be removed", func() bool {
		err := p.RemoveVolume(t.Context(), "open", "i")
		if err != nil && !errors.Is(err, seedbed.ErrInUse) {
			t.Fatal(err)
		}
		return err == nil
	})
	only(t, c, p)
}

// leaveLock has the session's client hold librbd's lock on an image, with nobody that watches it.
func leaveLock(s *session, id string) error {
	// cls_lock_lock_op, version 1: name, type, cookie, tag, description, duration, flags
	// (cls/lock/cls_lock_ops.h).
	const exclusive = 1
	body := append(encodeTexts(exclusiveLock), exclusive)
	body = append(body, encodeTexts("auto 1", "internal", "")...)
	body = append(body, make([]byte, 8+1)...)
	in := binary.LittleEndian.AppendUint32([]byte{1, 1}, uint32(len(body)))
	op := rados.CreateWriteOp()
	defer op.Release()
	op.Exec("lock", "lock", append(in, body...))
	return op.Operate(s.io, headerObject+id, rados.OperationNoFlag)
}
