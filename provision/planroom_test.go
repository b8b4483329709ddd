package provision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/intake"
)

// reported makes the lab's node report a pool with that much room.
func (l *lab) reported(free seedbed.Bytes) {
	l.t.Helper()
	ctx := l.t.Context()
	l.ok(l.db.EnsureNode(ctx, testNode))
	l.ok(l.db.NoteNode(ctx, testNode, seedbed.NodeReport{Pools: []seedbed.PoolInfo{{Name: "default", Size: 10 * seedbed.GiB, Free: free}}},
		"", time.Now()))
	l.serve(func(s *intake.Serving) { s.Pools = []string{"default"} })
}

// TestPlanNotes checks that a plan reports pools that are low and domains that are in the way, and
// what is drawn only when the job is accepted.
func TestPlanNotes(t *testing.T) {
	t.Parallel()
	const drawn = "the volumes are named after the instance's ID, which is generated when the job is accepted: ID-0, ID-1 and so on\n" +
		"the MAC addresses are generated when the job is accepted\n" +
		"it gets its metadata by the service of its node"
	for _, c := range []struct {
		name     string
		free     seedbed.Bytes
		stranger func(context.Context, string, string) (bool, error)
		notes    string
		problems string
	}{
		{"nothing known", 0, nil, drawn, ""},
		{"enough", 5 * seedbed.GiB, func(_ context.Context, node, name string) (bool, error) {
			return node != testNode || name != "web1", nil
		}, drawn, ""},
		{"less than its volumes", 1 * seedbed.GiB, nil, drawn + "\nthe volumes in pool default may grow to 2.0GiB, and it has 1.0GiB free", ""},
		{"low", 512 * seedbed.MiB, nil,
			drawn + "\npool default of node node1 has only 512.0MiB free of 10.0GiB: give it room, or the job or the guest may find it full", ""},
		{"a stranger's domain", 0, func(context.Context, string, string) (bool, error) { return true, nil }, drawn,
			`node node1 already has a domain "web1" that is not an instance: choose another name, or adopt it (seedbed vm adopt)`},
		{"a node that does not answer", 0, func(context.Context, string, string) (bool, error) {
			return false, seedbed.Errorf(seedbed.ErrUnavailable, "no answer")
		}, drawn + "\nwhether node node1 has a domain of that name already could not be seen: no answer", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.serve(func(s *intake.Serving) { s.HasDomain = c.stranger })
			if c.free > 0 {
				l.reported(c.free)
			}
			p, err := l.intake.Plan(t.Context(), seedbed.Request{Name: "web1", Profile: "small", Params: map[string]any{"disk": "2GiB"}})
			l.ok(err)
			if d := cmp.Diff([]string{c.notes, c.problems}, []string{strings.Join(p.Notes, "\n"), strings.Join(p.Problems, "\n")}); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestPlanOfUnavailablePool checks that plans give the reason that a pool has no room to report, and
// do not call it full.
func TestPlanOfUnavailablePool(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reported(4 * seedbed.GiB)
	l.ok(l.db.NoteNode(t.Context(), testNode, seedbed.NodeReport{
		Pools: []seedbed.PoolInfo{{Name: "default", Problem: "it is not mounted"}},
	}, "", time.Now()))
	const want = "pool default of node node1 is unavailable: it is not mounted"
	p, err := l.intake.Plan(t.Context(), seedbed.Request{Name: "web1", Profile: "small", Params: map[string]any{"disk": "2GiB"}})
	l.ok(err)
	if !slices.Contains(p.Notes, want) || strings.Contains(strings.Join(p.Notes, "\n"), "has only") {
		t.Errorf("notes of a create: %q, want %q", p.Notes, want)
	}
	imported, err := l.intake.PlanImport(t.Context(), seedbed.ImportRequest{Name: "fresh", Pool: "default", Size: seedbed.GiB})
	l.ok(err)
	if d := cmp.Diff([]string{want}, imported.Notes); d != "" {
		t.Errorf("notes of an import (-want +got):\n%s", d)
	}
}

// TestPlanImport checks that a plan of an import says where the image would be made and what
// prevents that, and writes nothing.
func TestPlanImport(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reported(4 * seedbed.GiB)
	digest := strings.Repeat("0a", 32)
	for _, c := range []struct {
		name     string
		req      seedbed.ImportRequest
		notes    []string
		problems []string
	}{
		{"file", seedbed.ImportRequest{Name: "fresh", Pool: "default", Path: "/srv/disk", SHA256: digest, Format: "qcow2"},
			[]string{"the file /srv/disk is looked at when the job runs, on node node1"}, nil},
		{"upload", seedbed.ImportRequest{Name: "fresh", Pool: "default", Size: seedbed.GiB}, nil, nil},
		{"large upload", seedbed.ImportRequest{Name: "fresh", Pool: "default", Size: 5 * seedbed.GiB},
			[]string{"it has 5.0GiB, and pool default 4.0GiB free: it may not fit"}, nil},
		{"ova", seedbed.ImportRequest{Name: "vm", Pool: "default", OVA: true},
			[]string{"its disks become the images ova_vm_sda and so on, and a system template and a profile named vm are created"}, nil},
		{"name taken", seedbed.ImportRequest{Name: "debian", Pool: "default", Size: 1}, nil,
			[]string{`image "debian" exists already: it is active`}},
		{"no such pool", seedbed.ImportRequest{Name: "fresh", Pool: "fast", Size: 1}, nil,
			[]string{`no node has the pool "fast" (seedbed node list)`}},
		{"no such format", seedbed.ImportRequest{Name: "fresh", Pool: "default", Format: "tar"}, nil,
			[]string{`format "tar" is unknown: expected none, qcow2, raw, vmdk, vdi, iso, ova`}},
	} {
		got, err := l.intake.PlanImport(t.Context(), c.req)
		l.ok(err)
		if d := cmp.Diff([][]string{c.notes, c.problems}, [][]string{got.Notes, append([]string(nil), got.Problems...)}); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if len(got.Problems) == 0 && (got.Node != testNode || got.Free != 4*seedbed.GiB || len(got.Stages) != 1) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if all, err := l.db.Images(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("images %v, %v", all, err)
	}
}

// TestImportIsRefusedBeforeItsJob checks that no job is made for a file that its node's worker could
// not open. If the worker does not say, the job finds out.
func TestImportIsRefusedBeforeItsJob(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.reported(4 * seedbed.GiB)
	var silent error
	l.serve(func(s *intake.Serving) {
		s.ImportProblem = func(_ context.Context, node string, spec seedbed.ImageSpec) (string, error) {
			if want := (seedbed.ImageSpec{Pool: "default", Name: "fresh", Path: "/none"}); node != testNode || spec != want {
				t.Errorf("node %s is asked for %+v", node, spec)
			}
			return "there is no file /none", silent
		}
	})
	const want = "node node1: there is no file /none"
	_, err := l.intake.Import(ctx, "fresh", "default", seedbed.ImportSpec{Path: "/none"}, usual)
	if !errors.Is(err, seedbed.ErrInvalid) || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	plan, err := l.intake.PlanImport(ctx, seedbed.ImportRequest{Name: "fresh", Pool: "default", Path: "/none"})
	l.ok(err)
	if d := cmp.Diff([]string{want}, plan.Problems); d != "" {
		t.Errorf("problems of the plan (-want +got):\n%s", d)
	}
	if all, err := l.db.Images(ctx); err != nil || len(all) != 1 {
		t.Errorf("images %v, %v", all, err)
	}
	silent = seedbed.Errorf(seedbed.ErrInvalid, "there is no effect \"check-import\"")
	if _, err := l.intake.Import(ctx, "fresh", "default", seedbed.ImportSpec{Path: "/none"}, usual); err != nil {
		t.Errorf("with a worker that does not say: %v", err)
	}
}
