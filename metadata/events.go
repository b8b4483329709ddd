package metadata

import (
	"encoding/json"
	"time"

	"seedbed"
)

// maintenanceTime is the layout of times in maintenance events, in GMT.
const maintenanceTime = "02 Jan 2006 15:04:05 GMT"

// maintenanceEvent is a seedbed.Maintenance in Amazon's form (EC2 user guide, "View scheduled
// events").
type maintenanceEvent struct {
	NotBefore   string `json:"NotBefore"`
	Code        string `json:"Code"`
	Description string `json:"Description"`
	EventID     string `json:"EventId"`
	NotAfter    string `json:"NotAfter,omitempty"`
	State       string `json:"State"`
}

// comingMaintenance returns events/maintenance/scheduled: a list, "[]" if it is empty, as Amazon's.
func comingMaintenance(r *record) ([]byte, bool) {
	return maintenance(r, func(state string) bool { return state == seedbed.MaintenanceActive })
}

// pastMaintenance returns events/maintenance/history: the completed and canceled events. Their
// descriptions begin with that state.
func pastMaintenance(r *record) ([]byte, bool) {
	return maintenance(r, func(state string) bool { return state != seedbed.MaintenanceActive })
}

func maintenance(r *record, want func(state string) bool) ([]byte, bool) {
	events := []maintenanceEvent{}
	for _, m := range r.maintenance {
		if !want(m.State) {
			continue
		}
		e := maintenanceEvent{NotBefore: m.NotBefore.UTC().Format(maintenanceTime), Code: m.Code,
			Description: m.Description, EventID: m.ID, State: m.State}
		switch m.State {
		case seedbed.MaintenanceCompleted:
			e.Description = "[Completed] " + e.Description
		case seedbed.MaintenanceCanceled:
			e.Description = "[Canceled] " + e.Description
		}
		if !m.NotAfter.IsZero() {
			e.NotAfter = m.NotAfter.UTC().Format(maintenanceTime)
		}
		events = append(events, e)
	}
	return asJSON(events), true
}

// expiry returns the event of the guest's expiry, if it has one.
func expiry(g seedbed.Guest) []seedbed.Maintenance {
	if g.Expiry == nil {
		return nil
	}
	return []seedbed.Maintenance{g.Expiry.Event(g.ID)}
}

func instanceAction(r *record) string {
	if r.guest.Action == "" {
		return seedbed.ActionNone
	}
	return r.guest.Action
}

func lifeCycle(r *record) string {
	if r.guest.Spot != nil {
		return "spot"
	}
	return "on-demand"
}

// spotAction returns spot/instance-action, which exists once the action was announced (EC2 user
// guide, "Spot Instance interruption notices").
func spotAction(r *record) ([]byte, bool) {
	s := r.guest.Spot
	if !notice(s) {
		return nil, false
	}
	return asJSON(struct {
		Action string `json:"action"`
		Time   string `json:"time"`
	}{s.Action, s.Time.UTC().Format(time.RFC3339)}), true
}

// terminationTime returns spot/termination-time, which only a termination has.
func terminationTime(r *record) string {
	s := r.guest.Spot
	if !notice(s) || s.Action != "terminate" {
		return ""
	}
	return s.Time.UTC().Format(time.RFC3339)
}

// rebalance returns events/recommendations/rebalance.
func rebalance(r *record) ([]byte, bool) {
	s := r.guest.Spot
	if s == nil || s.Rebalance.IsZero() {
		return nil, false
	}
	return asJSON(struct {
		NoticeTime string `json:"noticeTime"`
	}{s.Rebalance.UTC().Format(time.RFC3339)}), true
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return b
}
