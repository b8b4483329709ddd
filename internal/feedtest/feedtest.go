// Package feedtest makes and reads pages of the feed in tests.
package feedtest

import (
	"encoding/json"
	"testing"

	"seedbed"
)

// Change is a seedbed.FeedChange with its record decoded; Guest is nil if the instance is no longer
// served.
type Change struct {
	Revision int64
	Instance seedbed.InstanceID
	Guest    *seedbed.Guest
}

// Changes are the decoded changes of a page.
func Changes(t testing.TB, page seedbed.FeedPage) []Change {
	t.Helper()
	var all []Change
	for _, c := range page.Changes {
		d := Change{Revision: c.Revision, Instance: c.Instance}
		if c.Record != nil {
			if err := json.Unmarshal(c.Record, &d.Guest); err != nil {
				t.Errorf("record of instance %s: %v", c.Instance, err)
			}
		}
		all = append(all, d)
	}
	return all
}

// Record is the record of a guest as the feed carries it.
func Record(t testing.TB, g seedbed.Guest) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
