package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
	"seedbed/internal/run"
)

// What strangers call a hook is no label; what came of each delivery is counted once.
func TestCounts(t *testing.T) {
	t.Parallel()
	key := vectorKey(t)
	hook := func(name string, change func(*seedbed.Hook)) seedbed.Hook {
		h := seedbed.Hook{Name: name, HookSettings: of(seedbed.SchemeStandard), Keys: keys(key), Actions: []string{"create", "plan"}}
		if change != nil {
			change(&h)
		}
		return h
	}
	submit := func(_ context.Context, r seedbed.Request, _ *seedbed.Delivery) (seedbed.Receipt, error) {
		switch r.Name {
		case "twice":
			return seedbed.Receipt{Job: "11111111-2222-4333-8444-555555555555", Duplicate: true}, nil
		case "down":
			return seedbed.Receipt{}, errors.New("disk I/O error")
		case "full":
			return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrFull, "no address is left")
		}
		return seedbed.Receipt{Job: "11111111-2222-4333-8444-555555555555", State: seedbed.JobQueued}, nil
	}
	s := start(t, Config{Intake: intakeFunc(submit), Hooks: directory{hooks: map[string]seedbed.Hook{
		"ci":   hook("ci", nil),
		"rule": hook("rule", func(h *seedbed.Hook) { h.When = "body.name == 'nobody'" }),
		"slow": hook("slow", func(h *seedbed.Hook) { h.Rate = 0.001 }),
	}}})
	send := func(name, id, body string, want int) {
		t.Helper()
		if got := s.raw(t, message("POST", "/hooks/"+name, signed(key, id, time.Now(), body), body)); got.status != want {
			t.Errorf("%s to %s: %d %s, want %d", id, name, got.status, got.body, want)
		}
	}
	named := func(name string) string { return strings.Replace(create, `"web1"`, `"`+name+`"`, 1) }
	send("ci", "a", create, 202)
	send("ci", "b", create, 202)
	send("ci", "c", named("twice"), 202)
	send("ci", "d", strings.Replace(create, "create", "plan", 1), 200)
	send("ci", "e", strings.Replace(create, "create", "remove", 1), 403)
	send("ci", "f", named("down"), 503)
	send("ci", "g", named("full"), 507)
	send("ci", "h", "nonsense", 400)
	send("rule", "a", create, 202)
	send("slow", "a", create, 202)
	send("slow", "b", create, 429)
	send("nobody", "a", create, 401)
	send("somebody", "a", create, 401)
	wrong := signed(make([]byte, 32), "i", time.Now(), create)
	if got := s.raw(t, message("POST", "/hooks/ci", wrong, create)); got.status != http.StatusUnauthorized {
		t.Errorf("a wrong signature: %d", got.status)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.server)
	w := httptest.NewRecorder()
	run.MetricsHandler(reg).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "seedbed_webhook_received_total") && !strings.HasSuffix(line,
			" 0") || strings.HasPrefix(line, "seedbed_webhook_seconds_count") {
			got = append(got, strings.TrimPrefix(line, "seedbed_webhook_"))
		}
	}
	want := []string{
		`received_total{decision="accepted",hook="ci",status="202"} 2`,
		`received_total{decision="accepted",hook="slow",status="202"} 1`,
		`received_total{decision="deferred",hook="ci",status="503"} 1`,
		`received_total{decision="deferred",hook="ci",status="507"} 1`,
		`received_total{decision="deferred",hook="slow",status="429"} 1`,
		`received_total{decision="duplicate",hook="ci",status="202"} 1`,
		`received_total{decision="ignored",hook="rule",status="202"} 1`,
		`received_total{decision="planned",hook="ci",status="200"} 1`,
		`received_total{decision="refused",hook="",status="401"} 2`,
		`received_total{decision="refused",hook="ci",status="400"} 1`,
		`received_total{decision="refused",hook="ci",status="401"} 1`,
		`received_total{decision="refused",hook="ci",status="403"} 1`,
		`seconds_count{hook="ci"} 4`,
		`seconds_count{hook="rule"} 1`,
		`seconds_count{hook="slow"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Once a hook is known, counting what was taken costs no memory. It runs alone: others' memory
// would count.
func TestCountingAllocatesNothing(t *testing.T) {
	var c counts
	c.make()
	d := &delivered{hook: seedbed.Hook{Name: "ci"}}
	if n := testing.AllocsPerRun(100, func() { c.count(d, outcome{decision: seedbed.DecisionAccepted}, nil, time.Millisecond) }); n > 0 {
		t.Errorf("%g allocations to count one", n)
	}
}
