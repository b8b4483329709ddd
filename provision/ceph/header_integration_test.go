//go:build integration && ceph

package ceph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"
	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/lab"
)

// here is a new pool, with a session.
func here(t *testing.T) (*lab.CephCluster, *Pool, *session) {
	t.Helper()
	c := cluster(t)
	p, s := poolIn(t, c)
	return c, p, s
}

// blank makes an RBD image of 8 MiB.
func blank(t *testing.T, s *session, name string) {
	t.Helper()
	opts := rbd.NewRbdImageOptions()
	defer opts.Destroy()
	if err := rbd.CreateImage(s.io, name, 8<<20, opts); err != nil {
		t.Fatal(err)
	}
}

func with(t *testing.T, s *session, name string, do func(*rbd.Image) error) {
	t.Helper()
	img, err := rbd.OpenImage(s.io, name, rbd.NoSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(img), s.closeImage(img)); err != nil {
		t.Fatal(err)
	}
}

// TestTagOfAnImage: the tag that is written and read without opening an image is
// the image-meta that librbd and rbd(8) read and write.
func TestTagOfAnImage(t *testing.T) {
	c, p, s := here(t)
	at := p.cfg.Pool + "/v"
	want := tag{Seedbed: 1, Role: roleVolume, Name: "v", State: stateReady, Node: "n", Job: "ä\"\n", Instance: "i", Size: 8 << 20}
	text, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := func(there bool, want *tag) {
		t.Helper()
		got, is, err := s.readTag("v")
		if diff := cmp.Diff(want, got); diff != "" || is != there || err != nil {
			t.Errorf("there: %v, want %v; %v\n%s", is, there, err, diff)
		}
	}
	read(false, nil)
	if err := s.setTag("v", want); !is(err, enoent) {
		t.Errorf("tag what is not there: %v", err)
	}
	if err := s.dropTag("v"); !is(err, enoent) {
		t.Errorf("take the tag off what is not there: %v", err)
	}
	blank(t, s, "v")
	read(true, nil)
	if err := s.setTag("v", want); err != nil {
		t.Fatal(err)
	}
	read(true, &want)
	if got := c.RBD(t, "image-meta", "get", at, tagKey); got != text && got != text+"\n" {
		t.Errorf("rbd reads %q; want %q", got, text)
	}
	with(t, s, "v", func(img *rbd.Image) error {
		if got, err := img.GetMetadata(tagKey); got != text || err != nil {
			t.Errorf("librbd reads %q, %v; want %q", got, err, text)
		}
		want.State = stateBuilding
		text, err := want.Marshal()
		return errors.Join(err, img.SetMetadata(tagKey, text))
	})
	read(true, &want)
	c.RBD(t, "image-meta", "set", at, tagKey, "no tag of ours")
	c.RBD(t, "image-meta", "set", at, "other", "stays")
	read(true, nil)
	for range 2 {
		if err := s.dropTag("v"); err != nil {
			t.Error(err)
		}
		if got := c.RBD(t, "image-meta", "list", at); strings.Contains(got, tagKey) || !strings.Contains(got, "stays") {
			t.Errorf("image-meta without the tag: %s", got)
		}
	}
	read(true, nil)

	// In the trash it has its ID alone.
	if err := s.setTag("v", want); err != nil {
		t.Fatal(err)
	}
	id, err := s.idOf("v")
	if err != nil {
		t.Fatal(err)
	}
	c.RBD(t, "trash", "mv", at)
	read(false, nil)
	if got, there, err := s.tagOf("v", id); err != nil || !there || cmp.Diff(&want, got) != "" {
		t.Errorf("in the trash: %+v, %v, %v", got, there, err)
	}
}

// TestTagOfWhatGoes: a removal that is under way, or was cut off, takes the header
// first, and no tag makes that anew.
func TestTagOfWhatGoes(t *testing.T) {
	_, _, s := here(t)
	blank(t, s, "v")
	h, err := s.header("v")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.io.Delete(headerObject + h.id); err != nil {
		t.Fatal(err)
	}
	if got, there, err := s.readTag("v"); got != nil || there || err != nil {
		t.Errorf("%+v, %v, %v", got, there, err)
	}
	for what, err := range map[string]error{
		"setTag": s.setTag("v", tag{Name: "v"}), "writeTag": s.writeTag(h, tag{Name: "v"}), "tagSized": s.tagSized(h, tag{Name: "v", Size: 9 << 20}),
	} {
		if !is(err, enoent) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.io.Stat(headerObject + h.id); !is(err, enoent) {
		t.Errorf("the header is there again: %v", err)
	}
	if err := rbd.RemoveImage(s.io, "v"); err != nil {
		t.Error(err)
	}
}

// TestTagInUse: the exclusive lock of a guest's volume stays with the guest.
func TestTagInUse(t *testing.T) {
	c, p, s := here(t)
	base(t, p)
	if _, err := p.CloneVolume(t.Context(), "job", volume("v")); err != nil {
		t.Fatal(err)
	}
	guest, leave := used(t, p)
	defer leave()
	write := func() {
		t.Helper()
		if _, err := guest.WriteAt([]byte("guest"), 4096); err != nil {
			t.Fatal(err)
		}
	}
	lock := func() string { return c.RBD(t, "lock", "ls", p.cfg.Pool+"/"+rbdOf(roleVolume, "v")) }
	write()
	before := lock()
	if !strings.Contains(before, "client.") {
		t.Fatalf("a guest that has written has no lock: %s", before)
	}
	have, _, err := s.readTag(rbdOf(roleVolume, "v"))
	if err != nil {
		t.Fatal(err)
	}
	have.Job = "later"
	if err := s.setTag(rbdOf(roleVolume, "v"), *have); err != nil {
		t.Fatal(err)
	}
	if after := lock(); after != before {
		t.Errorf("the lock was %s and is %s", before, after)
	}
	write()
	if got, err := p.Volume(t.Context(), "v", "i"); err != nil || got.Job != "later" {
		t.Errorf("%+v, %v", got, err)
	}
}

// info is what rbd(8) says of an image.
type info struct {
	Size     int64    `json:"size"`
	Objects  int64    `json:"objects"`
	Order    int      `json:"order"`
	Format   int      `json:"format"`
	Features []string `json:"features"`
	Flags    []string `json:"flags"`
	Parent   struct {
		Image    string `json:"image"`
		Snapshot string `json:"snapshot"`
		Overlap  int64  `json:"overlap"`
	} `json:"parent"`
}

func infoOf(t *testing.T, c *lab.CephCluster, p *Pool, name string) (i info) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.RBD(t, "info", "--format", "json", p.cfg.Pool+"/"+name)), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestGrownClone: a clone that is grown without opening it is what librbd makes of it.
func TestGrownClone(t *testing.T) {
	c := cluster(t)
	for _, kind := range []string{"one pool", "data in another"} {
		cfg := config(t, c)
		if kind != "one pool" {
			c.RBD(t, "config", "pool", "set", cfg.Pool, "rbd_default_data_pool", c.Pool(t, "seedbed-data"))
		}
		p := open(t, cfg)
		base(t, p)
		whole := seedbed.Bytes(infoOf(t, c, p, rbdOf(roleImage, "base")).Size)
		for name, size := range map[string]seedbed.Bytes{
			"as it is": whole, "a sector more": whole + 512, "odd": 61*seedbed.MiB + 512, "large": 40 * seedbed.GiB,
		} {
			t.Run(kind+", "+name, func(t *testing.T) { grown(t, c, p, size) })
		}
	}
}

// grown compares a volume of that size with a clone by hand, and uses it.
func grown(t *testing.T, c *lab.CephCluster, p *Pool, size seedbed.Bytes) {
	s, err := p.link.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.link.put(s, false)
	spec := volume("v")
	spec.Size = size
	if _, err := p.CloneVolume(t.Context(), "job", spec); err != nil {
		t.Fatal(err)
	}
	ours, hand := rbdOf(roleVolume, "v"), "hand"
	opts := rbd.NewRbdImageOptions()
	defer opts.Destroy()
	if err := errors.Join(opts.SetUint64(rbd.ImageOptionCloneFormat, 2), rbd.CloneImage(s.io, rbdOf(roleImage, "base"), snapshot, s.io, hand, opts)); err != nil {
		t.Fatal(err)
	}
	with(t, s, hand, func(img *rbd.Image) error { return img.Resize(uint64(size)) })
	if diff := cmp.Diff(infoOf(t, c, p, hand), infoOf(t, c, p, ours)); diff != "" {
		t.Errorf("by hand, and ours:\n%s", diff)
	}
	if !bytes.Equal(objectMap(t, s, hand), objectMap(t, s, ours)) {
		t.Error("the object map is another than librbd's")
	}
	with(t, s, ours, func(img *rbd.Image) error {
		if _, err := img.WriteAt([]byte("end!"), int64(size)-4); err != nil {
			t.Errorf("write to its end: %v", err)
		}
		mark := make([]byte, 8)
		if _, err := img.ReadAt(mark, 1<<20); err != nil || string(mark) != "seedbed " {
			t.Errorf("it reads %q of its image, %v", mark, err)
		}
		return img.Flush()
	})
	c.RBD(t, "object-map", "check", "--no-progress", p.cfg.Pool+"/"+ours)
	if i := infoOf(t, c, p, ours); len(i.Flags) > 0 {
		t.Errorf("it has the flags %v", i.Flags)
	}
	if err := errors.Join(p.RemoveVolume(t.Context(), "v", "i"), rbd.RemoveImage(s.io, hand)); err != nil {
		t.Error(err)
	}
}

func objectMap(t *testing.T, s *session, name string) []byte {
	t.Helper()
	h, err := s.header(name)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := s.io.Stat(mapObject + h.id)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, stat.Size)
	if _, err := s.io.Read(mapObject+h.id, got, 0); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestOtherFeatures: what librbd alone may change goes through librbd, so that a
// mirror learns of it, and striped data has the right map.
func TestOtherFeatures(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	cfg.Trash = time.Hour
	for key, value := range map[string]string{
		"rbd_default_features":    "layering,exclusive-lock,object-map,fast-diff,deep-flatten,journaling",
		"rbd_default_stripe_unit": "65536", "rbd_default_stripe_count": "4",
	} {
		c.RBD(t, "config", "pool", "set", cfg.Pool, key, value)
	}
	p := open(t, cfg)
	base(t, p)
	spec := volume("v")
	spec.Size = 61 * seedbed.MiB
	if _, err := p.CloneVolume(t.Context(), "job", spec); err != nil {
		t.Fatal(err)
	}
	name := rbdOf(roleVolume, "v")
	i := infoOf(t, c, p, name)
	if features := strings.Join(i.Features, ","); !strings.Contains(features, "journaling") || !strings.Contains(features, "striping") || len(i.Flags) > 0 || i.Size != 61<<20 {
		t.Errorf("%+v", i)
	}
	journal := journalOf(t, p, name)
	for _, want := range []string{string(stateBuilding), string(stateReady)} {
		if !strings.Contains(journal, `"state":"`+want) {
			t.Errorf("a mirror does not learn that the volume is %s", want)
		}
	}
	if !strings.Contains(journal, name) {
		t.Error("a mirror does not learn its name")
	}
	item, err := p.TrashVolume(t.Context(), "v", "i")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.RestoreVolume(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(t.Context(), "v", "i"); err != nil {
		t.Fatal(err)
	}
	only(t, c, p)
}

// journalOf is what the image's journal holds.
func journalOf(t *testing.T, p *Pool, name string) string {
	t.Helper()
	text, err := call(t.Context(), p, "read the journal", "", func(_ context.Context, s *session) (text string, err error) {
		h, err := s.header(name)
		if err != nil {
			return "", err
		}
		for n := range 4 { // its splay width
			object := fmt.Sprintf("journal_data.%d.%s.%d", s.io.GetPoolID(), h.id, n)
			stat, err := s.io.Stat(object)
			if is(err, enoent) {
				continue
			}
			if err != nil {
				return "", err
			}
			b := make([]byte, stat.Size)
			if _, err := s.io.Read(object, b, 0); err != nil {
				return "", err
			}
			text += string(b)
		}
		return text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRename: what has the name keeps it, and what has been tried leaves nothing.
func TestRename(t *testing.T) {
	c, p, s := here(t)
	for _, name := range []string{"a", "taken", "cut"} {
		blank(t, s, name)
	}
	h, err := s.header("a")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := s.idOf("taken")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rename(h, "a", "taken"); !is(err, eexist) {
		t.Errorf("rename over another: %v", err)
	}
	if id, err := s.idOf("taken"); id != taken || err != nil {
		t.Errorf("the other's ID %s is %s now, %v", taken, id, err)
	}
	// A removal that was cut off at its last step.
	cut, err := s.header("cut")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.io.Delete(headerObject+cut.id), s.io.Delete(idObject+"cut")); err != nil {
		t.Fatal(err)
	}
	if err := s.rename(h, "a", "cut"); !is(err, eexist) {
		t.Errorf("rename over a name without an image: %v", err)
	}
	if _, err := s.idOf("cut"); !is(err, enoent) {
		t.Errorf("the name has an ID: %v", err)
	}
	if err := p.delete(context.Background(), s, "cut"); err != nil {
		t.Fatal(err)
	}
	if err := s.rename(h, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if id, err := s.idOf("b"); id != h.id || err != nil {
		t.Errorf("ID %s, %v; want %s", id, err, h.id)
	}
	if got := strings.TrimSpace(c.RBD(t, "ls", p.cfg.Pool)); got != "b\ntaken" {
		t.Errorf("the pool has %q", got)
	}
	if i := infoOf(t, c, p, "b"); i.Size != 8<<20 {
		t.Errorf("%+v", i)
	}
	// Of one that is gone no name is made, and another that has it keeps it.
	if err := rbd.RemoveImage(s.io, "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.rename(h, "b", "c"); !is(err, enoent) {
		t.Errorf("rename what is gone: %v", err)
	}
	if _, err := s.idOf("c"); !is(err, enoent) {
		t.Errorf("what is gone has a name: %v", err)
	}
	if err := s.unname("taken", h.id); err != nil {
		t.Error(err)
	}
	if id, err := s.idOf("taken"); id != taken || err != nil {
		t.Errorf("the other's ID %s is %s now, %v", taken, id, err)
	}
}
