package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"

	"github.com/google/go-cmp/cmp"
)

const create = `{"action":"create","name":"web1","profile":"small","params":{"vcpus":2}}`

func testDirectory(t testing.TB) directory {
	return directory{
		hooks: map[string]seedbed.Hook{
			"ci": {Name: "ci", HookSettings: of(seedbed.SchemeStandard), Keys: keys(vectorKey(t)), Actions: []string{"create",
				"remove"}, Profiles: []string{"small"}},
			"open":   {Name: "open", HookSettings: of(seedbed.SchemeStandard), Keys: keys(vectorKey(t))},
			"short":  {Name: "short", HookSettings: of(seedbed.SchemeStandard), Keys: keys([]byte("short"))},
			"slack":  {Name: "slack", HookSettings: of(seedbed.SchemeStandard), Keys: keys(vectorKey(t)), Tolerance: time.Hour},
			"strict": {Name: "strict", HookSettings: of(seedbed.SchemeStandard), Keys: keys(vectorKey(t)), Tolerance: time.Minute},
			"remove": {Name: "remove", HookSettings: of(seedbed.SchemeStandard), Keys: keys(vectorKey(t)), Actions: []string{"remove"}},
		},
		instances: map[string]seedbed.Instance{"big1": {Name: "big1", Profile: "big"}, "web1": {Name: "web1", Profile: "small"}},
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	got := s.raw(t, message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create))
	const job = "11111111-2222-4333-8444-555555555555"
	want := `{"job":"` + job + `","state":"queued","duplicate":false,"url":"http://127.0.0.1:7370/api/v1/jobs/` + job + `"}`
	if got.status != 202 || got.body != want || got.header.Get("Location") != "http://127.0.0.1:7370/api/v1/jobs/"+job {
		t.Errorf("answer %+v, want 202 %s", got, want)
	}
	request := seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"vcpus": 2.0}}
	if diff := cmp.Diff([]seedbed.Request{request}, l.requests); diff != "" {
		t.Error(diff)
	}
	if l.last.Hook != "ci" || l.last.ID != "msg_1" || l.last.SHA256 == [32]byte{} || time.Since(l.last.Received) > time.Minute {
		t.Errorf("delivery %+v", l.last)
	}
	if got.header.Get("Server") != "" {
		t.Errorf("the server names itself %q", got.header.Get("Server"))
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	key, now := vectorKey(t), time.Now()
	with := func(name, value string) map[string]string {
		h := signed(key, "msg_1", now, create)
		delete(h, name)
		if value != "" {
			h[name] = value
		}
		return h
	}
	payload := func(hook, body string) string {
		return message("POST", "/hooks/"+hook, signed(key, "msg_1", now, body), body)
	}
	post := func(h map[string]string) string { return message("POST", "/hooks/ci", h, create) }
	large := strings.Repeat(" ", int(MaxBody)+1)
	tests := []struct {
		name, request string
		status        int
		detail        string
	}{
		{"bad signature", post(with("webhook-signature", vectorSignature)), 401, "not accepted"},
		{"v1a alone", post(with("webhook-signature", vectorV1A)), 401, "not accepted"},
		{"old", message("POST", "/hooks/ci", signed(key, "msg_1", now.Add(-time.Hour), create), create), 401, "not accepted"},
		{"future", message("POST", "/hooks/ci", signed(key, "msg_1", now.Add(time.Hour), create), create), 401, "not accepted"},
		{"hook with a short key", payload("short", create), 401, "not accepted"},
		{"unknown hook", payload("nobody", create), 401, "not accepted"},
		{"unknown hook, bad signature", message("POST", "/hooks/nobody", with("webhook-signature", vectorSignature), create),
			401, "not accepted"},
		{"percent in the name", payload("%63i", create), 401, "not accepted"},
		{"huge name", payload(strings.Repeat("x", 4000), create), 401, "not accepted"},
		{"project", payload("ci/x", create), 401, "not accepted"},
		{"two projects", payload("ci/x/y", create), 404, "expected POST"},
		{"project that is no name", payload("../ci", create), 401, "not accepted"},
		{"trailing slash", payload("ci/", create), 404, "expected POST"},
		{"other case", message("POST", "/Hooks/ci", signed(key, "msg_1", now, create), create), 404, "expected POST"},
		{"no name", payload("", create), 404, "expected POST"},
		{"root", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, "expected POST"},
		{"get", "GET /hooks/ci HTTP/1.1\r\nHost: x\r\n\r\n", 405, "expected POST"},
		{"put", message("PUT", "/hooks/ci", signed(key, "msg_1", now, create), create), 405, "expected POST"},
		{"no id", post(with("webhook-id", "")), 401, "not accepted"},
		{"no timestamp", post(with("webhook-timestamp", "")), 401, "not accepted"},
		{"no signature", post(with("webhook-signature", "")), 401, "not accepted"},
		{"milliseconds", post(with("webhook-timestamp", fmt.Sprint(now.UnixMilli()))), 401, "not accepted"},
		{"no type", post(with("Content-Type", "")), 415, "application/json"},
		{"form", post(with("Content-Type", "application/x-www-form-urlencoded")), 415, "application/json"},
		{"multipart", post(with("Content-Type", "multipart/form-data; boundary=x")), 415, "application/json"},
		{"gzip", post(with("Content-Encoding", "gzip")), 415, "Content-Encoding"},
		{"no length", post(with("Content-Length", "")), 411, "Content-Length"},
		{"both lengths", post(with("Transfer-Encoding", "chunked")), 400, "Content-Length together"},
		{"too large", payload("ci", large), 413, "262144"},
		{"said to be too large", message("POST", "/hooks/ci", with("Content-Length", "99999999999"), large[:20_000]), 413, "262144"},
		{"chunked and too large", message("POST", "/hooks/ci", chunked(signed(key, "msg_1", now, large)), chunk(large)), 413, "262144"},
		{"badly chunked", message("POST", "/hooks/ci", chunked(signed(key, "msg_1", now, create)), "zz\r\n"), 400, "chunked"},
		{"no JSON", payload("ci", "hello"), 400, "not a JSON object"},
		{"empty body", payload("ci", ""), 400, "not a JSON object"},
		{"unknown member", payload("ci", `{"action":"create","evil":1}`), 400, "/evil"},
		{"duplicate member", payload("ci", `{"name":"a","name":"b"}`), 400, "/name"},
		{"no action", payload("ci", `{"name":"a","profile":"small"}`), 422, "action"},
		{"no instance name", payload("ci", `{"action":"create","profile":"small"}`), 422, "name"},
		{"no profile", payload("ci", `{"action":"create","name":"a"}`), 422, "profile"},
		{"action", payload("ci", `{"action":"explode","name":"a"}`), 403, "explode"},
		{"remove by default", payload("open", `{"action":"remove","name":"a"}`), 403, "remove"},
		{"profile", payload("ci", `{"action":"create","name":"a","profile":"big"}`), 403, "big"},
		{"remove of another profile", payload("ci", `{"action":"remove","name":"big1"}`), 403, "big"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := s.raw(t, test.request)
			if got.status != test.status || !strings.Contains(got.problem(t).Detail, test.detail) {
				t.Errorf("answer %d %s, want %d with %q", got.status, got.body, test.status, test.detail)
			}
			if test.status == 405 && got.header.Get("Allow") != "POST" {
				t.Errorf("Allow %q", got.header.Get("Allow"))
			}
		})
	}
	if len(l.requests) != 0 {
		t.Errorf("submitted %v", l.requests)
	}
	for _, secret := range []string{"MfKQ9r8", "g0hM9SsE", "evil", signature.Sign(key, "msg_1", now, []byte(create))[3:]} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestRulesAllow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ hook, body string }{
		"any profile":         {"open", `{"action":"create","name":"a","profile":"big"}`},
		"remove own profile":  {"ci", `{"action":"remove","name":"web1"}`},
		"remove what is gone": {"ci", `{"action":"remove","name":"web9"}`},
		"remove, any profile": {"remove", `{"action":"remove","name":"big1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
			h := signed(vectorKey(t), "msg_1", time.Now(), test.body)
			h["Content-Type"] = "application/json; charset=utf-8"
			if got := s.raw(t, message("POST", "/hooks/"+test.hook, h, test.body)); got.status != 202 {
				t.Errorf("answer %d %s", got.status, got.body)
			}
		})
	}
}

func TestSubmitErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		status int
		detail string
	}{
		"conflict":    {seedbed.Errorf(seedbed.ErrConflict, "id reused"), 409, "id reused"},
		"claim held":  {&seedbed.Error{Kind: seedbed.ErrExists, Msg: "name taken", Holder: "abc"}, 409, "name taken"},
		"in use":      {seedbed.Errorf(seedbed.ErrInUse, "job runs"), 409, "job runs"},
		"invalid":     {fmt.Errorf("accept: %w", seedbed.Errorf(seedbed.ErrInvalid, "no host name")), 422, "no host name"},
		"not found":   {seedbed.Errorf(seedbed.ErrNotFound, "no profile x"), 422, "no profile x"},
		"full":        {seedbed.Errorf(seedbed.ErrFull, "network is full"), 507, "network is full"},
		"unavailable": {fmt.Errorf("accept: %w", seedbed.ErrUnavailable), 503, "try again"},
		"stale":       {seedbed.Errorf(seedbed.ErrStale, "inner text"), 503, "try again"},
		"no kind":     {errors.New("disk I/O error at /var/lib"), 503, "try again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{err: test.err}})
			got := s.raw(t, message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create))
			p := got.problem(t)
			if got.status != test.status || !strings.Contains(p.Detail, test.detail) {
				t.Errorf("answer %d %s, want %d with %q", got.status, got.body, test.status, test.detail)
			}
			if (got.status == 503 || got.status == 507) != (got.header.Get("Retry-After") != "") {
				t.Errorf("Retry-After %q with %d", got.header.Get("Retry-After"), got.status)
			}
			if name == "claim held" && p.Job != "abc" {
				t.Errorf("holder %q, want abc", p.Job)
			}
		})
	}
}

// What cannot be the name of a hook or an instance is not looked up: a database may fail on it,
// which is no reason to ask the sender to come again.
func TestImpossibleNamesAreNotLookedUp(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: directory{err: errors.New("invalid byte sequence")}, Intake: &ledger{}})
	for _, name := range []string{"\xff", "%00", strings.Repeat("x", 64)} {
		if got := deliver(t, s, name, signed(vectorKey(t), "msg_1", time.Now(), create), create); got.status != http.StatusUnauthorized {
			t.Errorf("hook %q: %+v, want 401", name, got)
		}
	}
	h := seedbed.Hook{Name: "ci", Profiles: []string{"small"}, Actions: seedbed.Actions()}
	err := New(Config{Hooks: directory{err: errors.New("invalid byte sequence")}}).allowed(t.Context(), h,
		seedbed.Request{Action: seedbed.DoStart, Name: "a\x00b"})
	if !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("instance: %v, want ErrInvalid", err)
	}
}

// What a rebuild makes of an instance is held against the hook's profiles, as is what the instance
// is.
func TestProfileOfARebuild(t *testing.T) {
	t.Parallel()
	h := seedbed.Hook{Name: "ci", Profiles: []string{"small"}, Actions: seedbed.Actions()}
	for _, test := range []struct {
		has, wants string
		allowed    bool
	}{{"small", "", true}, {"small", "small", true}, {"small", "big", false}, {"big", "", false}, {"big", "small", false}} {
		s := New(Config{Hooks: profiled{test.has}})
		err := s.allowed(t.Context(), h, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Profile: test.wants})
		if test.allowed != (err == nil) || err != nil && !errors.Is(err, seedbed.ErrForbidden) {
			t.Errorf("from %s to %q: %v", test.has, test.wants, err)
		}
	}
}

// A hook with profiles changes the NICs of instances of these, as it does anything else with them. The NICs of a new instance are those
// of its profile.
func TestProfileOfANIC(t *testing.T) {
	t.Parallel()
	h := seedbed.Hook{Name: "ci", Profiles: []string{"small"}, Actions: seedbed.Actions()}
	index, nics := 1, []seedbed.NICRequest{{Network: "lab"}}
	for _, req := range []seedbed.Request{{Action: seedbed.DoNICAdd, NICs: nics}, {Action: seedbed.DoNICSet, NIC: &index, NICs: nics},
		{Action: seedbed.DoNICRemove, NIC: &index}} {
		req.Name = "web1"
		for _, profile := range []string{"small", "big"} {
			err := New(Config{Hooks: profiled{profile}}).allowed(t.Context(), h, req)
			if (err == nil) != (profile == "small") || err != nil && !errors.Is(err, seedbed.ErrForbidden) {
				t.Errorf("%s of an instance with the profile %s: %v", req.Action, profile, err)
			}
		}
		narrow := h
		narrow.Actions = []string{seedbed.DoCreate}
		if err := New(Config{Hooks: profiled{"small"}}).allowed(t.Context(), narrow, req); !errors.Is(err, seedbed.ErrForbidden) {
			t.Errorf("%s by a hook without the action: %v", req.Action, err)
		}
	}
	err := New(Config{Hooks: profiled{"small"}}).allowed(t.Context(), h,
		seedbed.Request{Action: seedbed.DoCreate, Name: "web2", Profile: "small", NICs: nics})
	if !errors.Is(err, seedbed.ErrForbidden) {
		t.Errorf("create with NICs: %v", err)
	}
}

// profiled knows instances of one profile.
type profiled struct{ profile string }

func (profiled) Resolve(_ context.Context, _ seedbed.PublishedKind, _, name string) (string, error) {
	return name, nil
}

func (profiled) Hook(context.Context, string) (seedbed.Hook, error) { return seedbed.Hook{}, nil }

func (p profiled) InstanceByName(_ context.Context, n seedbed.InstanceName) (seedbed.Instance, error) {
	return seedbed.Instance{Name: n.Name, Profile: p.profile}, nil
}

func TestHookLookupFails(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: directory{err: errors.New("disk I/O error")}, Intake: &ledger{}})
	got := s.raw(t, message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || strings.Contains(got.body, "disk") {
		t.Errorf("answer %+v", got)
	}
}

func chunked(h map[string]string) map[string]string {
	h = maps.Clone(h)
	delete(h, "Content-Length")
	h["Transfer-Encoding"] = "chunked"
	return h
}

func chunk(body string) string {
	half := len(body) / 2
	return fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
}

// TestChangesThatAHookMayNotAskFor checks what a hook of a project, and one that is limited to profiles, may not change of an instance.
func TestChangesThatAHookMayNotAskFor(t *testing.T) {
	t.Parallel()
	s := New(Config{Hooks: profiled{"small"}})
	all := seedbed.Actions()
	for name, tt := range map[string]struct {
		hook    seedbed.Hook
		req     seedbed.Request
		allowed bool
	}{
		"screen of a project": {seedbed.Hook{Project: "acme", Actions: all},
			seedbed.Request{Action: seedbed.DoSet, Params: map[string]any{"vnc_bind": "0.0.0.0"}}, false},
		"screen": {seedbed.Hook{Project: seedbed.DefaultProject, Actions: all},
			seedbed.Request{Action: seedbed.DoSet, Params: map[string]any{"vnc_bind": "0.0.0.0"}}, true},
		"node of a project": {seedbed.Hook{Project: "acme", Actions: all}, seedbed.Request{Action: seedbed.DoClone, Node: "hv1"}, false},
		"networks of profiles": {seedbed.Hook{Project: seedbed.DefaultProject, Actions: all, Profiles: []string{"small"}},
			seedbed.Request{Action: seedbed.DoClone, Params: map[string]any{"networks": map[string]any{"a": "b"}}}, false},
		"another profile": {seedbed.Hook{Project: seedbed.DefaultProject, Actions: all, Profiles: []string{"big"}},
			seedbed.Request{Action: seedbed.DoResize, Params: map[string]any{"vcpus": 2}}, false},
		"without the action": {seedbed.Hook{Project: seedbed.DefaultProject, Actions: []string{seedbed.DoRename}},
			seedbed.Request{Action: seedbed.DoResize, Params: map[string]any{"vcpus": 2}}, false},
	} {
		tt.req.Name = "web1"
		err := s.allowed(t.Context(), tt.hook, tt.req)
		if tt.allowed != (err == nil) || err != nil && !errors.Is(err, seedbed.ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
