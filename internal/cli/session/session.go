package session

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// LogoutCommand returns the command logout.
func LogoutCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session of \"seedbed login\"",
		RunE: a.Do(func(ctx context.Context, _ []string) error {
			api, save, err := a.SignIn()
			if err != nil {
				return err
			}
			secret, err := a.KeptSession()
			if err != nil {
				return err
			}
			err = api.WithToken(secret).EndSession(ctx, "current")
			if errors.Is(err, seedbed.ErrUnauthenticated) || errors.Is(err, seedbed.ErrForbidden) {
				err = nil // it has ended, or is of no use any more
			}
			if err != nil {
				return err
			}
			return a.Report(save(""), "signed out")
		}),
	}
}

// Command returns the command session with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "session", Aliases: []string{"sessions"}, Short: "Manage the sessions of people who have signed in",
		Long: `Manage the sessions of people who have signed in ("seedbed login"). You see your own, and
admins of the installation see all.`,
	})
	r := sessions(a)
	c.AddCommand(r.List(a, "list", "List sessions"), r.Show(a, "show ID", "Show a session; current is your own"),
		a.RemoveCommand("remove ID", "End a session", "End session %s", "session %s has ended", (*client.Client).EndSession))
	return c
}

func sessions(a *cli.App) cli.Resource[wire.Session] {
	return cli.Resource[wire.Session]{
		Some:    cli.Selected((*client.Client).ListSessions),
		Filters: []cli.Filter{{Name: "user", Usage: "only of the person with this `NAME`"}},
		None:    "no sessions", Unmatched: "no matching sessions",
		Head: []string{"id", "who", "may", "begun", "used", "ends", "from", "current"},
		Row: func(s wire.Session) []string {
			may, ends := seedbed.GrantLine(s.Grants), a.Moment(s.Expires)
			return []string{s.ID, s.Name, may, a.Ago(s.Created), a.Ago(s.Used), ends, s.From, cli.YesOnly(s.Current)}
		},
		One: cli.Named((*client.Client).Session),
		Pairs: func(a *cli.App, s wire.Session) [][2]string {
			return [][2]string{
				{"id", s.ID}, {"who", s.Name}, {"actor", s.Actor()}, {"issuer", s.Issuer}, {"subject", s.Subject},
				{"groups", strings.Join(s.Groups, ", ")}, {"may", seedbed.GrantLine(s.Grants)}, {"begun", a.Moment(s.Created)},
				{"used", a.Moment(s.Used)}, {"ends", a.Moment(s.Expires)}, {"from", s.From}, {"current", cli.YesOnly(s.Current)},
			}
		},
	}
}
