package soak

import (
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// sound is a run without a fault: web1 was made and is there, web2 was cancelled, and web3 was made
// and removed.
func sound() (Ledger, World) {
	at := time.Unix(1000, 0)
	history := []seedbed.Event{{Seq: 1, At: at}, {Seq: 2, At: at}, {Seq: 3, At: at.Add(time.Second)}}
	done := []string{seedbed.EventJobAccepted, seedbed.EventJobSucceeded}
	l := Ledger{
		Created:    map[string]string{"j1": "web1", "j2": "web2", "j3": "web3"},
		Deliveries: map[string][]string{"d1": {"j1", "j1"}},
		Cancelled:  map[string]bool{"j2": true},
		Removed:    map[string]string{"web3": "j4"},
		Asked:      map[string]bool{"web3": true},
	}
	w := World{
		Jobs: []seedbed.Job{
			{ID: "j1", Kind: seedbed.JobCreate, State: seedbed.JobSucceeded},
			{ID: "j2", Kind: seedbed.JobCreate, State: seedbed.JobRolledBack, Cancel: true},
			{ID: "j3", Kind: seedbed.JobCreate, State: seedbed.JobSucceeded},
			{ID: "j4", Kind: seedbed.JobRemove, State: seedbed.JobSucceeded},
		},
		Histories: map[string][]seedbed.Event{"j1": history, "j2": history, "j3": history, "j4": history},
		Instances: []seedbed.Instance{{ID: "ec2-1", Name: "web1", State: seedbed.InstanceRunning, Volumes: []seedbed.Volume{{Name: "v1"}}}},
		Domains:   map[string]bool{"ec2-1": true},
		Volumes:   []string{"v1"},
		Told: map[string][]string{"j1": done, "j3": done, "j4": done,
			"j2": {seedbed.EventJobAccepted, seedbed.EventJobCancelled}},
	}
	return l, w
}

// An instance may be gone if the answer to the request for its removal was lost.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	l, w := sound()
	l.Asked["web1"] = true
	w.Instances, w.Domains, w.Volumes = nil, nil, nil
	if got := Violations(l, w); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// Each damage is found, and a sound run has none.
func TestViolations(t *testing.T) {
	t.Parallel()
	l, w := sound()
	if got := Violations(l, w); len(got) != 0 {
		t.Fatalf("a sound run: %q", got)
	}
	for name, c := range map[string]struct {
		damage func(*Ledger, *World)
		want   string
	}{
		"job lost":         {func(_ *Ledger, w *World) { w.Jobs = w.Jobs[1:] }, "job j1 of instance web1 is lost"},
		"job not ended":    {func(_ *Ledger, w *World) { w.Jobs[0].State = seedbed.JobRunning }, "has not ended"},
		"job failed":       {func(_ *Ledger, w *World) { w.Jobs[0].State = seedbed.JobFailed }, "ended failed"},
		"job undone":       {func(_ *Ledger, w *World) { w.Jobs[0].State = seedbed.JobRolledBack }, "without a cancel"},
		"undone in part":   {func(_ *Ledger, w *World) { w.Jobs[1].State = seedbed.JobIncomplete }, "not whole"},
		"delivery doubled": {func(l *Ledger, _ *World) { l.Deliveries["d1"] = []string{"j1", "j3"} }, "several jobs"},
		"cancel ignored":   {func(_ *Ledger, w *World) { w.Jobs[1].State = seedbed.JobSucceeded }, "accepted and ignored"},
		"cancel forgotten": {func(_ *Ledger, w *World) { w.Jobs[1].Cancel = false }, "accepted and ignored"},
		"removal lost":     {func(_ *Ledger, w *World) { w.Jobs = w.Jobs[:3] }, "removal j4 of instance web3 is lost"},
		"removal failed":   {func(_ *Ledger, w *World) { w.Jobs[3].State = seedbed.JobFailed }, "removal j4 of instance web3 is failed"},
		"not removed": {func(_ *Ledger, w *World) {
			w.Instances = append(w.Instances, seedbed.Instance{ID: "ec2-3", Name: "web3", State: seedbed.InstanceStopped})
			w.Domains["ec2-3"] = false
		}, "web3 is there after its removal"},
		"left of an undo": {func(_ *Ledger, w *World) {
			w.Instances = append(w.Instances, seedbed.Instance{ID: "ec2-2", Name: "web2", State: seedbed.InstanceStopped})
			w.Domains["ec2-2"] = false
		}, "web2 is left of job j2"},
		"instance lost":    {func(_ *Ledger, w *World) { w.Instances, w.Domains, w.Volumes = nil, nil, nil }, "instance web1 of job j1 is gone"},
		"domain lost":      {func(_ *Ledger, w *World) { w.Domains = nil }, "web1 has no domain"},
		"domain off":       {func(_ *Ledger, w *World) { w.Domains["ec2-1"] = false }, "its domain runs is false"},
		"domain orphaned":  {func(_ *Ledger, w *World) { w.Domains["ec2-9"] = true }, "domain ec2-9 belongs to no instance"},
		"volume lost":      {func(_ *Ledger, w *World) { w.Volumes = nil }, "lost volume v1"},
		"volume orphaned":  {func(_ *Ledger, w *World) { w.Volumes = append(w.Volumes, "v9") }, "volume v9 belongs to no instance"},
		"file left":        {func(_ *Ledger, w *World) { w.Unfinished = []string{"x"} }, "unfinished file x"},
		"event lost":       {func(_ *Ledger, w *World) { w.Told["j1"] = w.Told["j1"][:1] }, "was told"},
		"event doubled":    {func(_ *Ledger, w *World) { w.Told["j1"] = append(w.Told["j1"], seedbed.EventJobSucceeded) }, "was told"},
		"history with gap": {func(_ *Ledger, w *World) { w.Histories["j1"] = w.Histories["j1"][1:] }, "has the number 2"},
		"history back": {func(_ *Ledger, w *World) {
			slices.Reverse(w.Histories["j1"])
			renumber(w.Histories["j1"])
		}, "older than the one before"},
		"epoch back": {func(l *Ledger, _ *World) { l.Backward = []string{"epoch of job j1 went back"} }, "epoch of job j1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, w := sound()
			for job, h := range w.Histories {
				w.Histories[job] = slices.Clone(h)
			}
			c.damage(&l, &w)
			if got := Violations(l, w); !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func renumber(history []seedbed.Event) {
	for i := range history {
		history[i].Seq = int64(i + 1)
	}
}
