package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// schedulesOf are schedules with their instances, whose slots are taken once. They are the intake of what is asked for, too.
type schedulesOf struct {
	Store
	all   []seedbed.Schedule
	of    []seedbed.Instance
	have  []seedbed.ScheduledSnapshot
	taken []time.Time
	fails bool // the next reading of instances
	asked []string
	runs  []seedbed.ScheduleRun
	free  bool // whether the instance busy is no longer in use
}

func (s *schedulesOf) Schedules(context.Context) ([]seedbed.Schedule, error) { return s.all, nil }

func (s *schedulesOf) ScheduledSnapshots(context.Context) ([]seedbed.ScheduledSnapshot, error) {
	return s.have, nil
}

func (s *schedulesOf) NoteRun(_ context.Context, _ seedbed.ScheduleKind, _ string, run seedbed.ScheduleRun) error {
	s.runs = append(s.runs, run)
	s.all[0].Last = &run
	return nil
}

func (s *schedulesOf) Instances(context.Context) ([]seedbed.Instance, error) {
	if s.fails {
		s.fails = false
		return nil, errors.New("the database does not answer")
	}
	return s.of, nil
}

func (s *schedulesOf) CronSlot(_ context.Context, _ string, slot time.Time) (bool, error) {
	if slices.Contains(s.taken, slot) {
		return false, nil
	}
	s.taken = append(s.taken, slot)
	return true, nil
}

func (s *schedulesOf) Submit(_ context.Context, req seedbed.Request, _ *seedbed.Delivery) (seedbed.Receipt, error) {
	s.asked = append(s.asked, strings.TrimSuffix(fmt.Sprint(req.Action, " ", req.Name, " ", req.Params, " ", req.Schedule, req.Also), "[]"))
	if req.Name == "busy" && !s.free {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInUse, "in the hands of another job")
	}
	return seedbed.Receipt{Job: seedbed.NewJobID()}, nil
}

func (s *schedulesOf) Plan(_ context.Context, req seedbed.Request) (p seedbed.Plan, err error) {
	if req.Name == "busy" {
		p.Problems = []string{"it runs"}
	}
	return p, nil
}

func tagged(name, tag string, attached ...string) seedbed.Instance {
	i := seedbed.Instance{Name: name, Project: seedbed.DefaultProject, State: seedbed.InstanceRunning, Tags: map[string]string{tag: ""}}
	for _, v := range attached {
		i.Attached = append(i.Attached, seedbed.ProjectVolume{Name: v})
	}
	return i
}

// TestBackupSchedule checks that a slot is run once, also if the first reading fails, and that what is refused is noted.
func TestBackupSchedule(t *testing.T) {
	t.Parallel()
	s := &schedulesOf{
		all: []seedbed.Schedule{{Kind: seedbed.ScheduleBackup, Name: "nightly", Project: seedbed.DefaultProject, Target: "nas", Cron: "0 3 * * *",
			ScheduleSettings: seedbed.ScheduleSettings{Tag: "backup", Exclude: []string{"data"}}}},
		of: []seedbed.Instance{tagged("busy", "backup"), tagged("db1", "backup", "data", "logs"), tagged("web1", "x")},
	}
	scheduler := NewScheduler(s, nil, s, slog.New(slog.DiscardHandler))
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	failed := false
	for _, hours := range [][2]int{{0, 1}, {1, 4}, {1, 4}, {1, 4}, {4, 20}} {
		failing := hours[0] == 1 && !failed
		s.fails, failed = failing, failed || failing
		from, to := day.Add(time.Duration(hours[0])*time.Hour), day.Add(time.Duration(hours[1])*time.Hour)
		if err := scheduler.Pass(t.Context(), from, to); (err != nil) != failing { // the slot is then looked at again
			t.Fatal(err)
		}
	}
	want := []string{"backup busy map[target:nas] nightly", "backup db1 map[exclude:[data] target:nas] nightly",
		"backup busy map[target:nas] nightly"} // which the last pass asks for again
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
	if len(s.runs) != 1 || s.runs[0].Jobs != 1 || s.runs[0].Refused != 1 || len(s.runs[0].Items) != 1 ||
		s.runs[0].Items[0].Problem != "in the hands of another job" {
		t.Errorf("noted %+v", s.runs)
	}
}

// TestSnapshotSchedule checks what a schedule of snapshots takes, what its dry run shows, and what the cleanup removes: nothing that was
// made by hand, by another schedule or is still being made.
func TestSnapshotSchedule(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	of := func(schedule, instance, name string, ago time.Duration, state seedbed.JobState) seedbed.ScheduledSnapshot {
		return seedbed.ScheduledSnapshot{Schedule: schedule, Instance: seedbed.InDefault(instance), Name: name, Taken: at.Add(-ago), State: state}
	}
	s := &schedulesOf{
		all: []seedbed.Schedule{{Kind: seedbed.ScheduleSnapshot, Name: "hourly", Project: seedbed.DefaultProject, Cron: "0 * * * *",
			ScheduleSettings: seedbed.ScheduleSettings{Instances: []string{"busy", "db1", "gone"}, Keep: seedbed.Retention{Last: 2},
				Freeze: seedbed.FreezeAlways}}},
		of: []seedbed.Instance{tagged("busy", "x"), tagged("db1", "x"), tagged("web1", "x")},
		have: []seedbed.ScheduledSnapshot{
			of("hourly", "db1", "a", 3*time.Hour, seedbed.JobSucceeded), of("hourly", "db1", "b", 2*time.Hour, seedbed.JobSucceeded),
			of("hourly", "db1", "c", time.Hour, seedbed.JobSucceeded), of("hourly", "db1", "left", time.Hour, seedbed.JobIncomplete),
			of("hourly", "db1", "now", 0, seedbed.JobRunning), of("daily", "db1", "d", 9*time.Hour, seedbed.JobSucceeded),
			of("hourly", "busy", "e", 9*time.Hour, seedbed.JobSucceeded),
		},
	}
	scheduler := NewScheduler(s, nil, s, slog.New(slog.DiscardHandler))
	foreseen, err := scheduler.RunNow(t.Context(), s.all[0], true)
	if err != nil || len(s.asked)+len(s.runs) > 0 {
		t.Fatal(err, s.asked, s.runs)
	}
	var shown []string
	for _, i := range foreseen.Items {
		name := i.Snapshot
		if i.Action == seedbed.DoSnapshot {
			name = i.Snapshot[:min(len(i.Snapshot), 7)]
		}
		shown = append(shown, fmt.Sprint(i.Action, " ", i.Instance, " ", name, " ", i.Problem))
	}
	want := []string{`snapshot gone  instance "gone" does not exist`, "snapshot busy hourly- it runs", "snapshot db1 hourly- ",
		"snapshot-remove db1 a ", "snapshot-remove db1 b ", "snapshot-remove db1 left "}
	if !slices.Equal(shown, want) || foreseen.Jobs != 1 || foreseen.Refused != 2 {
		t.Errorf("foreseen %q, want %q; %+v", shown, want, foreseen)
	}
	if err := scheduler.Pass(t.Context(), at.Add(-time.Minute), at); err != nil {
		t.Fatal(err)
	}
	c := New(Config{Submit: func(ctx context.Context, req seedbed.Request) error { _, err := s.Submit(ctx, req, nil); return err }}, s, nil)
	todo, err := c.rotations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range todo {
		if done, err := job.apply(t.Context()); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	want = []string{"snapshot busy map[freeze:always snapshot:hourly-20260102T030000Z] hourly",
		"snapshot db1 map[freeze:always snapshot:hourly-20260102T030000Z] hourly",
		"snapshot-remove db1 map[snapshot:a] hourly[left]"}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
	if len(s.runs) != 1 || s.runs[0].Refused != 2 {
		t.Errorf("noted %+v", s.runs)
	}
}

// TestScheduleWaits checks that a run asks again for an instance that another job works on: until that job has ended, the schedule has run
// since, or its next time comes.
func TestScheduleWaits(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		meanwhile func(s *schedulesOf)
		after     time.Duration
		want      int // how often it was asked for
	}{
		"free":        {func(s *schedulesOf) { s.free = true }, time.Minute, 2},
		"busy":        {func(*schedulesOf) {}, time.Minute, 5},
		"run by hand": {func(s *schedulesOf) { s.all[0].Last = &seedbed.ScheduleRun{Time: at.Add(time.Second)} }, time.Minute, 1},
		"made anew":   {func(s *schedulesOf) { s.all[0].Last = nil }, time.Minute, 1},
		"next day":    {func(*schedulesOf) {}, 30 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &schedulesOf{
				all: []seedbed.Schedule{{Kind: seedbed.ScheduleSnapshot, Name: "weekly", Project: seedbed.DefaultProject, Cron: "0 3 2 * *",
					ScheduleSettings: seedbed.ScheduleSettings{Tag: "x"}}},
				of: []seedbed.Instance{tagged("busy", "x"), tagged("db1", "x")},
			}
			scheduler := NewScheduler(s, nil, s, slog.New(slog.DiscardHandler))
			pass := func(from, to time.Time) {
				if err := scheduler.Pass(t.Context(), from, to); err != nil {
					t.Fatal(err)
				}
			}
			pass(at.Add(-time.Minute), at)
			if r := s.runs[0]; r.Jobs != 1 || r.Refused != 1 || len(r.Items) != 1 {
				t.Fatalf("noted %+v", s.runs)
			}
			c.meanwhile(s)
			for n := range 4 {
				now := at.Add(c.after + time.Duration(n)*time.Minute)
				pass(now.Add(-time.Minute), now)
			}
			asked := 0
			for _, a := range s.asked {
				if strings.HasPrefix(a, "snapshot busy map[freeze: snapshot:weekly-20260102T030000Z]") {
					asked++
				}
			}
			if asked != c.want || len(s.asked) != asked+1 {
				t.Errorf("asked for %q", s.asked)
			}
			if r := s.runs[len(s.runs)-1]; s.free && (len(s.runs) != 2 || r.Jobs != 2 || r.Refused != 0 || len(r.Items) != 0) {
				t.Errorf("noted %+v", s.runs)
			}
		})
	}
}
