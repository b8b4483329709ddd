package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"seedbed"
	"seedbed/webhook"
)

// TestForeignInstances sends each action to hooks of one project, for an instance of another project and
// for one that does not exist. The answers are the same, and nothing happens to the instance.
func TestForeignInstances(t *testing.T) {
	t.Parallel()
	i := installWith(t, webhook.Config{})
	if _, err := i.db.CreateProject(t.Context(), seedbed.Project{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, err := i.db.PublishProfile(t.Context(), "small", seedbed.Publication{Projects: []string{"acme"}}); err != nil {
		t.Fatal(err)
	}
	key := []seedbed.HookKey{{ID: "k1", Secret: hookKey}}
	for _, h := range []seedbed.Hook{
		{Name: "acme/own", Project: "acme", Actions: seedbed.Actions(), Keys: key},
		{Name: "acme/bound", Project: "acme", Actions: seedbed.Actions(), Profiles: []string{"small"}, Keys: key},
	} {
		h.Scheme = seedbed.SchemeStandard
		if _, err := i.db.CreateHook(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	client := newClient(t)
	send := func(hook, id, body string) reply {
		t.Helper()
		r, err := post(t, client, strings.Replace(i.url, "/ci", "/"+hook, 1), id, body)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := send("ci", "theirs", `{"action":"create","name":"web1","profile":"small"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	theirs, err := i.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"acme/own", "acme/bound"} {
		id := strings.ReplaceAll(hook, "/", "-")
		for _, action := range seedbed.Actions() {
			if action == seedbed.DoCreate || action == seedbed.DoPlan {
				continue
			}
			there := send(hook, id+action+"1", fmt.Sprintf(`{"action":%q,"name":"web1"}`, action))
			gone := send(hook, id+action+"2", fmt.Sprintf(`{"action":%q,"name":"webx"}`, action))
			there.Detail = strings.ReplaceAll(there.Detail, "web1", "webx")
			if there != gone || there.status == 202 {
				t.Errorf("%s by hook %s:\n%+v for an instance of another project\n%+v for none", action, hook, there, gone)
			}
		}
		r := send(hook, id+"node", `{"action":"create","name":"web9","profile":"small","node":"host1"}`)
		if r.status != 403 || !strings.Contains(r.Detail, "cannot choose a node") {
			t.Errorf("a node by hook %s: %+v", hook, r)
		}
	}
	// The name is free in the project.
	if r := send("acme/own", "ours", `{"action":"create","name":"web1","profile":"small"}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	ours, err := i.db.InstanceByName(t.Context(), seedbed.Named("acme", "web1"))
	if err != nil || ours.ID == theirs.ID {
		t.Errorf("%+v, %v", ours, err)
	}
	now, err := i.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil || now.Revision != theirs.Revision {
		t.Errorf("the instance was %+v, is %+v, %v", theirs, now, err)
	}
}

// TestProjectRate sends deliveries to two hooks of a project that has a rate. They count together, and only
// those with a valid signature do.
func TestProjectRate(t *testing.T) {
	t.Parallel()
	i := installWith(t, webhook.Config{})
	quota := seedbed.ProjectQuota{RateQuota: seedbed.RateQuota{HookRate: 0.01, HookBurst: 3}}
	if _, err := i.db.CreateProject(t.Context(), seedbed.Project{Name: "acme", Quota: quota}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acme/one", "acme/two"} {
		h := seedbed.Hook{Name: name, Project: "acme", Actions: seedbed.Actions()}
		h.Keys = []seedbed.HookKey{{ID: "k1", Secret: hookKey}}
		h.Scheme = seedbed.SchemeStandard
		if _, err := i.db.CreateHook(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	client := newClient(t)
	url := func(hook string) string { return strings.Replace(i.url, "/ci", "/"+hook, 1) }
	send := func(hook, id string, want int) reply {
		t.Helper()
		r, err := post(t, client, url(hook), id, `{"action":"stop","name":"none"}`)
		if err != nil || r.status != want {
			t.Fatalf("delivery %s to %s: %+v, %v: want status %d", id, hook, r, err, want)
		}
		return r
	}
	for range 5 {
		r, err := client.Post(url("acme/one"), "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode == 429 || r.Header.Get("Retry-After") != "" {
			t.Errorf("a delivery without a signature: %d, %s", r.StatusCode, r.Header)
		}
	}
	send("acme/one", "1", 422)
	send("acme/two", "2", 422)
	send("acme/one", "3", 422)
	r := send("acme/two", "4", 429)
	want := `project "acme" is above its rate of 0.01 deliveries per second; try again later`
	if r.Detail != want || r.retryAfter != "100" && r.retryAfter != "99" {
		t.Errorf("%+v: want %s", r, want)
	}
	if r, err := post(t, client, i.url, "5", `{"action":"stop","name":"none"}`); err != nil || r.status == 429 {
		t.Errorf("a delivery to another project: %+v, %v", r, err)
	}
	if _, err := i.db.ChangeProject(t.Context(), "acme", func(p *seedbed.Project) error {
		p.Quota = seedbed.ProjectQuota{}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	send("acme/two", "4", 422) // at once
}
