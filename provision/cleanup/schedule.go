package cleanup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"seedbed"
	"seedbed/internal/sleep"
)

// Schedules are the schedules, the instances that they are for, and the snapshots that they have made.
type Schedules interface {
	Timetable
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	// NoteRun records what a schedule did last.
	NoteRun(ctx context.Context, kind seedbed.ScheduleKind, name string, run seedbed.ScheduleRun) error
	Slots
}

// Timetable is what the cleanup uses of schedules.
type Timetable interface {
	Schedules(ctx context.Context) ([]seedbed.Schedule, error)
	ScheduledSnapshots(ctx context.Context) ([]seedbed.ScheduledSnapshot, error)
}

// Intake accepts requests as jobs, and plans them.
type Intake interface {
	Submit(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error)
	Plan(ctx context.Context, req seedbed.Request) (seedbed.Plan, error)
}

// Scheduler has backups and snapshots be made by their schedules, on the leading member.
type Scheduler struct {
	store  Schedules
	lead   Leadership
	intake Intake
	log    *slog.Logger
	// waiting are the last runs of schedules that have requests which wait for other jobs. Only Pass uses it.
	waiting map[string]waiting
}

// NewScheduler makes a Scheduler. lead is only used by Run.
func NewScheduler(store Schedules, lead Leadership, intake Intake, log *slog.Logger) *Scheduler {
	return &Scheduler{store: store, lead: lead, intake: intake, log: log, waiting: map[string]waiting{}}
}

const (
	// scheduleRole is the role whose leader follows the schedules.
	scheduleRole = "backups"
	// notedItems bounds what is kept of what a run was refused.
	notedItems = 20
)

// Run looks at all schedules every minute until ctx ends, and then returns nil. Of the slots that pass while there is no leader, the last
// one of each schedule is made up for.
func (s *Scheduler) Run(ctx context.Context) error {
	done := time.Now().UTC()
	return s.lead.Lead(ctx, scheduleRole, func(ctx context.Context) error {
		for {
			sleep.For(ctx, time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			if ctx.Err() != nil {
				return nil
			}
			now := time.Now().UTC()
			if err := s.Pass(ctx, done, now); err != nil {
				if ctx.Err() == nil {
					s.log.Error("schedules", "err", err)
				}
				continue // the slots are looked at again
			}
			done = now
		}
	})
}

// Pass runs each schedule that has a slot after done and up to now. For the others, it asks again for what waits for other jobs.
func (s *Scheduler) Pass(ctx context.Context, done, now time.Time) error {
	all, err := s.store.Schedules(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	var instances []seedbed.Instance
	for _, of := range all {
		schedule, err := ParseSchedule(of.Cron)
		if err != nil {
			s.log.Error("a schedule", "kind", of.Kind, "schedule", of.Name, "err", err)
			continue
		}
		slot := nextSlot(schedule, done, now)
		if slot.IsZero() || slot.After(now) {
			if err := s.again(ctx, of, now); err != nil {
				return err
			}
			continue
		}
		if instances == nil { // before the slot is taken, which cannot be given back
			if instances, err = s.store.Instances(ctx); err != nil {
				return err
			}
		}
		mine, err := s.store.CronSlot(ctx, fmt.Sprintf("%s %x", of.Kind, sha256.Sum256([]byte(of.Name)))[:40], slot)
		if err != nil {
			return fmt.Errorf("take the slot of %s: %w", of.Name, err)
		}
		if !mine {
			continue
		}
		run, again := s.ask(onSchedule(ctx, of), of, instances, slot)
		s.waiting[keyOf(of)] = waiting{run, again,
			slices.MinFunc([]time.Time{schedule.Next(slot), slot.Add(longestWait)}, time.Time.Compare)}
		if err := s.note(ctx, of, run); err != nil {
			return err
		}
	}
	return nil
}

// onSchedule returns the context in which a schedule asks for jobs.
func onSchedule(ctx context.Context, of seedbed.Schedule) context.Context {
	by := seedbed.Change{Actor: "schedule " + of.Name, Project: of.Project, Installation: true, Request: "scheduled " + string(of.Kind)}
	ctx = seedbed.WithChange(ctx, &by)
	if of.Project != seedbed.DefaultProject { // whose members see why they were refused
		ctx = seedbed.AsTenant(ctx)
	}
	return ctx
}

// RunNow runs a schedule at once, for the caller. If dry is true, it only returns what the schedule would ask for, and which snapshots the
// cleanup would remove after that.
func (s *Scheduler) RunNow(ctx context.Context, of seedbed.Schedule, dry bool) (seedbed.ScheduleRun, error) {
	now := time.Now().UTC().Truncate(time.Second)
	instances, err := s.store.Instances(ctx)
	if err != nil {
		return seedbed.ScheduleRun{}, err
	}
	if dry {
		return s.foresee(ctx, of, instances, now)
	}
	if asked := seedbed.ChangeOf(ctx); asked != nil { // for several jobs
		by := *asked
		by.Keyed, by.Match = nil, nil
		ctx = seedbed.WithChange(ctx, &by)
	}
	run, _ := s.ask(ctx, of, instances, now)
	return run, s.note(ctx, of, run)
}

// note records a run.
func (s *Scheduler) note(ctx context.Context, of seedbed.Schedule, run seedbed.ScheduleRun) error {
	s.log.Info("a schedule has run", "kind", of.Kind, "schedule", of.Name, "jobs", run.Jobs, "refused", run.Refused)
	run.Items = slices.DeleteFunc(slices.Clone(run.Items), func(i seedbed.ScheduleItem) bool { return i.Problem == "" })
	run.Items = run.Items[:min(len(run.Items), notedItems)]
	if err := s.store.NoteRun(ctx, of.Kind, of.Name, run); err != nil {
		return fmt.Errorf("note the run of %s: %w", of.Name, err)
	}
	return nil
}

// requests returns what a schedule asks for at a time, and the instances that it names but for which it cannot ask.
func requests(of seedbed.Schedule, instances []seedbed.Instance, at time.Time) (all []seedbed.Request, missing []seedbed.ScheduleItem) {
	action := seedbed.DoBackup
	if of.Kind == seedbed.ScheduleSnapshot {
		action = seedbed.DoSnapshot
	}
	for _, i := range instances {
		if !of.Takes(i) {
			continue
		}
		params := map[string]any{"target": of.Target}
		if of.Kind == seedbed.ScheduleSnapshot {
			params = map[string]any{"snapshot": of.SnapshotAt(at), "freeze": string(of.Freeze)}
		} else if left := excluded(of, i); len(left) > 0 {
			params["exclude"] = left
		}
		all = append(all, seedbed.Request{Action: action, Project: i.Project, Name: i.Name, Params: params, Schedule: of.Name})
	}
	for _, name := range of.Instances {
		at := slices.IndexFunc(instances, func(i seedbed.Instance) bool { return i.Project == of.Project && i.Name == name })
		why := fmt.Sprintf("instance %q does not exist", name)
		if at >= 0 {
			if of.Takes(instances[at]) {
				continue
			}
			why = fmt.Sprintf("instance %q is %s: it must be running or stopped", name, instances[at].State)
		}
		missing = append(missing, seedbed.ScheduleItem{Instance: name, Action: action, Problem: why})
	}
	return all, missing
}

// excluded returns the volumes attached to an instance that its backups leave out.
func excluded(of seedbed.Schedule, i seedbed.Instance) (names []string) {
	for _, v := range i.Attached {
		if slices.Contains(of.Exclude, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// ask makes the jobs of a schedule. What is refused does not keep it from the others. busy is what was refused because another job works on
// the instance.
func (s *Scheduler) ask(
	ctx context.Context, of seedbed.Schedule, instances []seedbed.Instance, at time.Time,
) (run seedbed.ScheduleRun, busy []seedbed.Request) {
	all, missing := requests(of, instances, at)
	run = seedbed.ScheduleRun{Time: at, Refused: len(missing), Items: append([]seedbed.ScheduleItem{}, missing...)}
	for _, req := range all {
		item := itemOf(req)
		receipt, err := s.intake.Submit(ctx, req, nil)
		if err != nil {
			s.log.Warn("a schedule was refused", "schedule", of.Name, "instance", seedbed.Named(req.Project, req.Name).String(), "err", err)
			item.Problem = problemOf(err)
			run.Refused++
			if errors.Is(err, seedbed.ErrInUse) {
				busy = append(busy, req)
			}
		} else {
			item.Job = receipt.Job
			run.Jobs++
		}
		run.Items = append(run.Items, item)
	}
	return run, busy
}

func itemOf(req seedbed.Request) seedbed.ScheduleItem {
	snapshot, _ := req.Params["snapshot"].(string)
	return seedbed.ScheduleItem{Instance: req.Name, Action: req.Action, Snapshot: snapshot}
}

// problemOf returns what a caller may see of an error: not what the database or a node says.
func problemOf(err error) string {
	if e, ok := errors.AsType[*seedbed.Error](err); ok {
		return e.Msg
	}
	return "it failed within seedbedd, whose log says why"
}

// foresee returns what a run would ask for, and what the cleanup would remove after it.
func (s *Scheduler) foresee(
	ctx context.Context, of seedbed.Schedule, instances []seedbed.Instance, at time.Time,
) (run seedbed.ScheduleRun, err error) {
	all, missing := requests(of, instances, at)
	run = seedbed.ScheduleRun{Time: at, Refused: len(missing), Items: append([]seedbed.ScheduleItem{}, missing...)}
	var made []seedbed.ScheduledSnapshot
	for _, req := range all {
		item := itemOf(req)
		plan, err := s.intake.Plan(ctx, req)
		if err != nil {
			return run, err
		}
		if item.Problem = strings.Join(plan.Problems, "; "); item.Problem == "" {
			run.Jobs++
			made = append(made, seedbed.ScheduledSnapshot{Schedule: of.Name, Instance: seedbed.Named(req.Project, req.Name), Name: item.Snapshot,
				Taken: at, State: seedbed.JobSucceeded})
		} else {
			run.Refused++
		}
		run.Items = append(run.Items, item)
	}
	if of.Kind != seedbed.ScheduleSnapshot {
		return run, nil
	}
	have, err := s.store.ScheduledSnapshots(ctx)
	if err != nil {
		return run, err
	}
	for _, o := range outdated(of, append(made, have...)) {
		run.Items = append(run.Items, seedbed.ScheduleItem{Instance: o.Instance.Name, Action: seedbed.DoSnapshotRemove, Snapshot: o.Name})
	}
	return run, nil
}

// outdated returns which of the snapshots a schedule has made and does not keep, the oldest of each instance first. One whose job has
// failed is not kept, and does not count.
func outdated(of seedbed.Schedule, all []seedbed.ScheduledSnapshot) (due []seedbed.ScheduledSnapshot) {
	if of.Kind != seedbed.ScheduleSnapshot || of.Keep == (seedbed.Retention{}) {
		return nil
	}
	whole := map[seedbed.InstanceName][]seedbed.ScheduledSnapshot{}
	for _, o := range all {
		switch {
		case o.Schedule != of.Name || !o.State.Terminal():
		case o.State == seedbed.JobSucceeded:
			whole[o.Instance] = append(whole[o.Instance], o)
		default:
			due = append(due, o)
		}
	}
	for _, own := range whole {
		made := make([]time.Time, len(own))
		for i, o := range own {
			made[i] = o.Taken
		}
		for i, kept := range of.Keep.Kept(made) {
			if !kept {
				due = append(due, own[i])
			}
		}
	}
	slices.SortFunc(due, func(a, b seedbed.ScheduledSnapshot) int {
		return cmp.Or(cmp.Compare(a.Instance.Name, b.Instance.Name), a.Taken.Compare(b.Taken), cmp.Compare(a.Name, b.Name))
	})
	return due
}

// onBehalf returns for whom the cleanup acts, as the audit log notes it: whoever asked for it, or itself.
func onBehalf(ctx context.Context) seedbed.Change {
	if asked := seedbed.ChangeOf(ctx); asked != nil {
		return seedbed.Change{Actor: asked.Actor, Role: asked.Role, From: asked.From, Installation: asked.Installation}
	}
	return seedbed.Change{Actor: "cleanup", Installation: true}
}

// Check returns seedbed.ErrInvalid for what is not usable as the times of a schedule.
func (s *Scheduler) Check(spec string) error {
	_, err := ParseSchedule(spec)
	return err
}

// ParseSchedule parses five fields of cron(5), in UTC, or a descriptor such as "@daily". It returns seedbed.ErrInvalid for anything else.
func ParseSchedule(spec string) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(spec)
	if err == nil && schedule.Next(time.Now()).IsZero() {
		err = errors.New("it never comes")
	}
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "schedule %q is not usable (%s): expected five cron fields in UTC, such as */10 * * * *",
			seedbed.Clip(spec), err)
	}
	return schedule, nil
}
