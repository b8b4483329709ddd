package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// ScheduleCommand returns the command of the schedules of a kind; add is the one that adds one. command is how the group is called.
func (a *App) ScheduleCommand(kind seedbed.ScheduleKind, command string, add *cobra.Command) *cobra.Command {
	c := Group(&cobra.Command{Use: "schedule", Aliases: []string{"schedules"}, Short: "Manage schedules of " + string(kind) + "s"})
	r := a.schedules(kind, command)
	c.AddCommand(add, r.List(a, "list", "List schedules"), r.Show(a, "show NAME", "Show a schedule, and what its last run was refused"),
		a.scheduleRun(kind), a.RemoveCommand("remove NAME", "Remove a schedule; what it has made stays", "Remove "+kind.What()+" %s",
			kind.What()+" %s removed", func(api *client.Client, ctx context.Context, name string) error {
				return api.DeleteSchedule(ctx, kind, name)
			}))
	return c
}

// ScheduleFlags are the flags by which schedules of all kinds are added.
func ScheduleFlags() []Flag {
	return []Flag{
		{Field: "cron", Usage: "five `FIELDS` of cron in UTC, such as \"0 3 * * *\"", Required: true},
		{Field: "instances", Name: "vm", Usage: "the instance of this `NAME` (repeatable)", Names: Instances},
		{Field: "profile", Usage: "instances that were made from this `PROFILE`"},
		{Field: "tag", Usage: "instances with this tag, as `KEY` or KEY=VALUE"},
	}
}

func (a *App) scheduleRun(kind seedbed.ScheduleKind) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "run NAME", Short: "Run a schedule now",
		Long: `Make now the jobs that the schedule makes at its times. With --dry-run, only show them, and
which snapshots the cleanup would remove after that.`,
	}
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		run, err := api.RunSchedule(ctx, kind, args[0], dry)
		if err != nil {
			return err
		}
		if a.JSON() {
			err = a.PrintJSON(run)
		} else {
			var rows [][]string
			for _, i := range run.Items {
				rows = append(rows, []string{i.Instance, i.Action, i.Snapshot, i.Job.Short(), i.Problem})
			}
			a.PrintTable([]string{"instance", "action", "snapshot", "job", "refused"}, rows, "the schedule has no instances now")
		}
		if err == nil && run.Refused > 0 {
			err = seedbed.Errorf(seedbed.ErrConflict, "%s %s: refused for %d of %d instances", kind.What(), args[0], run.Refused,
				run.Refused+run.Jobs)
		}
		return err
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be made and removed")
	return c
}

// last describes the last run of a schedule.
func (a *App) last(s seedbed.Schedule) string {
	if s.Last == nil {
		return "never"
	}
	text := fmt.Sprintf("%s: %d jobs", a.Ago(s.Last.Time), s.Last.Jobs)
	if s.Last.Refused > 0 {
		text += fmt.Sprintf(", %d refused", s.Last.Refused)
	}
	return text
}

func (a *App) schedules(kind seedbed.ScheduleKind, command string) Resource[seedbed.Schedule] {
	of, what := "target", func(s seedbed.Schedule) string { return s.Target }
	if kind == seedbed.ScheduleSnapshot {
		of, what = "keeps", func(s seedbed.Schedule) string { return s.Keep.String() }
	}
	return Resource[seedbed.Schedule]{
		Some: func(api *client.Client, ctx context.Context, _ []string, s client.Selection) ([]seedbed.Schedule, error) {
			return api.ListSchedules(ctx, kind, s)
		},
		Filters: []Filter{NameFilter()},
		None:    "no " + kind.What() + "s yet: seedbed " + command + " add NAME", Unmatched: "no matching " + kind.What() + "s",
		Project: func(s seedbed.Schedule) string { return s.Project },
		Head:    []string{"name", "cron", of, "instances", "profile", "tag", "last run"},
		Row: func(s seedbed.Schedule) []string {
			return []string{s.Name, s.Cron, what(s), strings.Join(s.Instances, ", "), s.Profile, s.Tag, a.last(s)}
		},
		One: func(api *client.Client, ctx context.Context, args []string) (seedbed.Schedule, error) {
			return api.Schedule(ctx, kind, args[0])
		},
		Pairs: func(a *App, s seedbed.Schedule) [][2]string {
			pairs := [][2]string{{"name", s.Name}, {"project", s.Project}, {"cron", s.Cron}, {"target", s.Target},
				{"instances", strings.Join(s.Instances, ", ")}, {"profile", s.Profile}, {"tag", s.Tag},
				{"left out", strings.Join(s.Exclude, ", ")}, {"keeps", s.Keep.String()}, {"freeze", string(s.Freeze)},
				{"added", a.Moment(s.Created)}, {"last run", a.last(s)}}
			if s.Last != nil {
				for _, i := range s.Last.Items {
					pairs = append(pairs, [2]string{"refused for " + i.Instance, i.Problem})
				}
			}
			return pairs
		},
	}
}
