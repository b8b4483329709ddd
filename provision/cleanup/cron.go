package cleanup

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"seedbed/internal/sleep"
)

// Slots hands out each slot of a schedule once per installation.
type Slots interface {
	// CronSlot returns true for the first caller that asks for the slot.
	CronSlot(ctx context.Context, task string, slot time.Time) (bool, error)
}

// Leadership lets only one member of the installation at a time do something.
type Leadership interface {
	// Lead waits until this member leads role and runs do, whose context ends before another member
	// may lead; then it starts over. It returns what do returns by itself, and nil once ctx has
	// ended.
	Lead(ctx context.Context, role string, do func(ctx context.Context) error) error
}

// Cron runs a cleaner on a schedule, on the leading member. Leadership saves the others the work;
// Slots makes sure that a slot is run only once.
type Cron struct {
	schedule cron.Schedule
	slots    Slots
	lead     Leadership
	cleaner  *Cleaner
	log      *slog.Logger
}

const (
	// cronTask is the task name for which slots are taken.
	cronTask = "mappings"
	// cronRole is the role whose leader runs the schedule.
	cronRole = "cron"
	// cronBack is how far back Cron looks for a missed slot.
	cronBack = 24 * time.Hour
)

// NewCron makes a Cron that runs cleaner at spec: five fields of cron(5) in UTC, or one of
// robfig/cron's descriptors such as "@hourly". For a wrong spec it returns seedbed.ErrInvalid.
func NewCron(spec string, slots Slots, lead Leadership, cleaner *Cleaner) (*Cron, error) {
	schedule, err := ParseSchedule(spec)
	if err != nil {
		return nil, err
	}
	return &Cron{schedule: schedule, slots: slots, lead: lead, cleaner: cleaner, log: cleaner.cfg.Log}, nil
}

// Run waits for slot after slot until ctx ends, and then returns nil. If slots pass while there is
// no leader, while the computer sleeps or during a run, only the last of them is made up for.
func (c *Cron) Run(ctx context.Context) error {
	done := time.Now().UTC() // slots up to here are not run
	return c.lead.Lead(ctx, cronRole, func(ctx context.Context) error {
		done = c.follow(ctx, done)
		return nil
	})
}

// follow runs the slots after done until ctx ends, and returns the last one that it took up.
func (c *Cron) follow(ctx context.Context, done time.Time) time.Time {
	for ctx.Err() == nil {
		slot := nextSlot(c.schedule, done, time.Now().UTC())
		if slot.IsZero() {
			c.log.Warn("the schedule has no slot left", "task", cronTask)
			<-ctx.Done()
			return done
		}
		for left := time.Until(slot); left > 0; left = time.Until(slot) {
			if sleep.For(ctx, min(left, time.Minute)); ctx.Err() != nil { // in short pieces, because the clock may be set
				return done
			}
		}
		if ctx.Err() != nil { // the leader's context compares with the clock, so this also holds after a pause
			return done
		}
		if err := c.run(ctx, slot); err != nil && ctx.Err() == nil {
			c.log.Error("cleanup", "task", cronTask, "slot", slot, "err", err)
		}
		if ctx.Err() == nil {
			done = slot
		}
	}
	return done
}

// nextSlot returns the slot of a schedule to run after done: the last one that has passed by now or, if none has, the first future one. It
// looks back no further than cronBack.
func nextSlot(schedule cron.Schedule, done, now time.Time) time.Time {
	if done.After(now) { // the clock was set back
		done = now
	}
	if far := now.Add(-cronBack); done.Before(far) {
		done = far
	}
	slot := schedule.Next(done)
	for !slot.IsZero() && slot.Before(now) {
		later := schedule.Next(slot)
		if later.IsZero() || later.After(now) {
			break
		}
		slot = later
	}
	return slot
}

func (c *Cron) run(ctx context.Context, slot time.Time) error {
	mine, err := c.slots.CronSlot(ctx, cronTask, slot)
	if err != nil {
		return fmt.Errorf("take the slot: %w", err)
	}
	if !mine {
		c.log.Info("cleanup slot was already taken", "task", cronTask, "slot", slot)
		return nil
	}
	report, err := c.cleaner.Run(ctx, Options{})
	for _, item := range report.Items {
		c.log.Info("cleaned up", "task", item.Task, "action", item.Action, "subject", item.Subject, "detail", item.Detail)
	}
	switch {
	case err != nil:
		return err
	case report.Refused != "":
		c.log.Warn("cleanup refused", "task", cronTask, "slot", slot, "why", report.Refused)
	default:
		for _, why := range report.Skipped {
			c.log.Warn("cleanup passed a node over", "task", cronTask, "slot", slot, "why", why)
		}
		c.log.Info("cleanup ran", "task", cronTask, "slot", slot, "items", len(report.Items))
	}
	return nil
}
