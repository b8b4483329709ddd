package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

// How a job is to be run can be said in a body and by a mapping, and comes to the same.
func TestJobOptions(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	base := seedbed.Request{Action: "create", Name: "web1", Profile: "small"}
	for name, test := range map[string]struct {
		action, more string // members of JSON, which CEL takes as well
		change       func(*seedbed.Request)
	}{
		"nothing": {"create", ``, func(*seedbed.Request) {}},
		"kept":    {"create", `, "on_failure": "keep"`, func(r *seedbed.Request) { r.OnFailure.Policy = seedbed.FailKeep }},
		"retried": {"create", `, "on_failure": "retry:5:30s"`, func(r *seedbed.Request) {
			r.OnFailure = seedbed.OnFailure{Policy: seedbed.FailRetry, Attempts: 5, Backoff: 30 * time.Second}
		}},
		"low":               {"create", `, "priority": "low"`, func(r *seedbed.Request) { r.Priority = seedbed.PriorityLow }},
		"a number":          {"create", `, "priority": 3`, func(r *seedbed.Request) { r.Priority = 3 }},
		"a negative number": {"create", `, "priority": -3`, func(r *seedbed.Request) { r.Priority = -3 }},
		"after":             {"create", `, "after": "0193c7f2"`, func(r *seedbed.Request) { r.After = "0193c7f2" }},
		"held":              {"create", `, "hold": true, "protected": false`, func(r *seedbed.Request) { r.Hold, r.Protected = &yes, &no }},
		"placed":            {"create", `, "node": "hv2"`, func(r *seedbed.Request) { r.Node = "hv2" }},
		"migrated":          {"migrate", `, "node": "hv2"`, func(r *seedbed.Request) { r.Action, r.Node = "migrate", "hv2" }},
		"nothing said":      {"create", `, "hold": null, "priority": null, "on_failure": null, "after": null`, func(*seedbed.Request) {}},
		"plan": {"plan", `, "hold": true, "on_failure": "keep"`, func(r *seedbed.Request) {
			r.Action, r.Hold,
				r.OnFailure.Policy = "plan", &yes, seedbed.FailKeep
		}},
		"stop": {"stop", `, "priority": "high"`, func(r *seedbed.Request) { r.Action, r.Priority = "stop", seedbed.PriorityHigh }},
	} {
		want := base
		test.change(&want)
		text := fmt.Sprintf(`{"action": %q, "name": "web1", "profile": "small"%s}`, test.action, test.more)
		p, err := decode([]byte(text))
		if err != nil {
			t.Errorf("%s: decode: %v", name, err)
			continue
		}
		got, err := p.request()
		if d := cmp.Diff(want, got.Request); err != nil || d != "" {
			t.Errorf("%s: a body: %v (-want +got):\n%s", name, err, d)
		}
		r, err := compile("", text)
		if err != nil {
			t.Errorf("%s: compile: %v", name, err)
			continue
		}
		if p, err = r.request(t.Context(), push(t)); err == nil {
			got, err = p.request()
		}
		if d := cmp.Diff(want, got.Request); err != nil || d != "" {
			t.Errorf("%s: a mapping: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// What no job can be run by is refused, with what would be right.
func TestJobOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ action, more, says string }{
		"no policy":             {"create", `, "on_failure": "explode"`, "expected rollback, keep, or retry"},
		"no priority":           {"create", `, "priority": "urgent"`, "expected low, normal, high"},
		"too high":              {"create", `, "priority": 101`, "expected low, normal, high"},
		"a fraction":            {"create", `, "priority": 1.5`, "priority is of another type"},
		"a remove kept":         {"remove", `, "on_failure": "keep"`, "on_failure does not apply to a remove job"},
		"a remove after":        {"remove", `, "after": "0193c7f2"`, "a remove job cannot start after another job"},
		"a rebuild kept":        {"rebuild", `, "on_failure": "keep"`, "cannot be kept"},
		"a stop that is held":   {"stop", `, "hold": true`, "for create and plan"},
		"a rebuild elsewhere":   {"rebuild", `, "node": "hv2"`, "for create and plan"},
		"a rebuild in groups":   {"rebuild", `, "security_groups": ["web"]`, "for create and plan"},
		"a start not protected": {"start", `, "protected": false`, "for create and plan"},
	} {
		p, err := decode(fmt.Appendf(nil, `{"action": %q, "name": "web1", "profile": "small"%s}`, test.action, test.more))
		if err != nil {
			t.Errorf("%s: decode: %v", name, err)
			continue
		}
		if _, err := p.request(); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", name, err, test.says)
		}
	}
	for body, says := range map[string]string{
		`{"hold":"yes"}`:   "member /hold has the wrong type: expected true or false",
		`{"on_failure":1}`: "member /on_failure has the wrong type: expected a string",
		`{"job":{"after":1}}`: "expected action, name, profile, image, params, node, network, nics, security_groups, volume, " +
			"on_failure, priority, after, hold, protected, expires, at_expiry, instance and nic",
	} {
		if _, err := decode([]byte(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", body, err, says)
		}
	}
}

// A mapping's values are checked when it is saved, as far as they are known.
func TestMappingIsTyped(t *testing.T) {
	t.Parallel()
	for mapping, says := range map[string]string{
		`{"priority": true}`:                         "mapping: line 1, column 14: priority is bool: expected a string or a whole number",
		`{"priority": 1.5}`:                          "priority is double",
		`{"priority": "urgent"}`:                     "column 14: priority: priority \"urgent\" is not usable",
		`{"priority": 400}`:                          "is not usable",
		`{"on_failure": 3}`:                          "on_failure is int: expected a string",
		`{"on_failure": "explode"}`:                  "expected rollback, keep, or retry",
		`{"hold": "yes"}`:                            "hold is string: expected true or false",
		`{"protected": size(body.x)}`:                "protected is int",
		`{"after": ["a"]}`:                           "after is list",
		`{"action": "explode"}`:                      "action: expected one of create, remove",
		`{"name": 1}`:                                "name is int: expected a string",
		`{"params": "x"}`:                            "params is string: expected a map",
		`{?"priority": optional.of(true)}`:           "priority is bool",
		`{"priority": headers["x"] == "1" ? 1 : 2u}`: "found no matching overload",
	} {
		if _, err := compile("", mapping); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", mapping, err, says)
		}
	}
	for _, mapping := range []string{
		`{"priority": body.urgent ? "high" : "normal"}`, `{"priority": -5}`, `{"priority": 3u}`, `{?"after": body.?job}`, `{"hold": body.hold}`,
		`{"on_failure": "retry:" + string(body.n) + ":30s"}`, `{"hold": null}`, `{"params": {"a": 1}, "name": headers["x"]}`, `body.request`,
	} {
		if _, err := compile("", mapping); err != nil {
			t.Errorf("%s: %v", mapping, err)
		}
	}
}

// A hook's jobs have no higher priority than it allows, and that is normal.
func TestPriorityIsBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		most, asked seedbed.Priority
		want        int
		unsaid      bool
	}{
		{0, 0, 202, false}, {0, -10, 202, false}, {0, 1, 403, false}, {10, 10, 202, false}, {10, 11, 403, false}, {-10, 0, 403,
			false}, {-10, -10, 202, false},
		{10, 0, 202, true}, {-10, -10, 202, true},
	} {
		d, l := pushHook(t), &ledger{}
		h := d.hooks["forge"]
		h.HookSettings.Priority = test.most
		h.Mapping = `{"action": "create", "name": body.name, "profile": "small", "priority": body.priority}`
		d.hooks["forge"] = h
		s := start(t, Config{Hooks: d, Intake: l, History: &memory{}})
		body := fmt.Sprintf(`{"ref":"refs/heads/main","name":"web1","priority":%d}`, test.asked)
		if test.unsaid {
			body = `{"ref":"refs/heads/main","name":"web1","priority":null}`
		}
		if got := deliver(t, s, "forge", pushed(t, d, "d1", body), body); got.status != test.want {
			t.Errorf("%d of at most %d: %d %s; want %d", test.asked, test.most, got.status, got.body, test.want)
		}
		if test.want == 202 && (len(l.requests) != 1 || l.requests[0].Priority != test.asked) {
			t.Errorf("asked for %+v", l.requests)
		}
	}
	h := pushHook(t).hooks["forge"]
	h.HookSettings.Priority = 101
	if err := CheckHook(h); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "priority 101 is out of range") {
		t.Errorf("a priority that there is not: %v", err)
	}
}
