// Package job has the commands for jobs.
package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// Command returns the command job with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "job", Aliases: []string{"jobs"}, Short: "Manage jobs"})
	c.AddCommand(jobList(a), jobShow(a), jobWatch(a), jobLogs(a), jobCancel(a), jobRetry(a))
	return c
}

func jobList(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.Job]{
		Some: cli.Selected(func(api *client.Client, ctx context.Context, s client.Selection) ([]seedbed.Job, error) {
			return api.ListJobs(ctx, seedbed.JobQuery{
				Scope: s.Scope, Kind: seedbed.JobKind(s.Where["kind"]), State: seedbed.JobState(s.Where["state"]),
				Subject: s.Where["subject"], Node: s.Where["node"], Limit: s.Limit,
			})
		}),
		Project: func(j seedbed.Job) string { return j.Project },
		Filters: []cli.Filter{
			{Name: "kind", Usage: "only of this `KIND`, such as create or remove"},
			cli.WordFilter("state", "only in this `STATE`", seedbed.JobStates()),
			{Name: "subject", Usage: "only those that work on the instance or image `NAME`"}, cli.NodeFilter(),
		},
		Most: 50, None: "no jobs yet", Unmatched: "no matching jobs",
		Head: []string{"job", "kind", "subject", "state", "stage", "started", "took"}, Row: a.JobRow,
	}.List(a, "list", "List jobs, newest first")
}

func jobShow(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a job, its stages and its history",
		Long: "Show a job, its stages and its history. The first eight characters of the ID are enough.",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			s, err := api.Job(ctx, args[0])
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(s)
			}
			a.PrintPairs(jobPairs(a, s.Job))
			rows := cli.Each(s.Stages, func(st seedbed.Stage) []string {
				return []string{st.Name, string(st.State), a.Ago(st.Started), a.Took(st.Started, st.Ended), st.Error}
			})
			fmt.Fprintln(a.Out)
			a.PrintTable([]string{"stage", "state", "started", "took", "error"}, rows, "no stages yet")
			return printHistory(ctx, a, api, string(s.Job.ID))
		}),
	}
}

func jobPairs(a *cli.App, j seedbed.Job) [][2]string {
	after := cli.When(j.After != "", j.After.Short()+cli.When(j.Blocked, ", which has not ended"))
	priority := cli.When(j.Priority != seedbed.PriorityNormal, j.Priority.String())
	return [][2]string{
		{"job", string(j.ID)}, {"kind", string(j.Kind)}, {"subject", j.Subject}, {"project", j.Project}, {"state", string(j.State)},
		{"error", j.Error}, {"cancel", cli.When(j.Cancel, "requested")},
		{"on failure", j.OnFailure.String()}, {"priority", priority}, {"after", after},
		{"node", j.Node}, {"pool", j.Pool}, {"owner", j.Owner},
		{"accepted", a.Moment(j.Created)}, {"started", a.Moment(j.Started)}, {"ended", a.Moment(j.Ended)},
	}
}

// printHistory prints the existing events of a job, page by page.
func printHistory(ctx context.Context, a *cli.App, api *client.Client, id string) error {
	var (
		after int64
		rows  [][]string
	)
	for {
		page, err := api.JobEvents(ctx, id, after, 0)
		if err != nil {
			return err
		}
		if len(page.Events) == 0 {
			break
		}
		for _, e := range page.Events {
			after = max(after, e.Seq)
			rows = append(rows, []string{e.At.Local().Format(time.TimeOnly), e.Level, e.Stage, cli.OneLine(e.Msg)})
		}
	}
	fmt.Fprintln(a.Out)
	a.PrintTable([]string{"time", "level", "stage", "event"}, rows, "no events yet")
	return nil
}

func jobWatch(a *cli.App) *cobra.Command {
	var w cli.WaitFlags
	var after int64
	c := &cobra.Command{
		Use: "watch [ID]", Short: "Follow one job until it ends, or all jobs",
		Long: `Follow a job until it ends; exit status 0 means that it succeeded. Without an ID, the
events of all jobs are shown as they happen, until interrupted or until --timeout, and
the exit status is then 0.`,
	}
	c.Flags().Int64Var(&after, "after", 0, "with all jobs: only events after `SEQ` (0: from the beginning; default: from now on)")
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if len(args) == 0 {
			if !c.Flags().Changed("after") {
				after = -1
			}
			return followAll(ctx, a, api, after, w.Timeout)
		}
		return a.Follow(ctx, api, args[0], w.Timeout, true)
	})
	w.AddTimeout(c)
	return c
}

func jobCancel(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a job and roll it back",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return a.Report(api.CancelJob(ctx, args[0]), "job %s will be rolled back; follow it with: seedbed job watch %s", args[0], args[0])
		}),
	}
}

func jobRetry(a *cli.App) *cobra.Command {
	var w cli.WaitFlags
	c := &cobra.Command{
		Use: "retry ID", Short: "Continue a failed job, or run a rolled-back one again",
		Long: `Continue a job that failed and was not rolled back (--on-failure keep, or a removal) from
the stage that failed. A job that was rolled back is run again; for create, rebuild and
import, re-run the original command instead.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			receipt, err := api.RetryJob(ctx, args[0])
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	w.Add(c)
	return c
}

// followAll prints the events of all jobs after a place, as they come. In JSON it prints one event
// per line. It returns without an error when it is interrupted or its time has passed.
func followAll(ctx context.Context, a *cli.App, api *client.Client, after int64, timeout time.Duration) error {
	limited, cancel := cli.Limited(ctx, timeout)
	defer cancel()
	err := api.FollowEvents(limited, after, func(e seedbed.NumberedEvent) error {
		if a.JSON() {
			return a.PrintJSONLine(e)
		}
		_, err := fmt.Fprintf(a.Out, "%s %s %s %-18s %-8s %s\n", e.At.Local().Format(time.TimeOnly), e.Job.Short(), a.Level(e.Level),
			string(e.Kind)+" "+cli.Printable(e.Subject), e.Stage, cli.OneLine(e.Msg))
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
