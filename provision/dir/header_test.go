package dir

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/pooltag"
)

// The file of a volume belongs to its guest's QEMU: what its header says of other files is not
// believed by anything that root does with it, and the file stays as it is.
func TestHeaderOfTheGuest(t *testing.T) {
	t.Parallel()
	head := make([]byte, 4<<10)
	copy(head, "QFI\xfb\x00\x00\x00\x03")
	const name = "/etc/shadow"
	for at, v := range map[int]uint32{12: 200, 16: uint32(len(name)), 20: 16, 28: 1 << 20, 100: 112} {
		binary.BigEndian.PutUint32(head[at:], v)
	}
	copy(head[200:], name)

	p := open(t, filepath.Join(t.TempDir(), "pool"))
	plant(t, p, images, tag{Name: "base", Size: 1 << 20})
	taken := []pooltag.Snapshot{{Name: "old", Job: "job", Ready: true}}
	plant(t, p, volumes, tag{Name: "clone", Instance: "i", Image: "base", Size: 1 << 20})
	plant(t, p, volumes, tag{Name: "alone", Instance: "i", Size: 1 << 20})
	plant(t, p, volumes, tag{Name: "taken", Instance: "i", Size: 1 << 20, Snapshots: taken})
	for _, name := range []string{"clone", "alone", "taken"} {
		write(t, p.file(volumes, name), string(head))
	}
	for what, do := range map[string]func(context.Context) error{
		"snapshot of a clone": func(ctx context.Context) error {
			_, err := p.CreateSnapshot(ctx, "job", seedbed.SnapshotSpec{Volume: "clone", Instance: "i", Name: "s"})
			return err
		},
		"snapshot": func(ctx context.Context) error {
			_, err := p.CreateSnapshot(ctx, "job", seedbed.SnapshotSpec{Volume: "alone", Instance: "i", Name: "s"})
			return err
		},
		"remove a snapshot": func(ctx context.Context) error {
			return p.RemoveSnapshot(ctx, seedbed.SnapshotSpec{Volume: "taken", Instance: "i", Name: "old"}, "")
		},
		"flatten": func(ctx context.Context) error {
			_, err := p.FlattenVolume(ctx, "clone", "i", nil)
			return err
		},
		"resize": func(ctx context.Context) error {
			_, err := p.ResizeVolume(ctx, "alone", "i", 2<<20)
			return err
		},
	} {
		if err := do(t.Context()); !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v; want a conflict that names %s", what, err, name)
		}
	}
	for _, name := range []string{"clone", "alone", "taken"} {
		if got, err := os.ReadFile(p.file(volumes, name)); err != nil || string(got) != string(head) {
			t.Errorf("the file of %s has changed (%v)", name, err)
		}
	}
}
