//go:build integration && ceph

package ceph

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"
	"github.com/google/go-cmp/cmp"

	"seedbed/internal/lab"
)

// TestImageSnapshot: a snapshot that is taken without opening the image is what librbd makes of it.
func TestImageSnapshot(t *testing.T) {
	c, p, s := here(t)
	const size = 41<<20 + 512
	full := uint64(plain &^ rbd.FeatureDataPool &^ rbd.FeatureOperations)
	for name, features := range map[string]uint64{
		"all features": full, "no object map": full &^ rbd.FeatureFastDiff &^ rbd.FeatureObjectMap,
		"layering alone": rbd.FeatureLayering,
	} {
		t.Run(name, func(t *testing.T) {
			opts, clone := rbd.NewRbdImageOptions(), rbd.NewRbdImageOptions()
			defer opts.Destroy()
			defer clone.Destroy()
			if err := errors.Join(opts.SetUint64(rbd.ImageOptionFeatures, features), clone.SetUint64(rbd.ImageOptionCloneFormat, 2)); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"ours", "hand"} {
				if err := rbd.CreateImage(s.io, name, size, opts); err != nil {
					t.Fatal(err)
				}
			}
			h, err := s.header("ours")
			if err != nil {
				t.Fatal(err)
			}
			number := p.numbered(t.Context(), h, "ours") // before it is written
			id, err := number()
			if err != nil || id == 0 {
				t.Fatalf("number %d, %v", id, err)
			}
			for _, name := range []string{"ours", "hand"} {
				with(t, s, name, func(img *rbd.Image) error {
					_, one := img.WriteAt([]byte("first"), 0)
					_, two := img.WriteAt([]byte("end"), size-3)
					return errors.Join(one, two)
				})
			}
			if err := s.takeSnapshot(h, id); err != nil {
				t.Fatal(err)
			}
			with(t, s, "hand", func(img *rbd.Image) error {
				snap, err := img.CreateSnapshot(snapshot)
				if err != nil {
					return err
				}
				return snap.Protect()
			})
			alike(t, c, p, s)
			with(t, s, "ours", func(img *rbd.Image) error {
				if err := img.GetSnapshot(snapshot).Remove(); !is(err, ebusy) {
					t.Errorf("the protected snapshot is removed: %v", err)
				}
				return nil
			})
			for _, name := range []string{"ours", "hand"} {
				if err := rbd.CloneImage(s.io, name, snapshot, s.io, "clone of "+name, clone); err != nil {
					t.Fatal(err)
				}
				with(t, s, name, func(img *rbd.Image) error {
					_, one := img.WriteAt([]byte("later"), 0)
					_, two := img.WriteAt([]byte("new"), 8<<20)
					return errors.Join(one, two)
				})
			}
			alike(t, c, p, s)
			with(t, s, "clone of ours", func(img *rbd.Image) error {
				got := make([]byte, 5)
				if _, err := img.ReadAt(got, 0); err != nil || string(got) != "first" {
					t.Errorf("the clone reads %q, %v", got, err)
				}
				return nil
			})
			for _, name := range []string{"ours", "hand"} {
				if err := errors.Join(rbd.RemoveImage(s.io, "clone of "+name), p.dropSnapshot(s, name), rbd.RemoveImage(s.io, name)); err != nil {
					t.Fatal(err)
				}
			}
			nothingLeft(t, s, h.id)
		})
	}
}

// alike compares the images "ours" and "hand", and their snapshots.
func alike(t *testing.T, c *lab.CephCluster, p *Pool, s *session) {
	t.Helper()
	at := func(name string) string { return p.cfg.Pool + "/" + name }
	for what, of := range map[string]func(name string) string{
		"info":                 func(name string) string { return fmt.Sprintf("%+v", infoOf(t, c, p, name)) },
		"info of the snapshot": func(name string) string { return fmt.Sprintf("%+v", infoOf(t, c, p, name+"@"+snapshot)) },
		"snapshots":            func(name string) string { return snapshotsOf(t, s, name) },
		"difference to the snapshot": func(name string) string {
			return c.RBD(t, "diff", "--format", "json", "--from-snap", snapshot, at(name))
		},
		"data": func(name string) string {
			return c.RBD(t, "diff", "--whole-object", "--format", "json", at(name)+"@"+snapshot)
		},
		"object map":                 func(name string) string { return mapOf(t, s, name, "") },
		"object map of the snapshot": func(name string) string { return mapOf(t, s, name, snapshotSuffix(t, s, name)) },
	} {
		if diff := cmp.Diff(of("hand"), of("ours")); diff != "" {
			t.Errorf("%s, by hand and ours:\n%s", what, diff)
		}
	}
	if mapOf(t, s, "ours", "") != "" {
		c.RBD(t, "object-map", "check", "--no-progress", at("ours"))
		c.RBD(t, "object-map", "check", "--no-progress", at("ours@"+snapshot))
	}
}

// TestImageSnapshotCutOff: what a worker that dies in the middle leaves can be removed, and all of
// it.
func TestImageSnapshotCutOff(t *testing.T) {
	_, p, s := here(t)
	for name, after := range map[string]func(h header, id uint64) error{
		"header": func(h header, id uint64) error {
			return s.change(headerObject+h.id, method{"snapshot_add", append(encodeTexts(snapshot), encodeNumber(id)...)})
		},
		"all": s.takeSnapshot,
	} {
		t.Run(name, func(t *testing.T) {
			from := buildingName(p.cfg.Node)
			blank(t, s, from)
			with(t, s, from, func(img *rbd.Image) error {
				_, err := img.WriteAt([]byte("data"), 0)
				return err
			})
			h, err := s.header(from)
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.snapshotID()
			if err == nil {
				err = after(h, id)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			nothingLeft(t, s, h.id)
		})
	}
}

// snapshotsOf is what librbd says of an image's snapshots, but for their IDs.
func snapshotsOf(t *testing.T, s *session, name string) (all string) {
	t.Helper()
	with(t, s, name, func(img *rbd.Image) error {
		snaps, err := img.GetSnapshotNames()
		for _, snap := range snaps {
			kind, e := img.GetSnapNamespaceType(snap.Id)
			taken, e2 := img.GetSnapTimestamp(snap.Id)
			now := time.Since(time.Unix(taken.Sec, taken.Nsec)).Abs() < 10*time.Minute
			all += fmt.Sprintf("%s of %d bytes, kind %d, just now: %v; ", snap.Name, snap.Size, kind, now)
			err = errors.Join(err, e, e2)
		}
		return err
	})
	return all
}

// snapshotSuffix is what the name of the snapshot's object map has behind that of the image's.
func snapshotSuffix(t *testing.T, s *session, name string) (suffix string) {
	t.Helper()
	with(t, s, name, func(img *rbd.Image) error {
		id, err := img.GetSnapID(snapshot)
		suffix = fmt.Sprintf(".%016x", id)
		return err
	})
	return suffix
}

// mapOf is the map of an image's objects, or a snapshot's; empty for an image that has none.
func mapOf(t *testing.T, s *session, name, suffix string) string {
	t.Helper()
	id, err := s.idOf(name)
	if err != nil {
		t.Fatal(err)
	}
	bits := make([]byte, 4096)
	n, err := s.io.Read(mapObject+id+suffix, bits, 0)
	if is(err, enoent) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(bits[:n])
}

// nothingLeft waits until the pool has no object with that in its name: what a snapshot
// kept of the data the OSDs remove in their own time.
func nothingLeft(t *testing.T, s *session, id string) {
	t.Helper()
	lab.Await(t, lab.Patience, "nothing is left of "+id, func() bool {
		left := false
		if err := s.io.ListObjects(func(name string) { left = left || strings.Contains(name, id) }); err != nil {
			t.Fatal(err)
		}
		return !left
	})
}
