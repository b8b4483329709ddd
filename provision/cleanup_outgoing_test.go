package provision

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/testdb"
	"seedbed/provision/cleanup"
)

// TestCleanupOutgoing checks that old deliveries to endpoints are removed, but not pending ones,
// and that the endpoints are told of a run that removed something.
func TestCleanupOutgoing(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, testdb.Open(t)) // another endpoint would have deliveries of its own
	ctx := t.Context()
	_, err := l.db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "ci", URL: "https://ci.example/", Events: []string{"cleanup.*"},
		Keys: []seedbed.EndpointKey{{Key: make([]byte, 32)}}})
	l.ok(err)
	for range 2 {
		l.ok(l.db.CleanupFinished(ctx, nil))
	}
	c, _, err := l.db.ClaimOutgoing(ctx, "test", time.Minute)
	l.ok(err)
	l.ok(l.db.RecordOutgoing(ctx, *c, seedbed.Attempt{Status: 204, State: seedbed.OutgoingSent}))
	run := func(days int, dry bool) []string {
		t.Helper()
		later := func() time.Time { return time.Now().AddDate(0, 0, days) }
		report, err := cleanup.New(cleanup.Config{Now: later}, l.db, alone{l.host}).Run(ctx, cleanup.Options{DryRun: dry})
		l.ok(err)
		items := []string{}
		for _, i := range report.Items {
			items = append(items, i.Task+" "+i.Subject)
		}
		return items
	}
	told := func() []string {
		t.Helper()
		all, err := l.db.OutgoingDeliveries(ctx, "ci", seedbed.OutgoingQuery{})
		l.ok(err)
		var s []string
		for _, o := range all {
			s = append(s, strings.Join([]string{o.Type, string(o.State), string(o.Data)}, " "))
		}
		slices.Reverse(s)
		return s
	}
	const pending, none = `cleanup.finished pending `, `{"taken":null}`
	before := []string{`cleanup.finished sent ` + none, pending + none}
	after := []string{pending + none, pending + `{"taken":{"outgoing":1}}`}
	for _, step := range []struct {
		days        int
		dry         bool
		items, told []string
	}{
		{6, false, []string{}, before},
		{8, true, []string{"outgoing 1 outgoing deliveries"}, before},
		{8, false, []string{"outgoing 1 outgoing deliveries"}, after},
		{8, false, []string{}, after},
	} {
		if d := cmp.Diff(step.items, run(step.days, step.dry)); d != "" {
			t.Errorf("after %d days (-want +got):\n%s", step.days, d)
		}
		if d := cmp.Diff(step.told, told()); d != "" {
			t.Errorf("after %d days (-want +got):\n%s", step.days, d)
		}
	}
}
