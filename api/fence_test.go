package api_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
	"seedbed/store"
)

// fences fences nodes: their agents say that they are on.
type fences struct{ db *store.DB }

func (fences) Seal(secrets map[string]string) ([]byte, error) { return json.Marshal(secrets) }

func (f fences) Status(_ context.Context, n seedbed.Node) (bool, string, error) {
	return true, "hv1", nil
}

func (f fences) Failover(ctx context.Context, node string, confirmed bool) (seedbed.Receipt, error) {
	return f.db.Accept(ctx, seedbed.FailoverOf(node, seedbed.FailoverSpec{Confirmed: confirmed}))
}

// TestFenceAgent checks that secrets of a fence agent are kept and never shown, and that a node without an agent is not fenced.
func TestFenceAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.expect(t, "POST", "/nodes", `{"name":"hv8","worker":"https://hv8.example:7375"}`, 201)
	s.expect(t, "POST", "/nodes/hv8/fence", `{}`, 409)
	s.expect(t, "GET", "/nodes/hv8/fence", "", 409)
	for _, bad := range []string{`"agent":"../x"`, `"agent":"fence_x","options":{"action":"on"}`,
		`"agent":"fence_x","secrets":{"ipmitool_path":"/bin/sh"}`,
		`"agent":"fence_x","options":{"ip":"a\nb"}`} {
		s.expect(t, "PATCH", "/nodes/hv8", `{"fencing":{`+bad+`}}`, 422)
	}
	s.expect(t, "PATCH", "/nodes/hv8", `{"fencing":{"agent":"fence_x","options":{"ip":"192.0.2.1"},"secrets":{"password":"hush"}}}`, 200)
	r := s.do(t, "GET", "/api/v1/nodes/hv8", "")
	if r.status != 200 || !strings.Contains(r.body, `"fence_x"`) || strings.Contains(r.body, "hush") {
		t.Errorf("%+v", r)
	}
	n, err := s.db.Node(t.Context(), "hv8")
	if err != nil || !strings.Contains(string(n.Fencing.Sealed), "hush") {
		t.Errorf("%+v, %v", n.Fencing, err)
	}
	s.expect(t, "GET", "/nodes/hv8/fence", "", 200)
	s.expect(t, "POST", "/nodes/hv8/fence", `{}`, 202)
	s.expect(t, "POST", "/nodes/hv8/fence", `{"confirmed":true}`, 409)
}
