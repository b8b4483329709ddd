package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"

	"github.com/google/go-cmp/cmp"
)

// twoStrangers answers for a worker with two domains.
type twoStrangers struct{ strangers }

func (twoStrangers) ForeignDomains(context.Context, string) ([]seedbed.ForeignDomain, error) {
	other := strange
	other.Name, other.ID = "a name with spaces", "1f1e2d3c-1111-4222-8333-444455556666"
	return []seedbed.ForeignDomain{strange, other}, nil
}

// listable returns a server on which each list has at least two objects.
func listable(t *testing.T) *server {
	t.Helper()
	s, _ := changeable(t)
	ctx := t.Context()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range [][2]string{
		{"/security-groups", `{"name":"app"}`}, {"/placement-groups", `{"name":"near","policy":"affinity"}`},
		{"/addresses", `{"network":"lent"}`},
		{"/tokens", `{"name":"writer","role":"operator"}`}, {"/hooks", `{"name":"other"}`},
		{"/endpoints", `{"name":"second","url":"https://hooks.example/x","events":["*"]}`},
		{"/userdata", `{"name":"u2","data":"#!x"}`}, {"/instances", `{"name":"web2","profile":"p"}`},
	} {
		s.expect(t, "POST", one[0], one[1], map[bool]int{true: 202, false: 201}[one[0] == "/instances"])
	}
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	s.expect(t, "PATCH", "/instances/web2", `{"forward":[{"listen":"tcp:80","port":80},{"listen":"udp:53","port":53}]}`, 200)
	appliance := string(machine().Bytes())
	if r := s.do(t, "POST", "/api/v1/ovas/vm2/content", appliance, "Content-Type", "application/octet-stream"); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	must(s.perform(ctx, s.claim(t)))

	s.guestDid(t, "web1")
	web1, err := s.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	must(err)
	web2, err := s.db.InstanceByName(ctx, seedbed.InDefault("web2"))
	must(err, s.db.AddGuestEvents(ctx, testNode, "spool1", []seedbed.GuestEvent{{Seq: 4, Instance: web2.ID, Kind: seedbed.GuestLease,
		At: time.Now(), MAC: web2.NICs[0].MAC, Addr: web2.NICs[0].Addr, Until: time.Now().Add(time.Hour)}}))
	_, err = s.shelf.CreateSnapshot(ctx, seedbed.NewJobID(),
		seedbed.SnapshotSpec{Volume: web1.Volumes[0].Name, Instance: web1.ID, Name: "after"})
	must(err)
	for n := range 2 {
		*s.shelf.others = append(*s.shelf.others, seedbed.TrashItem{
			Pool: "default", Node: "hv9", ID: fmt.Sprint("t", n), Name: fmt.Sprint("v", n),
			State: seedbed.Trashed, Instance: web1.ID, Removed: time.Unix(1e9, 0), Expires: time.Unix(2e9, 0)})
	}
	// Two deliveries were received at the same time.
	at := time.Now().Add(time.Minute)
	must(s.db.RecordDelivery(ctx, seedbed.Delivery{Hook: "other", ID: "d1", Received: at, Decision: seedbed.DecisionIgnored}),
		s.db.RecordDelivery(ctx, seedbed.Delivery{Hook: "ci", ID: "d2", Received: at, Decision: seedbed.DecisionRefused}))
	must(s.db.RecordRejections(ctx, []seedbed.Rejection{
		{Hook: "ci", Peer: "192.0.2.1", Reason: "signature", Times: 2, First: at, Last: at},
		{Hook: "ci", Peer: "", Reason: "signature", Times: 2, First: at, Last: at},
		{Hook: "other", Peer: "192.0.2.1", Reason: "time", Times: 1, First: at, Last: at.Add(-time.Hour)}}))
	for _, name := range []string{"anna", "bert"} {
		s.beginSession(t, name)
	}
	for _, name := range []string{"one", "two"} {
		s.expect(t, "POST", "/instances/web1/snapshots", `{"name":"`+name+`"}`, 202)
		job := s.claim(t)
		must(s.db.Step(ctx, job.Ref(), seedbed.Step{Next: "snapshot", Total: 1}), s.db.Undo(ctx, job.Ref(), "no room"),
			s.db.Undone(ctx, job.Ref(), "snapshot", "no answer"),
			s.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete}))
	}
	cfg := s.config()
	cfg.Strangers = twoStrangers{}
	s.restart(t, cfg)
	return s
}

// objects reads one page of a list.
func (s *server) objects(t *testing.T, path string) (all []json.RawMessage, next string) {
	t.Helper()
	r := s.do(t, "GET", path, "")
	if err := json.Unmarshal([]byte(r.body), &all); err != nil || r.status != 200 {
		t.Fatalf("%s: %+v, %v", path, r, err)
	}
	if link := r.header.Get("Link"); link != "" {
		m := nextLink.FindStringSubmatch(link)
		if m == nil {
			t.Fatalf("%s: Link: %s", path, link)
		}
		next = m[1]
	}
	return all, next
}

// TestEveryListHasPages reads each list of the native API one object at a time. These are the objects of
// one request for all, in their order. A route without a row in listRoutes fails.
func TestEveryListHasPages(t *testing.T) {
	t.Parallel()
	s := listable(t)
	rows := map[string]bool{}
	for _, route := range api.NativeRoutes() {
		name := route.Method + " " + route.Path
		if route.Method != "GET" {
			continue
		}
		rows[name] = true
		why, listed := listRoutes[name]
		if !listed {
			t.Errorf("%s has no row in listRoutes", name)
		}
		if why != "" || !listed {
			continue
		}
		hook := "web1"
		switch {
		case strings.HasPrefix(route.Path, "/hooks"):
			hook = "ci"
		case strings.HasPrefix(route.Path, "/endpoints"):
			hook = "out"
		case strings.HasPrefix(route.Path, "/networks"):
			hook = "default"
		}
		path := "/api/v1" + strings.Replace(route.Path, ":name", hook, 1)
		all, next := s.objects(t, path+"?limit=1000")
		if len(all) < 2 || next != "" {
			t.Errorf("%s has %d objects, want 2 or more, and the next page %q", path, len(all), next)
			continue
		}
		var one []json.RawMessage
		for at := path + "?limit=1"; at != "" && len(one) <= len(all); {
			page, following := s.objects(t, at)
			if len(page) != 1 {
				t.Errorf("%s: %d objects, want 1", at, len(page))
			}
			one, at = append(one, page...), following
		}
		if diff := cmp.Diff(texts(all), texts(one)); diff != "" {
			t.Errorf("%s, and in pages: %s", path, diff)
		}
		for _, query := range []string{"limit=0", "limit=1001", "limit=x", "after=%25"} {
			if r := s.do(t, "GET", path+"?"+query, ""); r.status != 422 || !strings.Contains(r.body, "expected") {
				t.Errorf("%s?%s: %d %s", path, query, r.status, r.body)
			}
		}
	}
	for name := range listRoutes {
		if !rows[name] {
			t.Errorf("%s is in listRoutes and is not a route", name)
		}
	}
	for _, one := range selections {
		r := s.do(t, "GET", "/api/v1"+one.query, "")
		var all []json.RawMessage
		err := json.Unmarshal([]byte(r.body), &all)
		if one.want < 0 && r.status/100 != 4 || one.want >= 0 && (err != nil || len(all) != one.want) {
			t.Errorf("%s: %d with %d objects, want %d: %.300s", one.query, r.status, len(all), one.want, r.body)
		}
	}
}

// seenAt matches when a node answered, by the clock of the process that reads it.
var seenAt = regexp.MustCompile(`"seen":"[^"]*",`)

func texts(all []json.RawMessage) (lines []string) {
	for _, v := range all {
		lines = append(lines, seenAt.ReplaceAllString(string(v), ""))
	}
	return lines
}
