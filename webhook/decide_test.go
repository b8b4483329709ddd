package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"

	"github.com/google/go-cmp/cmp"
)

// pushHook makes an instance of a push to main, and keeps what came.
func pushHook(t testing.TB) directory {
	h := seedbed.Hook{Name: "forge", Project: "acme", Keys: keys([]byte("a secret of some length")), Actions: seedbed.Actions(),
		HookSettings: seedbed.HookSettings{
			Scheme: seedbed.SchemeGitHub, KeepPayload: true,
			When:    `headers["x-github-event"] == "push" && body.ref == "refs/heads/main"`,
			Mapping: `{"action": query.?do.orValue("create"), "name": body.name, "profile": "small"}`}}
	return directory{hooks: map[string]seedbed.Hook{"forge": h}}
}

func pushed(t testing.TB, d directory, id, body string) map[string]string {
	t.Helper()
	h, err := signature.Headers(d.hooks["forge"].HookSettings, "a secret of some length", id, time.Now(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h["Host"], h["Content-Type"], h["Content-Length"], h["X-GitHub-Event"] = "x", "application/json", fmt.Sprint(len(body)), "push"
	return h
}

func TestRulesDecide(t *testing.T) {
	t.Parallel()
	d, l, kept := pushHook(t), &ledger{}, &memory{}
	s := start(t, Config{Hooks: d, Intake: l, History: kept})
	main := `{"ref":"refs/heads/main","name":"web1"}`
	for _, test := range []struct {
		name, path, body string
		status           int
		holds            string
	}{
		{"matched", "forge", main, 202, `"job"`},
		{"ignored", "forge", `{"ref":"refs/heads/other","name":"web1"}`, 202, `{"decision":"ignored","delivery":"d1"}`},
		{"plan", "forge?do=plan", main, 200, `"decision":"planned","delivery":"d2","plan":{"project":"acme","name":"web1"`},
		{"no such member", "forge", `{"ref":"refs/heads/main"}`, 422, "mapping"},
		{"twice", "forge", `{"ref":"a","ref":"b"}`, 400, "is given twice"},
		{"unknown action", "forge?do=explode", main, 403, "explode"},
	} {
		id := fmt.Sprint("d", len(kept.all)+len(l.requests))
		if got := deliver(t, s, test.path, pushed(t, d, id, test.body), test.body); got.status != test.status ||
			!strings.Contains(got.body, test.holds) {
			t.Errorf("%s: %d %s, want %d with %s", test.name, got.status, got.body, test.status, test.holds)
		}
	}
	var decided []seedbed.Decision
	for _, e := range kept.all {
		decided = append(decided, e.Decision)
		if e.Payload == nil || e.Headers["x-github-event"] != "push" || e.Headers["x-hub-signature-256"] != "" {
			t.Errorf("%+v", e)
		}
	}
	if diff := cmp.Diff([]seedbed.Decision{"ignored", "planned", "refused", "refused", "refused"}, decided); diff != "" {
		t.Error(diff)
	}
	if len(l.requests) != 1 || l.requests[0].Project != "acme" || l.last.Payload == nil {
		t.Errorf("requests %+v, payload %q", l.requests, l.last.Payload)
	}
}

// restless is a store that is written to all the time.
type restless struct{ looks atomic.Int64 }

func (r *restless) Job(context.Context, seedbed.JobID) (seedbed.Job, error) {
	r.looks.Add(1)
	return seedbed.Job{State: seedbed.JobRunning}, nil
}

func (r *restless) Hint() <-chan struct{} {
	hint := make(chan struct{})
	close(hint)
	return hint
}

// Those who wait do not read their job at each of other jobs' writes.
func TestWaitingIsCheap(t *testing.T) {
	t.Parallel()
	jobs := &restless{}
	r := &receiver{Server: New(Config{Jobs: jobs}), base: t.Context()}
	if _, ended := r.await("x", 5*restBetween); ended || jobs.looks.Load() > 10 {
		t.Errorf("ended %t after %d looks in %s", ended, jobs.looks.Load(), 5*restBetween)
	}
}

func TestTooMany(t *testing.T) {
	t.Parallel()
	d := testDirectory(t)
	h := d.hooks["ci"]
	h.Rate = 0.01
	d.hooks["ci"] = h
	s := start(t, Config{Hooks: d, Intake: &ledger{}})
	unsigned := signed(vectorKey(t), "msg_1", time.Now(), create)
	unsigned["webhook-signature"] = vectorSignature
	for range 3 { // who proves nothing uses nothing up
		if got := deliver(t, s, "ci", unsigned, create); got.status != 401 {
			t.Errorf("%+v", got)
		}
	}
	for _, want := range []int{202, 429} {
		got := deliver(t, s, "ci", signed(vectorKey(t), "msg_1", time.Now(), create), create)
		if got.status != want || (got.header.Get("Retry-After") != "") != (want == 429) {
			t.Errorf("%+v, want %d", got, want)
		}
	}
}

func TestRedeliver(t *testing.T) {
	t.Parallel()
	d, l, kept := pushHook(t), &ledger{}, &memory{}
	s := start(t, Config{Hooks: d, Intake: l, History: kept})
	body := `{"ref":"refs/heads/other","name":"web1"}`
	deliver(t, s, "forge?do=stop", pushed(t, d, "d1", body), body)
	h := d.hooks["forge"]
	h.When = ""
	d.hooks["forge"] = h // the rule is put right
	again, err := s.server.Redeliver(t.Context(), "forge", "d1", seedbed.JobOptions{Priority: 7})
	if err != nil || again.Decision != seedbed.DecisionAccepted || !strings.HasPrefix(again.ID, "d1~") || again.Job == "" {
		t.Fatalf("%+v, %v", again, err)
	}
	want := seedbed.Request{Action: "stop", Project: "acme", Name: "web1", Profile: "small", JobOptions: seedbed.JobOptions{Priority: 7}}
	if diff := cmp.Diff([]seedbed.Request{want}, l.requests); diff != "" || l.last.ID != again.ID {
		t.Error(diff, l.last.ID)
	}
	if _, err := s.server.Redeliver(t.Context(), "forge", "nothing", seedbed.JobOptions{}); !errors.Is(err, seedbed.ErrNotFound) {
		t.Error(err)
	}
	kept.all[0].Payload = nil
	if _, err := s.server.Redeliver(t.Context(), "forge", "d1", seedbed.JobOptions{}); !errors.Is(err, seedbed.ErrConflict) ||
		!strings.Contains(err.Error(), "--keep-payload") {
		t.Error(err)
	}
}

// A hook that asks for no proof listens to this host alone.
func TestUnsignedIsLocal(t *testing.T) {
	t.Parallel()
	d := directory{hooks: map[string]seedbed.Hook{"open": {Name: "open",
		HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeNone, Insecure: true}}}}
	s := start(t, Config{Hooks: d, Intake: &ledger{}})
	h := map[string]string{"Host": "x", "Content-Type": "application/json", "Content-Length": fmt.Sprint(len(create))}
	if got := deliver(t, s, "open", h, create); got.status != 202 {
		t.Errorf("%+v", got)
	}
	h["X-Forwarded-For"] = "192.0.2.1"
	if got := deliver(t, s, "open", h, create); got.status != 401 {
		t.Errorf("forwarded: %+v", got)
	}
}

// TestNICActions checks that a delivery asks for a job on a NIC with what the job needs, and nothing else.
func TestNICActions(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"action":"nic-add","name":"web1","nics":[{"network":"lab"}]}`:             "",
		`{"action":"resize","name":"web1","params":{"vcpus":2}}`:                    "",
		`{"action":"clone","name":"web1","node":"hv1","params":{"name":"web2"}}`:    "",
		`{"action":"rename","name":"web1","node":"hv1","params":{"name":"web2"}}`:   "node also for migrate",
		`{"action":"nic-set","name":"web1","nic":1,"nics":[{"network":"lab"}]}`:     "",
		`{"action":"nic-remove","name":"web1","nic":1}`:                             "",
		`{"action":"nic-remove","name":"web1","nic":1,"instance":"web2"}`:           "cannot be set with nic-remove",
		`{"action":"nic-add","name":"web1","nics":[{}],"params":{"vcpus":1}}`:       "nic-add has no params",
		`{"action":"nic-add","name":"web1","nics":[{}],"security_groups":["open"]}`: "cannot be set with nic-add",
		`{"action":"start","name":"web1","nic":1}`:                                  "cannot be set with start",
	} {
		p, err := decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.request()
		if want == "" && (err != nil || len(a.NICs) != len(p.NICs) || a.NIC != p.NIC) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v; want %q", body, a, err, want)
		}
	}
}

// TestVolumeActions checks that a delivery asks for a job on a volume with what the job needs, and nothing else.
func TestVolumeActions(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"action":"volume-add","name":"data","volume":{"size":"10GiB","iops":500}}`:           "",
		`{"action":"volume-resize","name":"data","volume":{"size":"20GiB"}}`:                   "",
		`{"action":"volume-set","name":"data","volume":{"iops":0}}`:                            "",
		`{"action":"volume-attach","name":"data","instance":"web1","volume":{"bus":"scsi"}}`:   "",
		`{"action":"volume-attach","name":"data","instance":"web1"}`:                           "",
		`{"action":"volume-detach","name":"data"}`:                                             "",
		`{"action":"volume-remove","name":"data","on_failure":"keep"}`:                         "it is never undone",
		`{"action":"volume-add","name":"data"}`:                                                "volume is missing",
		`{"action":"volume-add","name":"data","volume":{"size":"10GiB","name":"other"}}`:       `has the name "other"`,
		`{"action":"volume-add","name":"data","volume":{"size":"10 parsecs"}}`:                 "volume: member /size",
		`{"action":"volume-add","name":"data","volume":{"speed":1}}`:                           "volume: member /speed is unknown",
		`{"action":"volume-add","name":"data","volume":{"size":"10GiB"},"instance":"web1"}`:    "instance is for volume-attach",
		`{"action":"volume-add","name":"data","volume":{"size":"10GiB"},"params":{"vcpus":1}}`: "expected only action, name, volume",
		`{"action":"volume-attach","name":"data","volume":{"instance":"web1"}}`:                "expected it as instance",
		`{"action":"volume-remove","name":"data","volume":{}}`:                                 "volume cannot be set with volume-remove",
		`{"action":"start","name":"web1","volume":{"size":"10GiB"}}`:                           "volume is for actions on volumes",
		`{"action":"network-remove","name":"lab","volume":{"size":"10GiB"}}`:                   "makes no job",
	} {
		p, err := decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.request()
		if want == "" && (err != nil || a.Name != "data" || a.Volume.Attach.Instance != p.Instance) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v; want %q", body, a, err, want)
		}
	}
}
