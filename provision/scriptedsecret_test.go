package provision

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

// TestScriptedSecret checks that a script's output and errors do not show the secret that it
// received.
func TestScriptedSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-and-more"
	l := newLab(t).withScript(steps("setup: log the key is "+secret, "install: print curl -H "+secret, "install: fail 401 for "+secret))
	ctx := t.Context()
	_, err := l.db.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error {
		p.Params = []seedbed.Param{{Name: "key", Type: seedbed.ParamSecret, Required: true}}
		p.Arguments = []string{"key=${param.key}"}
		return nil
	})
	l.ok(err)
	receipt, err := l.asPVC(ctx, seedbed.Request{Name: "web1", Profile: "web", Params: map[string]any{"key": secret}})
	l.ok(err)
	job := l.runUntil(receipt.Job, seedbed.JobRolledBack)
	if !strings.HasSuffix(job.Error, "Error in script install() step: 401 for ***") {
		t.Errorf("error %q", job.Error)
	}
	if data := l.host.scripts.Starts()[0].Data; !strings.Contains(string(data), secret) {
		t.Errorf("the script was not told: %s", data)
	}
	output, err := l.db.JobOutput(ctx, receipt.Job, "", 0, 0)
	l.ok(err)
	shown, err := json.Marshal(output)
	l.ok(err)
	history := l.history(receipt.Job)
	if !strings.Contains(history, "the key is ***") || !strings.Contains(string(shown), "curl -H ***") {
		t.Errorf("history:\n%s\noutput: %s", history, shown)
	}
	if strings.Contains(history+string(shown)+job.Error, "hunter2") {
		t.Errorf("the secret is shown:\n%s\n%s", history, shown)
	}
}
