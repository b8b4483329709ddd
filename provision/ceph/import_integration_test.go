//go:build integration && ceph

package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// bigFile is a bootable disk of that many MiB of noise, as raw.
func bigFile(t *testing.T, mib int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big.raw")
	noise := exec.Command("dd", "if=/dev/urandom", "of="+path, "bs=1M", fmt.Sprintf("count=%d", mib))
	if out, err := noise.CombinedOutput(); err != nil {
		t.Fatalf("dd: %v: %s", err, out)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(append(make([]byte, 510), 0x55, 0xaa), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func tool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
}

// TestImport: a large sparse qcow2 file arrives whole and stays sparse.
func TestImport(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	raw := bigFile(t, 128)
	source := filepath.Join(t.TempDir(), "big.qcow2")
	tool(t, "convert", "-O", "qcow2", "-c", raw, source)
	tool(t, "resize", source, "20G")
	begin := time.Now()
	info, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: source}, nil)
	if err != nil || info.Size != 20*seedbed.GiB || info.Format != "qcow2" {
		t.Fatalf("%+v, %v", info, err)
	}
	t.Logf("import_s %.2f s", time.Since(begin).Seconds())
	var du struct {
		Images []struct {
			Used int64 `json:"used_size"`
		}
	}
	text := c.RBD(t, "du", "--format", "json", p.cfg.Pool+"/"+rbdOf(roleImage, "base"))
	if err := json.Unmarshal([]byte(text), &du); err != nil {
		t.Fatal(err)
	}
	used := int64(0)
	for _, i := range du.Images {
		used += i.Used
	}
	if used < 128<<20 || used > 140<<20 {
		t.Errorf("the image takes %d bytes: %s", used, text)
	}
	begin = time.Now()
	v, err := p.CloneVolume(t.Context(), "job", seedbed.VolumeSpec{Name: "v", Instance: "i", Image: "base"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("clone_ms %d ms", time.Since(begin).Milliseconds())
	tool(t, "compare", "-f", "raw", "-F", "qcow2", "rbd:"+v.Disk.Source+":id="+p.cfg.User+":conf="+p.cfg.ConfFile+":keyring="+p.cfg.Keyring,
		source)
}

// TestImportConfined checks that only confined programs read a file while it is imported.
func TestImportConfined(t *testing.T) {
	p := open(t, config(t, cluster(t)))
	file, err := os.Open(bigFile(t, 64))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const id = "upload0123456789"
	if _, err := p.ReceiveUpload(t.Context(), seedbed.UploadSpec{ID: id}, file); err != nil {
		t.Fatal(err)
	}
	uploaded := filepath.Join(p.cfg.Scratch, "seedbed-uploads-"+p.cfg.Name, id) // which is not copied
	var writing []lab.Opener
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Upload: id}, func(seedbed.Progress) {
		if writing == nil {
			writing = lab.Openers(t, uploaded)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(writing) != 1 || !writing[0].Confined() {
		t.Errorf("the file is open in %v: want one confined program", writing)
	}
}

// TestImportEnds: an import that is cancelled, or whose cluster dies, in the
// middle of its writing comes back in time and leaves nothing in the end.
func TestImportEnds(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg := config(t, c)
	cfg.WatcherFor = 45 * time.Second
	p := open(t, cfg)
	path := bigFile(t, 256)
	for _, end := range []struct {
		name string
		act  func(cancel func())
		want error
		by   time.Duration
	}{
		{"cancelled", func(cancel func()) { cancel() }, context.Canceled, atOnce},
		{"cluster dead", func(func()) { c.Freeze(t) }, seedbed.ErrUnavailable, 2 * inTime},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var at time.Time
		var err error
		lab.Await(t, lab.Patience, end.name+": the import is half done", func() bool { // on a busy machine it is given up before
			_, err = p.ImportImage(ctx, "job", seedbed.ImageSpec{Name: "base", Path: path}, func(step seedbed.Progress) {
				if at.IsZero() && step.Percent() > 55 {
					at = time.Now()
					end.act(cancel)
				}
			})
			return !at.IsZero() || !errors.Is(err, seedbed.ErrUnavailable)
		})
		cancel()
		took := time.Since(at)
		if !errors.Is(err, end.want) || took > end.by {
			t.Errorf("%s: %v after %s; want it within %s", end.name, err, took, end.by)
		}
		t.Logf("%s: back after %s", end.name, took)
		c.Thaw(t)
		lab.Await(t, 2*lab.Swept, end.name+": nothing is left", func() bool { return len(names(t, c, cfg.Pool)) == 0 })
	}
	again(t, func() error {
		_, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: path}, nil)
		return err
	})
}
