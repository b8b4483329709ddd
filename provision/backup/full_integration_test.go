//go:build integration

package backup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// A place that fills up refuses the backup with what to do, and its other backups stay. With room again, the repeat succeeds.
func TestFullPlace(t *testing.T) {
	c := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: t.TempDir()}
	lab.Tmpfs(t, c.Path, 20*mib)
	if _, err := Check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	old, k := newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID())
	small, large := &disk{data: make([]byte, 8*mib)}, &disk{data: make([]byte, 16*mib)}
	small.fill(0, 8*mib, 1)
	large.fill(0, 16*mib, 2)
	backUp(t, p, old, small, nil)
	_, err = p.Write(t.Context(), first(k), large, nil, nil)
	if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), c.Path) {
		t.Fatalf("error %v", err)
	}
	if list, err := p.List(t.Context(), Selection{}); err != nil || len(list.Backups) != 1 || list.Damaged != nil {
		t.Errorf("list %+v, %v", list, err)
	}
	wantRestored(t, p, old, small.data)
	for _, path := range files(t, c, "") {
		if strings.Contains(path, unfinished) {
			t.Errorf("left %s", path)
		}
	}
	if _, err := p.Remove(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, c, 26*time.Hour)
	if _, err := p.Sweep(t.Context(), 25*time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	backUp(t, p, k, large, nil)
	wantRestored(t, p, k, large.data)
}
