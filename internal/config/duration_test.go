package config

import (
	"testing"
	"time"
)

// TestDays checks that durations may be in days, at every depth of the configuration.
func TestDays(t *testing.T) {
	t.Parallel()
	c, err := Parse("f.yaml", []byte(`
cleanup:
  audit: {retention: 30d}
  deliveries: {retention: "1w"}
storage:
  pools:
  - {name: default, type: dir, path: /a, trash: 3d12h}
jobs:
  stage_timeout: {flatten: 2d, ready: 10m}
`))
	if err != nil {
		t.Fatal(err)
	}
	for what, d := range map[string][2]time.Duration{
		"retention of the audit log":   {c.Cleanup.Audit.Retention, 30 * day},
		"retention of deliveries":      {c.Cleanup.Deliveries.Retention, 7 * day},
		"trash":                        {c.Storage.Pools[0].Trash, 84 * time.Hour},
		"stage that takes days":        {c.Jobs.StageTimeout["flatten"], 2 * day},
		"stage that takes ten minutes": {c.Jobs.StageTimeout["ready"], 10 * time.Minute},
	} {
		if d[0] != d[1] {
			t.Errorf("%s: %s, want %s", what, d[0], d[1])
		}
	}
}
