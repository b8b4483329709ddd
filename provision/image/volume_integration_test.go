//go:build integration

package image

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestVolume holds that the tool, which may open the volume and its image only, does all that is done
// to a volume, whoever owns the file, and that a header that names another file stops it.
func TestVolume(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	raw, content := disk(t, dir)
	v := Volume{Path: filepath.Join(dir, "volumes", "v, too.qcow2"), Backing: filepath.Join(dir, "images", "base.qcow2")}
	if err := errors.Join(os.Mkdir(filepath.Dir(v.Path), 0o700), os.Mkdir(filepath.Dir(v.Backing), 0o700)); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, dir, "convert", "-f", "raw", "-O", "qcow2", raw, v.Backing)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	has := func(size seedbed.Bytes, backing string, snapshots ...string) {
		t.Helper()
		h, err := v.Header()
		must("read the header", err)
		want := Header{Size: size, Backing: backing, Snapshots: snapshots}
		if h.Format = ""; !cmp.Equal(h, want) {
			t.Errorf("the header is %+v; want %+v", h, want)
		}
	}
	const relative = "../images/base.qcow2"
	must("create", Create(ctx, v.Path, relative, 16*seedbed.MiB))
	must("give it away, as libvirt does", os.Chown(v.Path, 64055, 64055))
	has(16*seedbed.MiB, relative)
	must("take a snapshot", v.TakeSnapshot(ctx, "one"))
	must("take another", v.TakeSnapshot(ctx, "second"))
	has(16*seedbed.MiB, relative, "one", "second")
	must("drop one", v.DropSnapshot(ctx, "one"))
	must("drop another", v.DropSnapshot(ctx, "second"))
	must("resize", v.Resize(ctx, 32*seedbed.MiB))
	has(32*seedbed.MiB, relative)

	secret := filepath.Join(dir, "secret")
	must("write", os.WriteFile(secret, bytes.Repeat([]byte("secret! "), 1<<17), 0o600))
	qemuImg(t, dir, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret, v.Path)
	for what, err := range map[string]error{"flatten": v.Flatten(ctx, nil), "snapshot": v.TakeSnapshot(ctx, "x"),
		"resize": v.Resize(ctx, 64*seedbed.MiB)} {
		if !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%s: %v; want ErrConflict", what, err)
		}
	}
	qemuImg(t, dir, "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", relative, v.Path)
	must("flatten", v.Flatten(ctx, func(float64) {}))
	has(32*seedbed.MiB, "")
	must("remove the image", os.Remove(v.Backing))
	qemuImg(t, dir, "convert", "-f", "qcow2", "-O", "raw", v.Path, "back.raw")
	back, err := os.ReadFile(filepath.Join(dir, "back.raw"))
	if err != nil || !bytes.Equal(back[:len(content)], content) {
		t.Errorf("the flat disk has other content: %v", err)
	}
}
