package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestClient checks that client and server agree on every route that the CLI uses.
func TestClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	health, err := c.Health(ctx)
	must(err)
	if health.Version != "1.2.3" || health.Node != "host1" {
		t.Errorf("health %+v", health)
	}
	s.importImage(t, "debian")
	p, err := c.CreateProfile(ctx, seedbed.Profile{
		Name: "small", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, UserData: []byte("#!/bin/sh\n"), SSHKeys: []string{sshKey},
	})
	must(err)
	if p.Network != "default" || p.Ready != seedbed.ReadyMetadata || string(p.UserData) != "#!/bin/sh\n" || p.Created.IsZero() {
		t.Errorf("profile %+v", p)
	}
	h, err := c.AddHook(ctx, wire.HookRequest{Name: "ci", Profiles: []string{"small"}, Tolerance: time.Minute})
	must(err)
	if !strings.HasPrefix(h.Secret, "whsec_") || h.Hook.Tolerance != time.Minute || len(h.Hook.Keys) != 1 || h.Hook.Keys[0].Secret != nil {
		t.Errorf("hook %+v", h)
	}
	r, err := c.CreateInstance(ctx, seedbed.Request{Name: "web1", Profile: "small", Params: map[string]any{"vcpus": 2}})
	must(err)
	i, err := c.Instance(ctx, "web1")
	must(err)
	if i.VCPUs != 2 || len(i.NICs) != 1 || i.NICs[0].Addr.String() != "10.99.0.2" {
		t.Errorf("instance %+v", i)
	}
	_, err = c.CreateInstance(ctx, seedbed.Request{Name: "web1", Profile: "small"})
	if e, ok := errors.AsType[*seedbed.Error](err); !ok || !errors.Is(err, seedbed.ErrExists) || e.Holder != r.Job {
		t.Errorf("error %v, want ErrExists with the holder %s", err, r.Job)
	}
	job, err := c.Job(ctx, r.Job.Short())
	must(err)
	if job.Job.ID != r.Job || job.Job.Instance != i.ID {
		t.Errorf("job %+v", job)
	}
	page, err := c.JobEvents(ctx, string(r.Job), 0, time.Second)
	must(err)
	if len(page.Events) == 0 || page.Events[0].Msg != "accepted" || page.Job.ID != r.Job {
		t.Errorf("events %+v", page)
	}
	console, err := c.Console(ctx, "web1", 64*seedbed.KiB)
	must(err)
	metadata, err := c.Metadata(ctx, "web1", "/latest/meta-data/")
	must(err)
	if string(console) != "login: \xff<script>" || string(metadata) != "web1/latest/meta-data/" {
		t.Errorf("console %q, metadata %q", console, metadata)
	}
	s.guestDid(t, "web1")
	access, err := c.Access(ctx, "web1", client.AccessFilter{})
	must(err)
	leases, err := c.Leases(ctx)
	must(err)
	if len(access) != 3 || len(leases) != 1 || leases[0].MAC != i.NICs[0].MAC {
		t.Errorf("access %+v, leases %+v", access, leases)
	}
	if checks, err := c.Doctor(ctx); err != nil || len(checks) != 2 {
		t.Errorf("checks %+v, error %v", checks, err)
	}
	if report, err := c.Cleanup(ctx, true, false); err != nil || len(report.Items) != 1 {
		t.Errorf("report %+v, error %v", report, err)
	}
	must(c.CancelJob(ctx, string(r.Job)))
	must(c.DeleteHook(ctx, "ci"))
	must(c.DeleteProfile(ctx, "small"))
	if _, err := c.Profile(ctx, "small"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	intruder, err := client.New(client.Options{URL: s.url, Token: "wrong"})
	must(err)
	if _, err := intruder.Jobs(ctx, 0); !errors.Is(err, seedbed.ErrUnauthenticated) {
		t.Errorf("error %v, want ErrUnauthenticated", err)
	}
}
