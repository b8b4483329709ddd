package provision

import (
	"strings"
	"testing"

	"seedbed"
)

// TestScriptIsSkipped checks that scripts run for all disks, and that those that are skipped, the
// default script of an OVA's profile and a script that only runs if needed, are named in the job.
func TestScriptIsSkipped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// profile is "web" with a script, or "vm" of an OVA.
		profile, script, storage string
		options                  func(*seedbed.ScriptOptions)
		want                     string // empty if it runs
	}{
		"mountpoint":           {profile: "web", script: "build", storage: "made"},
		"clone and blank disk": {profile: "web", script: "build", storage: "root"},
		"of an OVA, its own":   {profile: "vm", script: "build"},
		"of an OVA, default": {
			profile: "vm", script: "ova", want: "script ova was skipped: the disks are clones of those of the OVA image vm",
		},
		"of an OVA, mountpoint": {profile: "vm", script: "ova", storage: "made"},
		"of an OVA, always":     {profile: "vm", script: "ova", options: func(o *seedbed.ScriptOptions) { o.Always = true }},
		"if needed, needed": {
			profile: "web", script: "build", storage: "made", options: func(o *seedbed.ScriptOptions) { o.IfNeeded = true },
		},
		"if needed, not needed": {
			profile: "web", script: "build", storage: "root", options: func(o *seedbed.ScriptOptions) { o.IfNeeded = true },
			want: "script build was skipped: no disk has a mountpoint or a filesystem, and it runs only if needed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(steps()).withOVAScript()
			ctx := t.Context()
			_, err := l.db.CreateScript(ctx, "ova", steps())
			l.ok(err)
			l.runUntil(l.importOVA("vm"), seedbed.JobSucceeded)
			_, err = l.db.ChangeProfile(ctx, test.profile, func(p *seedbed.Profile) error {
				p.Script, p.NetworkTemplate, p.Storage = test.script, "lan", test.storage
				return nil
			})
			l.ok(err)
			if test.options != nil {
				l.setOptions(test.script, test.options)
			}
			plan, err := l.intake.Plan(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "new1", Profile: test.profile, Arguments: []string{}})
			l.ok(err)
			id := l.job(l.asPVC(ctx, seedbed.Request{Name: "new1", Profile: test.profile}))
			job := l.runUntil(id, seedbed.JobSucceeded)
			ran := len(l.host.scripts.Starts()) > 0
			if ran != (test.want == "") {
				t.Errorf("the script ran: %t", ran)
			}
			if skipped := job.Skipped(); !strings.HasPrefix(skipped, test.want) || (skipped == "") != ran {
				t.Errorf("the job says %q; want %q", skipped, test.want)
			}
			inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("new1"))
			l.ok(err)
			if (inst.Volumes[0].Name == "new1_sda") != ran {
				t.Errorf("volumes %v", inst.Volumes)
			}
			if notes := strings.Join(plan.Notes, "\n"); test.want != "" && !strings.Contains(notes, test.want) {
				t.Errorf("the plan says %s; want %q", notes, test.want)
			}
			if test.want != "" && !strings.Contains(l.history(id), "warn volumes: "+test.want) {
				t.Errorf("history:\n%s\nwant %q", l.history(id), test.want)
			}
			if test.want == "" {
				return
			}
			receipt, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "new1"}, nil)
			job = l.runUntil(l.job(receipt, err), seedbed.JobSucceeded)
			if !strings.HasPrefix(job.Skipped(), test.want) || !strings.Contains(l.history(receipt.Job), test.want) {
				t.Errorf("the rebuild says %q; history:\n%s", job.Skipped(), l.history(receipt.Job))
			}
		})
	}
}

// TestScriptedOffline checks that a script that failed after it tried to reach the network says if
// it had none, and what gives it one.
func TestScriptedOffline(t *testing.T) {
	t.Parallel()
	const says = "the script tried to reach the network and had none: seedbed script options build --network lets it use the host's"
	for name, test := range map[string]struct {
		network bool
		text    string
		want    bool
	}{
		"tries, has none":      {false, steps("install: offline", "install: fail no mirror"), true},
		"tries, has one":       {true, steps("install: offline", "install: fail no mirror"), false},
		"does not try":         {false, steps("install: fail no mirror"), false},
		"fails to be loaded":   {false, steps("load: offline", "load: fail no mirror"), true},
		"tries, does not fail": {false, steps("install: offline"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(test.text)
			l.setOptions("build", func(o *seedbed.ScriptOptions) { o.Network = test.network })
			id := l.compose("web1", true)
			if name == "tries, does not fail" {
				l.runUntil(id, seedbed.JobSucceeded)
			} else if job := l.runUntil(id, seedbed.JobRolledBack); strings.Contains(job.Error, says) != test.want ||
				!strings.Contains(job.Error, "no mirror") {
				t.Errorf("error %q", job.Error)
			}
			out, err := l.db.JobOutput(t.Context(), id, "", 0, 1000)
			l.ok(err)
			log := false
			for _, line := range out {
				log = log || line.Stream == seedbed.OutputNote && line.Text == says
			}
			if history := l.history(id); strings.Contains(history, says) != test.want || log != test.want {
				t.Errorf("in the log: %t; history:\n%s", log, history)
			}
		})
	}
}
