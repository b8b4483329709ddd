package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"seedbed"
)

// scheduleChecks returns the check that each schedule did at its last run what it is there for. It is left out if there are no schedules.
func scheduleChecks(
	schedules func(context.Context) ([]seedbed.Schedule, error),
	failures func(context.Context, seedbed.Schedule) ([]seedbed.Job, error),
) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "schedules"}
		broken := func(err error) []seedbed.Check {
			check.Detail, check.Hint = err.Error(), "follow its message"
			return []seedbed.Check{check}
		}
		all, err := schedules(ctx)
		if err != nil {
			return broken(err)
		}
		if len(all) == 0 {
			return nil
		}
		var found []string
		for _, s := range all {
			failed, err := failures(ctx, s)
			if err != nil {
				return broken(err)
			}
			if s.Last == nil || s.Last.Refused+len(failed) == 0 {
				continue
			}
			var why []string
			if n := s.Last.Refused; n > 0 {
				said := fmt.Sprintf("refused for %d of %d instances", n, n+s.Last.Jobs)
				if len(s.Last.Items) > 0 {
					said += " (" + s.Last.Items[0].Problem + ")"
				}
				why = append(why, said)
			}
			if len(failed) > 0 {
				why = append(why, fmt.Sprintf("%d of its jobs failed, such as %s", len(failed), failed[0].ID.Short()))
			}
			found = append(found, fmt.Sprintf("%s %s, run %s: %s", s.Kind.What(), s.Name, s.Last.Time.Format(time.RFC3339),
				strings.Join(why, ", and ")))
			if check.Hint == "" {
				check.Hint = "seedbed " + showing(s.Kind) + " show " + seedbed.ShortName(s.Name) + " has all of it"
				if s.Project != seedbed.DefaultProject {
					check.Hint += " (--project " + s.Project + ")"
				}
			}
		}
		if check.OK = len(found) == 0; check.OK {
			check.Detail = fmt.Sprintf("%d, the last runs of which had no problem", len(all))
		} else {
			check.Detail = strings.Join(found, "; ")
		}
		return []seedbed.Check{check}
	}
}

// showing returns the command of the schedules of a kind.
func showing(kind seedbed.ScheduleKind) string {
	if kind == seedbed.ScheduleSnapshot {
		return "vm snapshot schedule"
	}
	return "backup schedule"
}
