//go:build integration && ceph

package ceph

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/lab"
)

// admin runs ceph(8) as the cluster's administrator.
func admin(t *testing.T, c *lab.CephCluster, args ...string) string {
	t.Helper()
	out, err := exec.Command("ceph", append([]string{"--connect-timeout", "20", "-c", c.Conf}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ceph %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// objects are the names of everything in the Ceph pool.
func objects(t *testing.T, p *Pool) []string {
	t.Helper()
	all, err := call(t.Context(), p, "list objects", "", func(_ context.Context, s *session) (all []string, err error) {
		err = s.io.ListObjects(func(name string) { all = append(all, name) })
		return all, err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestNoRoom: what there is no room for is refused before anything is made, and says why, at the
// reserve as well as at a quota and in a full cluster. What makes room works, and then the rest.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	const large = 16 * seedbed.MiB
	big := bigFile(t, int(large/seedbed.MiB))
	quota := func(bytes seedbed.Bytes) func(*testing.T, *Pool) {
		return func(t *testing.T, p *Pool) {
			admin(t, c, "osd", "pool", "set-quota", p.cfg.Pool, "max_bytes", strconv.FormatInt(int64(bytes), 10))
			if bytes > 0 { // the monitors look at quotas every few seconds
				lab.Await(t, lab.Patience, "Ceph marks the pool as full", func() bool {
					return strings.Contains(admin(t, c, "osd", "pool", "ls", "detail"), "full_quota")
				})
			}
		}
	}
	ratio := func(full string) func(*testing.T, *Pool) {
		return func(t *testing.T, _ *Pool) { admin(t, c, "osd", "set-full-ratio", full) }
	}
	reserve := func(ofFree float64, less seedbed.Bytes) func(*testing.T, *Pool) {
		return func(t *testing.T, p *Pool) {
			info, err := p.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.cfg.Reserve = seedbed.Bytes(float64(info.Free)*ofFree) - less
		}
	}
	for _, w := range []struct {
		name        string
		limit, lift func(*testing.T, *Pool)
		full        bool // also for what takes no room at once
		alone       bool // the room of the whole cluster counts
	}{
		{"near the reserve", reserve(1, large/2), reserve(0.5, 0), false, true},
		{"below the reserve", reserve(2, 0), reserve(0.5, 0), true, false},
		{"quota reached", quota(large / 2), quota(0), true, false},
		{"full cluster", ratio("0.001"), ratio("0.95"), true, true},
	} {
		t.Run(w.name, func(t *testing.T) {
			if !w.alone {
				t.Parallel()
			}
			p := open(t, config(t, c))
			if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: big}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := p.CloneVolume(t.Context(), "job", volume("was")); err != nil {
				t.Fatal(err)
			}
			lab.Await(t, lab.Patience, "Ceph counts what was imported", func() bool {
				info, err := p.Info(t.Context())
				return err == nil && info.Size-info.Free >= large
			})
			w.limit(t, p)
			free(t, p, func(free seedbed.Bytes) bool { return free < p.cfg.Reserve+large && (free < p.cfg.Reserve) == w.full })
			have := objects(t, p)
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "is needed in Ceph pool "+p.cfg.Pool+", which has ") {
					t.Errorf("%s: got %v", what, err)
				}
				if diff := cmp.Diff(have, objects(t, p)); diff != "" {
					t.Errorf("%s: the pool has other objects:\n%s", what, diff)
				}
			}
			more := seedbed.ImageSpec{Name: "more", Path: big}
			_, err := p.ImportImage(t.Context(), "job", more, nil)
			refused("import", err)
			blank := volume("blank")
			blank.Image = ""
			for _, v := range []seedbed.VolumeSpec{volume("v"), blank} {
				if _, err := p.CloneVolume(t.Context(), "job", v); w.full {
					refused("volume "+v.Name, err)
				} else if err != nil {
					t.Errorf("volume %s: %v", v.Name, err)
				}
			}
			for _, name := range []string{"was", "v", "blank"} {
				if err := p.RemoveVolume(t.Context(), name, "i"); err != nil {
					t.Errorf("make room: %v", err)
				}
			}
			if err := p.RemoveImage(t.Context(), "job", "base"); err != nil {
				t.Errorf("make room: %v", err)
			}
			w.lift(t, p)
			free(t, p, func(free seedbed.Bytes) bool { return free > p.cfg.Reserve+2*large })
			if _, err := p.ImportImage(t.Context(), "job", more, nil); err != nil {
				t.Errorf("import with room: %v", err)
			}
		})
	}
}

// free waits until the room in the pool is as it should be, and what was seen of it before counts
// no more.
func free(t *testing.T, p *Pool, is func(free seedbed.Bytes) bool) {
	t.Helper()
	var last seedbed.PoolInfo
	defer func() { t.Logf("%s free of %s", last.Free.Human(), last.Size.Human()) }()
	lab.Await(t, lab.Patience, "the room has changed", func() (done bool) {
		var err error
		last, err = p.Info(t.Context())
		return err == nil && is(last.Free) && !p.roomy()
	})
}
