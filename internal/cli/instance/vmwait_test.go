package instance

import (
	"testing"
	"time"

	"seedbed"
)

func TestIs(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	for name, tt := range map[string]struct {
		instance seedbed.Instance
		until    string
		want     bool
	}{
		"running":              {seedbed.Instance{State: seedbed.InstanceRunning}, "running", true},
		"running, not stopped": {seedbed.Instance{State: seedbed.InstanceRunning}, "stopped", false},
		"started":              {seedbed.Instance{State: seedbed.InstanceRunning, Ready: seedbed.ReadyStarted}, "ready", true},
		"not yet started":      {seedbed.Instance{State: seedbed.InstanceProvisioning, Ready: seedbed.ReadyStarted}, "ready", false},
		"not yet fetched":      {seedbed.Instance{State: seedbed.InstanceRunning, Ready: seedbed.ReadyMetadata}, "ready", false},
		"fetched":              {seedbed.Instance{State: seedbed.InstanceRunning, Ready: seedbed.ReadyMetadata, Fetched: at}, "ready", true},
		"only fetched":         {seedbed.Instance{State: seedbed.InstanceRunning, Ready: seedbed.ReadyReport, Fetched: at}, "ready", false},
		"reported":             {seedbed.Instance{State: seedbed.InstanceRunning, Ready: seedbed.ReadyReport, Reported: at}, "ready", true},
		"reported, stopped":    {seedbed.Instance{State: seedbed.InstanceStopped, Ready: seedbed.ReadyReport, Reported: at}, "ready", false},
	} {
		if got := is(tt.instance, tt.until); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
