package seedbed

import (
	"slices"
	"testing"
	"time"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	made := []time.Time{
		at("2026-01-05T03:00:00"), at("2026-02-27T03:00:00"), at("2026-03-01T03:00:00"), at("2026-03-02T03:00:00"),
		at("2026-03-03T03:00:00"), at("2026-03-03T15:00:00"), at("2026-03-03T16:00:00"),
	}
	for text, want := range map[string][]int{
		"":                         {0, 1, 2, 3, 4, 5, 6},
		"last=2":                   {5, 6},
		"daily=2":                  {3, 6},
		"hourly=2":                 {5, 6},
		"weekly=2":                 {2, 6}, // Sunday, 1 March, is of the week before
		"monthly=3":                {0, 1, 6},
		"monthly=9":                {0, 1, 6},
		"last=1,daily=3,monthly=2": {1, 2, 3, 6},
	} {
		r, err := ParseRetention(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i, kept := range r.Kept(made) {
			if kept {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q keeps %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"3", "last", "last=x", "last=-1", "yearly=2", "last=1001"} {
		if _, err := ParseRetention(text); KindName(err) != "invalid" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	i := Instance{Project: DefaultProject, State: InstanceStopped, Profile: "web", Tags: map[string]string{"backup": "nightly"}}
	for tag, want := range map[string]bool{"backup": true, "backup=nightly": true, "backup=weekly": false, "other": false} {
		if got := (Schedule{Project: DefaultProject, ScheduleSettings: ScheduleSettings{Tag: tag}}).Takes(i); got != want {
			t.Errorf("tag %s: %v", tag, got)
		}
	}
	web := ScheduleSettings{Profile: "web"}
	if !(Schedule{Project: DefaultProject, ScheduleSettings: web}).Takes(i) || (Schedule{Project: "acme", ScheduleSettings: web}).Takes(i) {
		t.Error("by profile")
	}
	i.Name = "web1"
	for name, want := range map[string]bool{"web1": true, "web2": false} {
		if (Schedule{Project: DefaultProject, ScheduleSettings: ScheduleSettings{Instances: []string{name}}}).Takes(i) != want {
			t.Errorf("by name %s", name)
		}
	}
}

// TestSnapshotTarget checks that a backup never removes a snapshot of an operator, or for another target.
func TestSnapshotTarget(t *testing.T) {
	t.Parallel()
	id := BackupIDOf(NewJobID(), time.Now())
	for name, want := range map[string]bool{
		BackupSnapshot("nas", id):                  true,
		BackupSnapshot("nas-2", id):                false,
		BackupSnapshot("other", id):                false,
		"backup-nas-before-upgrade":                false,
		BackupSnapshot("nas", id) + "-kept":        false,
		"backup-nas-":                              false,
		"backup-nas-20260101T000000Z":              false,
		"my-" + BackupSnapshot("nas", id):          false,
		BackupSnapshot("nas", BackupID("2026-01")): false,
	} {
		if got := SnapshotTarget(name) == "nas"; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
