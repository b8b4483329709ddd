package outbox

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// Test sends an event of the type endpoint.test to an endpoint, enabled or not, at once and out of
// order, and returns the outcome. Nothing is recorded.
func (d *Deliverer) Test(ctx context.Context, name string) (seedbed.Attempt, error) {
	e, err := d.Directory.Endpoint(ctx, name)
	if err != nil {
		return seedbed.Attempt{}, err
	}
	o := seedbed.Outgoing{
		ID: "msg_test_" + string(seedbed.NewJobID()), Type: seedbed.EventTest, Subject: e.Name,
		At: time.Now().UTC().Truncate(time.Microsecond), Data: []byte(`{}`),
	}
	r := d.attempt(ctx, e, o)
	a := seedbed.Attempt{At: r.at, Took: r.took, Status: r.status, Error: r.err, State: seedbed.OutgoingSent}
	if r.err != "" {
		a.State = seedbed.OutgoingDead
	}
	return a, nil
}

// Trigger sends one event to an endpoint at once and out of order, whatever it subscribes to.
// Nothing is recorded. It returns ErrNotFound for an unknown endpoint, ErrConflict for a disabled
// one, and ErrUnavailable unless the answer is 2xx.
func (d *Deliverer) Trigger(ctx context.Context, name string, o seedbed.Outgoing) error {
	e, err := d.Directory.Endpoint(ctx, name)
	if err != nil {
		return err
	}
	if !e.Enabled {
		return seedbed.Errorf(seedbed.ErrConflict, "endpoint %s is disabled: seedbed endpoint set %s --enable", e.Name, e.Name)
	}
	if r := d.attempt(ctx, e, o); r.err != "" {
		return seedbed.Errorf(seedbed.ErrUnavailable, "endpoint %s: %s", e.Name, r.err)
	}
	return nil
}

// Check reports, for doctor, which endpoints do not receive events.
func (d *Deliverer) Check(ctx context.Context) []seedbed.Check {
	const name = "outgoing webhooks"
	all, err := d.Directory.OutgoingStats(ctx)
	if err != nil {
		return []seedbed.Check{{Name: name, Detail: err.Error(), Hint: "see the check of the database"}}
	}
	var found []seedbed.Check
	for _, s := range all {
		switch {
		case !s.Enabled && s.Reason != "" && s.Reason != seedbed.DisabledByOperator:
			found = append(found, seedbed.Check{Name: name, Detail: fmt.Sprintf("endpoint %s is disabled: %s", s.Endpoint, s.Reason),
				Hint: fmt.Sprintf("see why (seedbed endpoint test %s), then: seedbed endpoint set %s --enable, and seedbed endpoint replay",
					s.Endpoint, s.Endpoint)})
		case s.Open:
			found = append(found, seedbed.Check{Name: name, Detail: fmt.Sprintf("endpoint %s fails, and %d deliveries wait", s.Endpoint, s.Pending),
				Hint: fmt.Sprintf("see why: seedbed endpoint deliveries %s", s.Endpoint)})
		}
	}
	if found == nil {
		found = []seedbed.Check{{Name: name, OK: true, Detail: fmt.Sprintf("%d endpoints", len(all))}}
	}
	return found
}
