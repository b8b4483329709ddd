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
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []seedbed.StageHook{
		{Kind: seedbed.JobCreate, Stage: "publish", When: "before", Endpoint: "cmdb", Required: true, Timeout: 10 * time.Second},
		{Stage: "delete", When: "after", Endpoint: "chat"},
	}
	if d := cmp.Diff(want, c.Jobs.Hooks); d != "" || c.Jobs.PerNode != 3 || c.Jobs.PerPool != 2 {
		t.Errorf("jobs %+v (-want +got):\n%s", c.Jobs, d)
	}
	if c.Jobs.Hooks[1].Limit() != 30*time.Second {
		t.Errorf("limit %s", c.Jobs.Hooks[1].Limit())
	}
	for _, test := range []struct{ hook, want string }{
		{"{stage: boot, when: after, endpoint: x}", `jobs.hooks[0].stage: "boot" cannot be used`},
		{"{stage: define, when: during, endpoint: x}", `jobs.hooks[0].when: "during" cannot be used: want before or after`},
		{"{stage: define, when: after}", `jobs.hooks[0].endpoint`},
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
