package metadata

import (
	"encoding/json"
	"time"

	"seedbed"
)

// maintenanceTime is how the times of maintenance events are written, in GMT.
const maintenanceTime = "02 Jan 2006 15:04:05 GMT"

// maintenanceEvent is a seedbed.Maintenance in Amazon's form (EC2 user guide,
// "View scheduled events").
type maintenanceEvent struct {
	NotBefore   string `json:"NotBefore"`
	Code        string `json:"Code"`
	Description string `json:"Description"`
	EventID     string `json:"EventId"`
	NotAfter    string `json:"NotAfter,omitempty"`
	State       string `json:"State"`
}

// comingMaintenance is events/maintenance/scheduled: a list, "[]" when it is empty, as Amazon's.
func comingMaintenance(r *record) ([]byte, bool) {
	return maintenance(r, func(state string) bool { return state == seedbed.MaintenanceActive })
}

// pastMaintenance is events/maintenance/history: what is completed or canceled,
// which its description says first.
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

// spotAction is spot/instance-action, there from the notice on (EC2 user guide,
// "Spot Instance interruption notices").
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

// terminationTime is spot/termination-time, which only a termination has.
func terminationTime(r *record) string {
	s := r.guest.Spot
	if !notice(s) || s.Action != "terminate" {
		return ""
	}
	return s.Time.UTC().Format(time.RFC3339)
}

// rebalance is events/recommendations/rebalance.
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
