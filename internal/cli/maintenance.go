package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// MaintenanceCommand returns the command that announces events to whom, lists them and ends them.
func (a *App) MaintenanceCommand(
	subject, whom string,
	announce func(*client.Client, context.Context, string, wire.MaintenanceRequest) (seedbed.Maintenance, error),
	all func(*client.Client, context.Context, string) ([]seedbed.Maintenance, error),
) *cobra.Command {
	r := wire.MaintenanceRequest{Code: "system-maintenance"}
	var lasts time.Duration
	c := &cobra.Command{
		Use: "maintenance " + subject, Short: "Announce maintenance to " + whom,
		Long: `Announce maintenance to ` + whom + `. Guests read the announcement at
events/maintenance; nothing else happens. TIME is in RFC 3339 form, or relative to now such
as +2h. A node that is cordoned or drained announces that by itself, and what is announced
for a node ends when it is uncordoned.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if r.NotBefore.IsZero() {
				r.NotBefore = a.Now().UTC().Truncate(time.Second)
			}
			if lasts > 0 {
				r.NotAfter = r.NotBefore.Add(lasts)
			}
			m, err := announce(api, ctx, args[0], r)
			return a.showMaintenance(m, err)
		}),
	}
	a.Fill(c, &r,
		Flag{
			Field: "code",
			Usage: "`CODE` of the event: instance-reboot, system-reboot, system-maintenance, instance-retirement or instance-stop",
		},
		Flag{Field: "not_before", Usage: "earliest start, as `TIME` (default: now)"},
		Flag{Field: "not_after", Usage: "latest end, as `TIME`"},
		Flag{Field: "description", Usage: "description as `TEXT`, on one line"},
	)
	c.Flags().Var(NewDuration(&lasts), "for", "how long it takes at most, as `DURATION`")
	c.MarkFlagsMutuallyExclusive("for", "not-after")
	announced := Resource[seedbed.Maintenance]{
		All: Named(all), None: "no maintenance is announced",
		Head: []string{"id", "code", "state", "not before", "not after", "description"},
		Row: func(m seedbed.Maintenance) []string {
			return []string{m.ID, m.Code, m.State, local(m.NotBefore), local(m.NotAfter), m.Description}
		},
	}
	c.AddCommand(
		announced.List(a, "list "+subject, "List announced and recently ended maintenance"),
		a.endMaintenance("complete", "Mark maintenance as completed", (*client.Client).CompleteMaintenance),
		a.endMaintenance("cancel", "Cancel announced maintenance", (*client.Client).CancelMaintenance),
	)
	return c
}

func (a *App) endMaintenance(
	verb, short string, end func(*client.Client, context.Context, string) (seedbed.Maintenance, error),
) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return a.showMaintenance(end(api, ctx, args[0]))
		}),
	}
}

func (a *App) showMaintenance(m seedbed.Maintenance, err error) error {
	return a.ShowPairs(err, m, [][2]string{
		{"id", m.ID}, {"code", m.Code}, {"state", m.State}, {"not before", a.Moment(m.NotBefore)},
		{"not after", a.Moment(m.NotAfter)}, {"description", m.Description},
	})
}

// local returns a time in full, or an empty string for the zero time.
func local(t time.Time) string {
	return When(!t.IsZero(), t.Local().Format(time.DateTime))
}
