package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

// siteWorld returns tenants, with an instance "mine" of acme, and of both projects volumes in the trash of
// the node "hv9", leases, and a job that has left something behind.
func siteWorld(t *testing.T) (s *server, tokens map[seedbed.Role]string, left map[string]seedbed.JobID) {
	t.Helper()
	s, _, tokens = tenants(t)
	ctx := t.Context()
	left = map[string]seedbed.JobID{}
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"mine","profile":"small"}`, "Seedbed-Project", "acme"); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	s.expect(t, "POST", "/instances", `{"name":"yours","profile":"small"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	for n, name := range []seedbed.InstanceName{seedbed.Named("acme", "mine"), seedbed.InDefault("yours")} {
		i, err := s.db.InstanceByName(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		err = s.db.AddGuestEvents(ctx, testNode, "spool2", []seedbed.GuestEvent{{Seq: int64(n + 1), Instance: i.ID,
			Kind: seedbed.GuestLease, At: time.Now(), MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr, Until: time.Now().Add(time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		// The first item's tag has no project, as those of the release before.
		gone := seedbed.NewInstanceID()
		for id, item := range map[string]seedbed.TrashItem{
			"old-" + name.Name: {Instance: i.ID, State: seedbed.Trashed},
			"new-" + name.Name: {Instance: gone, State: seedbed.Trashed, Project: name.Project},
			"":                 {Instance: gone, State: seedbed.Restored, Project: name.Project},
		} {
			item.Pool, item.Node, item.ID, item.Name, item.Size = "default", "hv9", id, "v-"+name.Name, seedbed.GiB
			item.Removed, item.Expires = time.Unix(1e9, 0), time.Unix(2e9, 0)
			*s.shelf.others = append(*s.shelf.others, item)
		}
		r := s.do(t, "POST", "/api/v1/instances/"+name.Name+"/snapshots", `{"name":"one"}`, "Seedbed-Project", name.Project)
		if r.status != 202 {
			t.Fatalf("%+v", r)
		}
		job := s.claim(t)
		for _, err := range []error{s.db.Step(ctx, job.Ref(), seedbed.Step{Next: "snapshot", Total: 1}), s.db.Undo(ctx, job.Ref(), "no room"),
			s.db.Undone(ctx, job.Ref(), "snapshot", "hv9 does not answer", seedbed.Orphan{Kind: seedbed.OrphanSnapshot, Pool: "default",
				Name: "v@one", Why: "hv9 does not answer"}),
			s.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		left[name.Project] = job.ID
	}
	slices.SortFunc(*s.shelf.others, func(a, b seedbed.TrashItem) int { return strings.Compare(a.ID, b.ID) })
	stray := []seedbed.Orphan{{Kind: seedbed.OrphanDomain, Node: "hv9", Name: "lost.acme", Instance: seedbed.NewInstanceID(), Project: "acme"}}
	for range 2 {
		if err := s.db.NoteStrays(ctx, []string{"hv9"}, stray); err != nil {
			t.Fatal(err)
		}
	}
	return s, tokens, left
}

// TestTenantsSeeTheirOwnOfTheSite reads the lists that are the installation's: a tenant sees what belongs
// to its project and no node, a caller from the default project everything unless it names a project.
func TestTenantsSeeTheirOwnOfTheSite(t *testing.T) {
	t.Parallel()
	s, tokens, _ := siteWorld(t)
	count := func(path string, header ...string) (n int, body string) {
		t.Helper()
		r := s.do(t, "GET", "/api/v1"+path, "", header...)
		var all []json.RawMessage
		if err := json.Unmarshal([]byte(r.body), &all); err != nil || r.status != 200 {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
		return len(all), r.body
	}
	// The world of tenants has one lease more.
	for path, want := range map[string]struct{ all, own, named int }{
		"/trash": {6, 3, 3}, "/leases": {3, 1, 1}, "/orphans": {3, 1, 2},
	} {
		if n, body := count(path); n != want.all {
			t.Errorf("%s has %d objects, want %d: %s", path, n, want.all, body)
		}
		if n, body := count(path+"?all_projects=true", "Seedbed-Project", "acme"); n != want.all {
			t.Errorf("%s of all projects has %d objects, want %d: %s", path, n, want.all, body)
		}
		if n, body := count(path, "Seedbed-Project", "acme"); n != want.named || strings.Contains(body, "yours") {
			t.Errorf("%s of acme has %d objects, want %d: %s", path, n, want.named, body)
		}
		for role, secret := range tokens {
			n, body := count(path, "Authorization", "Bearer "+secret)
			for _, hidden := range []string{"hv9", testNode, "yours", "lost"} {
				if n != want.own || strings.Contains(body, hidden) {
					t.Errorf("%s as %s of acme has %d objects, want %d: %s (%s)", path, role, n, want.own, body, hidden)
				}
			}
			if r := s.do(t, "GET", "/api/v1"+path+"?all_projects=true", "", "Authorization", "Bearer "+secret); r.status != 403 {
				t.Errorf("%s of all projects as %s of acme: %d %s", path, role, r.status, r.body)
			}
			if path == "/leases" {
				continue
			}
			for _, node := range []string{"hv9", "none"} {
				r := s.do(t, "GET", "/api/v1"+path+"?node="+node, "", "Authorization", "Bearer "+secret)
				if r.status != 403 || strings.Contains(r.body, node) {
					t.Errorf("%s of a node as %s of acme: %d %s", path, role, r.status, r.body)
				}
			}
		}
	}
	viewer := s.newToken(t, "looker", seedbed.RoleViewer)
	if n, body := count("/trash", "Authorization", "Bearer "+viewer); n != 6 || !strings.Contains(body, "hv9") {
		t.Errorf("the trash for a viewer from default has %d objects: %s", n, body)
	}
}

// TestTenantsChangeTheirOwnTrash restores, discards and purges volumes as an operator of a project. What
// belongs to another project is answered as what does not exist.
func TestTenantsChangeTheirOwnTrash(t *testing.T) {
	t.Parallel()
	s, tokens, _ := siteWorld(t)
	as := func(role seedbed.Role, method, path, body string) response {
		return s.do(t, method, "/api/v1"+path, body, "Authorization", "Bearer "+tokens[role])
	}
	for _, one := range []struct{ method, path, body string }{
		{"POST", "/trash/default/ID/restore", ""}, {"DELETE", "/trash/default/ID", ""}, {"POST", "/trash", `{"pool":"default","name":"ID"}`},
	} {
		var answers []string
		for _, id := range []string{"new-yours", "v-yours", "absent"} {
			r := as(seedbed.RoleOperator, one.method, strings.Replace(one.path, "ID", id, 1), strings.Replace(one.body, "ID", id, 1))
			if r.status != 404 {
				t.Errorf("%s %s of %s: %d %s", one.method, one.path, id, r.status, r.body)
			}
			answers = append(answers, strings.ReplaceAll(r.body, id, "ID"))
		}
		if answers = slices.Compact(answers); len(answers) > 1 {
			t.Errorf("%s %s: %q", one.method, one.path, answers)
		}
	}

	// One item is in the pool, so that it can be restored.
	mine, err := s.db.InstanceByName(t.Context(), seedbed.Named("acme", "mine"))
	if err != nil {
		t.Fatal(err)
	}
	spec := seedbed.VolumeSpec{Pool: "default", Name: "own-0", Instance: mine.ID, Project: "acme", Size: seedbed.GiB}
	if _, err := s.shelf.CloneVolume(t.Context(), seedbed.NewJobID(), spec); err != nil {
		t.Fatal(err)
	}
	s.shelf.SetTrash(time.Hour)
	item, err := s.shelf.TrashVolume(t.Context(), spec.Name, mine.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := "/trash/default/" + item.ID
	if r := as(seedbed.RoleViewer, "POST", at+"/restore", ""); r.status != 403 {
		t.Errorf("restored by a viewer: %d %s", r.status, r.body)
	}
	if r := as(seedbed.RoleOperator, "POST", at+"/restore?node="+testNode, ""); r.status != 403 {
		t.Errorf("restored on a node: %d %s", r.status, r.body)
	}
	used, err := s.db.ProjectUse(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	quota := func(more seedbed.Bytes) {
		t.Helper()
		s.expect(t, "PUT", "/projects/acme/quota", `{"max_disk":"`+(used.Disk+more).String()+`"}`, 200)
	}
	quota(seedbed.GiB) // one volume is restored already
	if r := as(seedbed.RoleOperator, "POST", at+"/restore", ""); r.status != 403 || !strings.Contains(r.body, "its quota is ") {
		t.Errorf("restored above the quota: %d %s", r.status, r.body)
	}
	quota(2 * seedbed.GiB)
	r := as(seedbed.RoleOperator, "POST", at+"/restore", "")
	if r.status != 200 || !strings.Contains(r.body, `"project":"acme"`) || strings.Contains(r.body, "/memory") ||
		strings.Contains(r.body, testNode) {
		t.Errorf("restored: %d %s", r.status, r.body)
	}
}

// TestRestoresAtTheLimit restores many volumes of a project at once, of which its quota has room for one. It never
// ends above its quota.
func TestRestoresAtTheLimit(t *testing.T) {
	t.Parallel()
	s, tokens, _ := siteWorld(t)
	mine, err := s.db.InstanceByName(t.Context(), seedbed.Named("acme", "mine"))
	if err != nil {
		t.Fatal(err)
	}
	s.shelf.SetTrash(time.Hour)
	*s.shelf.others = nil
	var ids []string
	for n := range 6 {
		spec := seedbed.VolumeSpec{Pool: "default", Name: fmt.Sprint("own-", n), Instance: mine.ID, Project: "acme", Size: seedbed.GiB}
		if _, err := s.shelf.CloneVolume(t.Context(), seedbed.NewJobID(), spec); err != nil {
			t.Fatal(err)
		}
		item, err := s.shelf.TrashVolume(t.Context(), spec.Name, mine.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, item.ID)
	}
	used, err := s.db.ProjectUse(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "PUT", "/projects/acme/quota", `{"max_disk":"`+(used.Disk+seedbed.GiB).String()+`"}`, 200)
	var all sync.WaitGroup
	var done atomic.Int64
	for _, id := range ids {
		all.Go(func() {
			r := s.do(t, "POST", "/api/v1/trash/default/"+id+"/restore", "", "Authorization", "Bearer "+tokens[seedbed.RoleOperator])
			if r.status == 200 {
				done.Add(1)
			} else if r.status != 403 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	restored := int64(0)
	volumes, err := s.shelf.Pool.Volumes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes {
		if v.Restored {
			restored++
		}
	}
	if restored > 1 || restored != done.Load() {
		t.Errorf("%d volumes are restored, %d requests were answered so; want at most 1", restored, done.Load())
	}
	if restored == 0 { // all of them met
		s.by(t, tokens[seedbed.RoleOperator])("POST", "/trash/default/"+ids[0]+"/restore", "", 200)
	}
}

// TestAuditOfAProject reads the audit log as the admin of a project.
func TestAuditOfAProject(t *testing.T) {
	t.Parallel()
	s, tokens, _ := siteWorld(t)
	boss := tokens[seedbed.RoleAdmin]
	if r := s.do(t, "POST", "/api/v1/tokens", `{"name":"extra","role":"viewer"}`, "Authorization", "Bearer "+boss); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	read := func(query, secret string) (all []seedbed.AuditEntry) {
		t.Helper()
		r := s.do(t, "GET", "/api/v1/audit"+query, "", "Authorization", "Bearer "+secret)
		if err := json.Unmarshal([]byte(r.body), &all); err != nil {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return all
	}
	all := read("?limit=1000", boss)
	if len(all) < 5 || all[0].Actor != "token acme/acme-admin" || all[0].From == "" {
		t.Errorf("%d entries, the last %+v", len(all), all[0])
	}
	for _, e := range all {
		if e.Project != "acme" || strings.Contains(string(e.Asked)+e.What, "yours") {
			t.Errorf("entry %+v", e)
		}
	}
	for _, e := range all[1:] {
		if e.Actor != seedbed.InstallationActor || e.From != "" {
			t.Errorf("entry of an admin of the installation %+v", e)
		}
	}
	if got := read("?actor=installation", boss); len(got) != len(all)-1 {
		t.Errorf("%d entries of the installation, want %d", len(got), len(all)-1)
	}
	if got := read("?actor=uid%200", boss); len(got) != 0 {
		t.Errorf("entries by who they are of: %+v", got)
	}
	if r := s.do(t, "GET", "/api/v1/audit", "", "Authorization", "Bearer "+tokens[seedbed.RoleOperator]); r.status != 403 {
		t.Errorf("as an operator: %d %s", r.status, r.body)
	}
	whole := len(read("?limit=1000", s.newToken(t, "chief", seedbed.RoleAdmin)))
	if whole <= len(all) {
		t.Errorf("an admin of the installation reads %d entries, and one of acme %d", whole, len(all))
	}
}

// unreached answers for a worker that does not answer.
type unreached struct{ shelf }

var errUnreached = seedbed.Errorf(seedbed.ErrUnavailable, "node hv9: the worker does not answer on https://hv9.example:7375")

func (unreached) Trash(context.Context, string) ([]seedbed.TrashItem, error) {
	return nil, errUnreached
}

func (unreached) Console(context.Context, string, seedbed.InstanceID, seedbed.Bytes) ([]byte, error) {
	return nil, errUnreached
}

// TestTenantsAreNotToldWhatDoesNotAnswer checks that a tenant does not read the address of a worker.
func TestTenantsAreNotToldWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s, tokens, _ := siteWorld(t)
	cfg := s.config()
	cfg.Trash, cfg.Console = unreached{s.shelf}, unreached{s.shelf}
	s.restart(t, cfg)
	for _, path := range []string{"/api/v1/trash", "/api/v1/instances/mine/console", "/api/v1/vm/mine/console"} {
		r := s.do(t, "GET", path, "", "Authorization", "Bearer "+tokens[seedbed.RoleOperator])
		if r.status != 503 || strings.Contains(r.body, "hv9") || !strings.Contains(r.body, "oes not answer now: try again later") ||
			r.header.Get("Retry-After") == "" && !strings.Contains(path, "/vm/") {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
	s.expect(t, "GET", "/trash", "", 503, "https://hv9.example:7375")
}
