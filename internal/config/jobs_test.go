package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestStageHooks(t *testing.T) {
	t.Parallel()
	c, err := Parse("f.yaml", []byte(`
jobs:
  per_node: 3
  per_pool: 2
  hooks:
    - {kind: create, stage: publish, when: before, endpoint: cmdb, required: true, timeout: 10s}
    - {stage: delete, when: after, endpoint: chat}
    - {stage: delete, when: after, script: free-dns}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []seedbed.StageHook{
		{Kind: seedbed.JobCreate, Stage: "publish", When: "before", Endpoint: "cmdb", Required: true, Timeout: 10 * time.Second},
		{Stage: "delete", When: "after", Endpoint: "chat"},
		{Stage: "delete", When: "after", Script: "free-dns"},
	}
	if d := cmp.Diff(want, c.Jobs.Hooks); d != "" || c.Jobs.PerNode != 3 || c.Jobs.PerPool != 2 {
		t.Errorf("jobs %+v (-want +got):\n%s", c.Jobs, d)
	}
	if c.Jobs.Hooks[1].Limit() != 30*time.Second {
		t.Errorf("limit %s", c.Jobs.Hooks[1].Limit())
	}
	for _, test := range []struct{ hook, want string }{
		{"{stage: boot, when: after, endpoint: x}", `jobs.hooks[0].stage: "boot" cannot be used`},
		{"{stage: define, when: during, endpoint: x}", `jobs.hooks[0].when: "during" cannot be used: expected before or after`},
		{"{stage: define, when: after}", `jobs.hooks[0].endpoint`},
		{"{stage: define, when: after, endpoint: x, script: y}",
			`jobs.hooks[0].script: "y" cannot be used: expected a script or an endpoint, not both`},
		{"{stage: define, when: after, script: ../y}", `jobs.hooks[0].script`},
		{"{kind: dream, stage: define, when: after, endpoint: x}", `jobs.hooks[0].kind: "dream" cannot be used`},
		{"{stage: define, when: after, endpoint: x, timeout: 2h}", `jobs.hooks[0].timeout`},
		{"{stage: define, when: after, endpoint: x, retries: 3}", `retries`},
	} {
		_, err := Parse("f.yaml", []byte("jobs: {hooks: ["+test.hook+"]}\n"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.hook, err, test.want)
		}
	}
}

// TestHookPriority checks that a declared hook's highest priority has the form of a job's priority.
func TestHookPriority(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]seedbed.Priority{"high": seedbed.PriorityHigh, "-3": -3, "normal": 0} {
		c, err := Parse("f.yaml", []byte("webhook: {hooks: [{name: forge, priority: "+text+"}]}\n"))
		if err != nil || c.Webhook.Hooks[0].Settings().Priority != want {
			t.Errorf("%s: %+v, %v; want %d", text, c.Webhook.Hooks, err, want)
		}
	}
	_, err := Parse("f.yaml", []byte("webhook: {hooks: [{name: forge, priority: urgent}]}\n"))
	if err == nil || !strings.Contains(err.Error(), "expected low, normal, high, or a whole number from -100 to 100") {
		t.Errorf("urgent: %v", err)
	}
}
