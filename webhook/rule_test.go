package webhook

import (
	"errors"
	"strings"
	"testing"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

func push(t testing.TB) event {
	t.Helper()
	body, err := decodeJSON([]byte(`{"ref":"refs/heads/main","repository":{"name":"Shop"},` +
		`"size":3,"ratio":1.5,"tags":["a","b"],"inner":"{\"n\":7}"}`))
	if err != nil {
		t.Fatal(err)
	}
	return event{headers: map[string]string{"x-github-event": "push"}, query: map[string]string{"zone": "a"}, body: body}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]bool{
		``: true,
		`headers["x-github-event"] == "push" && body.ref == "refs/heads/main"`: true,
		`body.ref.startsWith("refs/tags/")`:                                    false,
		`body.size + 1 == 4 && body.ratio > 1.0`:                               true,
		`"b" in body.tags && query.zone == "a"`:                                true,
		`body.?missing.orValue("none") == "none"`:                              true,
		`has(body.missing)`:                                                    false,
		`json(body.inner).n == 7`:                                              true,
		`body.repository.name.lowerAscii().matches("^[a-z]+$")`:                true,
	} {
		r, err := compile(when, "")
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		if got, err := r.matches(t.Context(), push(t)); err != nil || got != want {
			t.Errorf("%s: %t, %v, want %t", when, got, err, want)
		}
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	r, err := compile("", `{"action": "create", "name": body.repository.name.lowerAscii() + "-1", "profile": "web",
		"params": {"vcpus": body.size, "tags": body.tags, "memory": string(body.size) + "GiB", "deep": {"x": [1, true, null, 2.5]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.request(t.Context(), push(t))
	want := payload{Action: "create", Name: "shop-1", Profile: "web", Params: map[string]any{
		"vcpus": int64(3), "tags": []any{"a", "b"}, "memory": "3GiB", "deep": map[string]any{"x": []any{int64(1), true, nil, 2.5}}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ when, mapping, says string }{
		"syntax":          {"body.ref ==", "", "when: line 1, column 12"},
		"unknown name":    {"true &&\n payload.x", "", "when: line 2, column 2: undeclared reference to 'payload'"},
		"no truth value":  {`"yes"`, "", "when: line 1, column 1: it gives string"},
		"wrong types":     {`headers["a"] == 1`, "", "when: line 1, column 14"},
		"no map":          {"", `"create"`, "mapping: line 1, column 1: it gives string"},
		"unknown key":     {"", `{"action": "create", "nmae": "x"}`, "mapping: line 1, column 22: key nmae"},
		"grows":           {`body.a.replace("x", body.b) == ""`, "", "when: line 1, column 15: the text and its replacement"},
		"grows by join":   {"", `{"name": body.a.join(body.b)}`, "mapping: line 1, column 21: the list and its separator"},
		"too long":        {strings.Repeat(" ", maxRule) + "true", "", "at most"},
		"nested too deep": {strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500), "", "when"},
	} {
		if _, err := compile(test.when, test.mapping); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want ErrInvalid with %q", name, err, test.says)
		}
	}
}

// What cannot grow beyond what the rule itself has is taken.
func TestRulesMayReplace(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{`body.a.replace("/", "-") == ""`, `"vm-X".replace("X", body.a) == ""`,
		`body.a.split("/").join("-") == ""`, `["vm", body.a].join(body.b) == ""`} {
		if _, err := compile(rule, ""); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func TestRulesFail(t *testing.T) {
	t.Parallel()
	large := event{headers: map[string]string{}, query: map[string]string{}, body: map[string]any{"list": make([]any, 3000),
		"text": strings.Repeat("x", 1000), "json": "[" + strings.Repeat("0,", 10_000) + "0]"}}
	for name, test := range map[string]struct {
		when, mapping string
		e             event
	}{
		"missing member":  {`body.nothing == 1`, "", push(t)},
		"no truth value":  {`body.size`, "", push(t)},
		"costs too much":  {`body.list.all(x, body.list.all(y, body.list.all(z, x == y)))`, "", large},
		"no string":       {"", `{"action": body.size}`, push(t)},
		"dynamic key":     {"", `{body.ref: "x"}`, push(t)},
		"no map":          {"", `body.tags`, push(t)},
		"params no map":   {"", `{"params": body.tags}`, push(t)},
		"not JSON inside": {`json(body.ref).x == 1`, "", push(t)},
		"too much text":   {"", `{"params": {"x": body.list.map(x, body.text)}}`, large},
		"grows in pieces": {`body.list.map(x, body.text.split("")).size() == 0`, "", large},
		"grows in text":   {`body.list.map(x, body.text.replace("x", "a long text")).size() == 0`, "", large},
		"decodes again":   {`body.list.all(x, json(body.json).size() > 0)`, "", large},
		"numbered keys":   {"", `{"params": {1: 2}}`, push(t)},
	} {
		r, err := compile(test.when, test.mapping)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if test.when != "" {
			_, err = r.matches(t.Context(), test.e)
		} else {
			_, err = r.request(t.Context(), test.e)
		}
		if !errors.Is(err, seedbed.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	got, err := decodeBody(kindOf("application/x-www-form-urlencoded; charset=utf-8"), []byte("command=%2Fvm&text=web+1"))
	if diff := cmp.Diff(map[string]any{"command": "/vm", "text": "web 1"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, body := range []string{"a=1&a=2", "a=%zz", "a;b"} {
		if v, err := decodeForm(body); err == nil {
			t.Errorf("%s: %v", body, v)
		}
	}
	for kind, want := range map[string]string{"application/json": kindJSON,
		"application/cloudevents+json; charset=utf-8": kindJSON, "text/plain": "", "": "", "application/xml": ""} {
		if got := kindOf(kind); got != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	s := New(Config{Hooks: testDirectory(t), Intake: &ledger{}})
	h := seedbed.Hook{Name: "ci", HookSettings: of(seedbed.SchemeStandard), Profiles: []string{"small"}}
	h.When, h.Mapping = `body.go == true`, `{"action": "create", "name": "web1", "profile": headers["x-profile"]}`
	for name, test := range map[string]struct {
		sample seedbed.SampleDelivery
		want   seedbed.DryRun
	}{
		"matched": {seedbed.SampleDelivery{Headers: map[string]string{"X-Profile": "small"}, Body: `{"go":true}`},
			seedbed.DryRun{Matched: true, Request: &seedbed.Request{Action: "create", Name: "web1", Profile: "small"},
				Plan: &seedbed.Plan{Name: "web1", Profile: "small", VCPUs: 2, Problems: []string{}}}},
		"not matched": {seedbed.SampleDelivery{Body: `{"go":false}`}, seedbed.DryRun{}},
		"not allowed": {seedbed.SampleDelivery{Headers: map[string]string{"x-profile": "big"}, Body: `{"go":true}`},
			seedbed.DryRun{Matched: true, Request: &seedbed.Request{Action: "create", Name: "web1", Profile: "big"},
				Problem: `the hook does not allow the profile "big"`}},
		"no JSON": {seedbed.SampleDelivery{Body: `go`}, seedbed.DryRun{Problem: "the body is not valid JSON near its start or end"}},
		"no kind": {seedbed.SampleDelivery{Headers: map[string]string{"content-type": "text/plain"}},
			seedbed.DryRun{Problem: "a body of that content type is not accepted"}},
	} {
		got, err := s.DryRun(t.Context(), h, test.sample)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	h.When = "body ="
	if _, err := s.DryRun(t.Context(), h, seedbed.SampleDelivery{Body: "{}"}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a rule that does not compile: %v", err)
	}
}
