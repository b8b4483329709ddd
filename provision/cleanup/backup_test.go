package cleanup

import (
	"context"
	"slices"
	"testing"
	"time"

	"seedbed"
)

// shelf has one target with backups of an instance of this installation and of another one.
type shelf struct {
	Store
	list    seedbed.BackupList
	keep    seedbed.Retention
	removed []seedbed.BackupKey
	removal time.Time // of the instance
}

func (s *shelf) BackupTargets(context.Context) ([]seedbed.BackupTarget, error) {
	return []seedbed.BackupTarget{{Name: "nas", BackupSettings: seedbed.BackupSettings{Keep: s.keep}}}, nil
}

func (s *shelf) BackupOwners(context.Context, []seedbed.InstanceID) (map[seedbed.InstanceID]seedbed.BackupOwner, error) {
	return map[seedbed.InstanceID]seedbed.BackupOwner{"ours": {Project: seedbed.DefaultProject, Removed: s.removal}}, nil
}

func (s *shelf) ListBackups(context.Context, seedbed.BackupTarget) (seedbed.BackupList, error) {
	return s.list, nil
}

func (s *shelf) RemoveBackups(
	_ context.Context, _ string, work seedbed.BackupWork, _ seedbed.JobOptions,
) (r seedbed.Receipt, err error) {
	s.removed = append(s.removed, work.Backups...)
	return r, nil
}

// TestPrune checks that retention removes superfluous backups of this installation's instances, by one job, and no others.
func TestPrune(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &shelf{keep: seedbed.Retention{Last: 1}}
	for i, id := range []seedbed.BackupID{"b1", "b2", "b3"} {
		for _, of := range []seedbed.InstanceID{"ours", "theirs"} {
			s.list.Backups = append(s.list.Backups, seedbed.BackupHead{
				BackupKey: seedbed.BackupKey{Instance: of, Backup: id}, Time: now.Add(time.Duration(i) * time.Hour)})
		}
	}
	c := New(Config{Backups: s}, s, nil)
	for _, run := range []struct {
		after time.Duration
		dry   bool
		want  int
	}{{0, true, 2}, {0, false, 2}, {time.Minute, false, 0}, {2 * pruneEvery, false, 2}} {
		todo, skipped, err := c.prunings(t.Context(), now.Add(run.after), run.dry)
		if err != nil || len(skipped) > 0 || len(todo) != run.want {
			t.Fatalf("after %s: %d chores, want %d; skipped %q, %v", run.after, len(todo), run.want, skipped, err)
		}
		for _, job := range todo {
			if run.dry {
				continue
			}
			if done, err := job.apply(t.Context()); !done || err != nil {
				t.Fatal(done, err)
			}
		}
	}
	want := []seedbed.BackupKey{{Instance: "ours", Backup: "b1"}, {Instance: "ours", Backup: "b2"}}
	if !slices.Equal(s.removed, slices.Concat(want, want)) {
		t.Errorf("removed %v", s.removed)
	}
	year := 365 * 24 * time.Hour
	for _, removal := range []struct {
		ago, later time.Duration
		want       int
	}{
		{time.Hour, 0, 2}, {year - 24*time.Hour, 0, 2}, // the rules still keep one for a year
		{year + 24*time.Hour, 0, 2}, // the record says that it was removed before its last backup was made: the clock was wrong then
		{0, year, 2}, {0, year + 24*time.Hour, 3},
	} {
		s.removal = now.Add(-removal.ago)
		if todo, _, err := c.prunings(t.Context(), now.Add(removal.later), true); err != nil || len(todo) != removal.want {
			t.Errorf("%+v: %d chores, want %d; %v", removal, len(todo), removal.want, err)
		}
	}
}
