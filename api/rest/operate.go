package rest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) health(_ context.Context, c *fiber.Ctx) error {
	return server.Reply(c, fiber.StatusOK, wire.Health{Status: "ok", Version: r.Version, Node: r.Node})
}

func (r *router) description(_ context.Context, c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/yaml")
	return c.SendString(r.Description)
}

func (r *router) doctor(ctx context.Context, c *fiber.Ctx) error {
	return server.Reply(c, fiber.StatusOK, r.Examine(ctx))
}

func (r *router) cleanup(ctx context.Context, c *fiber.Ctx) (any, error) {
	var req wire.CleanupRequest
	if err := server.Receive(c, &req); err != nil {
		return nil, err
	}
	return r.Clean(ctx, req.DryRun, req.Force)
}

// lastJobs is how many jobs an overview shows.
const lastJobs = 5

func (r *router) overview(ctx context.Context, c *fiber.Ctx) (any, error) {
	in, err := server.ScopeOf(c)
	if err != nil {
		return nil, err
	}
	census, err := r.Store.Counts(ctx, in, time.Now().UTC().Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	jobs, err := r.Store.ListJobs(ctx, seedbed.JobQuery{Scope: in, Limit: lastJobs})
	if err != nil {
		return nil, err
	}
	project, _ := in.One()
	if !server.CallerOf(c).May(seedbed.ActionInstallationRead) { // it has the nodes and the checks
		return wire.Overview{
			Version: r.Version, Project: project, Nodes: map[seedbed.NodeState]int{}, Wrong: []seedbed.Check{}, Counts: census, Jobs: jobs,
		}, nil
	}
	nodes, err := r.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	states := map[seedbed.NodeState]int{}
	for _, n := range nodes {
		states[n.State]++
	}
	ctx, cancel := context.WithTimeout(ctx, server.StatusTimeout)
	defer cancel()
	checks := r.Examine(ctx)
	wrong := []seedbed.Check{}
	for _, ch := range checks {
		if !ch.OK {
			wrong = append(wrong, ch)
		}
	}
	return wire.Overview{
		Version: r.Version, Node: r.Node, Project: project, Nodes: states, Checks: len(checks), Wrong: wrong, Counts: census, Jobs: jobs,
	}, nil
}

func scheduleTag(s seedbed.Schedule) string {
	return server.RevisionTag(s.Revision, s.Created.UnixMicro())
}

func (r *router) schedules(kind seedbed.ScheduleKind) listing[seedbed.Schedule] {
	return listing[seedbed.Schedule]{
		kind: kind.What(), name: func(s seedbed.Schedule) string { return s.Name },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.Schedule, error) {
			in, err := server.ScopeOf(c)
			if err != nil {
				return nil, err
			}
			all, err := r.Store.Schedules(ctx)
			return slices.DeleteFunc(all, func(s seedbed.Schedule) bool { return s.Kind != kind || !in.Sees(s.Project) }), err
		},
	}
}

func (r *router) schedule(kind seedbed.ScheduleKind) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		return showTagged(ctx, c, kind.What(), func(ctx context.Context, name string) (seedbed.Schedule, error) {
			return r.Store.Schedule(ctx, kind, name)
		}, scheduleTag)
	}
}

func (r *router) deleteSchedule(kind seedbed.ScheduleKind) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		return dropTagged(ctx, c, kind.What(), func(ctx context.Context, name string, checks ...func(seedbed.Schedule) error) error {
			return r.Store.DeleteSchedule(ctx, kind, name, checks...)
		}, scheduleTag)
	}
}

// runSchedule runs a schedule at once, or answers what it would ask for.
func (r *router) runSchedule(kind seedbed.ScheduleKind) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		dry, err := switched(c, "dry_run")
		if err != nil {
			return err
		}
		name, err := server.NameOf(c, kind.What())
		if err != nil {
			return err
		}
		s, err := r.Store.Schedule(ctx, kind, name)
		if err != nil {
			return err
		}
		run, err := r.Schedules.RunNow(ctx, s, dry)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, run)
	}
}

func (r *router) createBackupSchedule(ctx context.Context, c *fiber.Ctx) error {
	var req wire.BackupScheduleRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	return r.createSchedule(ctx, c, "/backup-schedules/", seedbed.Schedule{
		Kind: seedbed.ScheduleBackup, Name: req.Name, Target: req.Target, Cron: req.Cron, ScheduleSettings: seedbed.ScheduleSettings{
			Instances: req.Instances, Profile: req.Profile, Tag: req.Tag, Exclude: req.Exclude}})
}

func (r *router) createSnapshotSchedule(ctx context.Context, c *fiber.Ctx) error {
	var req wire.SnapshotScheduleRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	return r.createSchedule(ctx, c, "/snapshot-schedules/", seedbed.Schedule{
		Kind: seedbed.ScheduleSnapshot, Name: req.Name, Cron: req.Cron, ScheduleSettings: seedbed.ScheduleSettings{
			Instances: req.Instances, Profile: req.Profile, Tag: req.Tag, Keep: req.Keep, Freeze: req.Freeze}})
}

// createSchedule adds a schedule to the caller's project. The instances and the profile that it names must exist.
func (r *router) createSchedule(ctx context.Context, c *fiber.Ctx, at string, s seedbed.Schedule) (err error) {
	who := server.CallerOf(c)
	if s.Name, err = who.Qualified(s.Kind.What(), s.Name); err != nil {
		return err
	}
	s.Project = who.Project
	if s.Profile != "" {
		if s.Profile, err = r.Store.Resolve(ctx, seedbed.PublishedProfile, who.Project, s.Profile); err != nil {
			return err
		}
	}
	if err := cmp.Or(r.Schedules.Check(s.Cron), s.Check()); err != nil {
		return err
	}
	for _, name := range s.Instances {
		_, err := r.Store.InstanceByName(ctx, seedbed.Named(who.Project, name))
		if errors.Is(err, seedbed.ErrNotFound) {
			err = server.Invalid("%s %q: %s", s.Kind.What(), s.Name, err)
		}
		if err != nil {
			return err
		}
	}
	if s, err = r.Store.CreateSchedule(ctx, s); err != nil {
		return err
	}
	return server.Created(c, at+seedbed.ShortName(s.Name), s)
}
