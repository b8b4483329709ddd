package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// TokenCommand returns the command token with its subcommands.
func TokenCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "token", Aliases: []string{"tokens"}, Short: "Manage API tokens",
		Long: `Manage the tokens that give access to the API over TCP. A token has a role: a viewer
can read everything except consoles and what guests are served, an operator can also
create and change instances, images and profiles, an admin can do everything. "role"
manages others. A token acts in its project, and with --also in further ones. The control
socket needs no token: anyone who can open it is an admin.`,
	})
	r := tokens(a)
	c.AddCommand(tokenAdd(a), r.List(a, "list", "List tokens"), r.Show(a, "show NAME", "Show a token"), tokenSet(a), tokenQuota(a),
		a.RemoveCommand("remove NAME", "Revoke a token", "Revoke token %s", "token %s revoked", (*client.Client).DeleteToken))
	return c
}

func tokenAdd(a *cli.App) *cobra.Command {
	r := wire.TokenRequest{Role: seedbed.RoleViewer}
	var file string
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a token and print its secret, which is shown only once",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			made, err := api.AddToken(ctx, r)
			if err != nil {
				return err
			}
			if file != "" {
				if err := cli.SaveSecret(file, made.Secret); err != nil {
					return fmt.Errorf("%w; the token exists but its secret is lost: seedbed token remove %s", err, made.Token.Name)
				}
				made.Secret = ""
			}
			if a.JSON() {
				return a.PrintJSON(made)
			}
			if file != "" {
				a.Say("token %s added; its secret is in %s (--token-file, or token_file of the configuration)", made.Token.Name, file)
				return nil
			}
			fmt.Fprintln(a.Out, made.Secret)
			a.Say("token %s added; the secret above is shown only once", made.Token.Name)
			return nil
		}),
	}
	a.Fill(c, &r, append(quotaFlags("quota."), tokenFlags("a role in another project, as `PROJECT=ROLE` (repeatable)")...)...)
	c.Flags().StringVar(&file, "out", "", "write the secret to `FILE`, readable only by you, instead of printing it")
	return c
}

// tokenFlags are the flags of what a token may do, and for how long. also describes --also.
func tokenFlags(also string) []cli.Flag {
	return []cli.Flag{
		{
			Field: "role", Usage: "`ROLE`: viewer, operator, admin, or one that was made",
			Parse: func(text string) (any, error) { return seedbed.ParseRole(text) },
		},
		{Field: "grants", Name: "also", Each: true, ParseAll: grants, Usage: also},
		{Field: "expires", Usage: "how long it is valid, as `DURATION`, such as 30d; 0: forever", Parse: expires},
	}
}

func tokenSet(a *cli.App) *cobra.Command {
	var r wire.TokenChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change what a token may do, and when it expires",
		Long: `Change the role of a token, its roles in other projects, and when it expires. What you
omit stays. It applies to the next request with the token, whose secret stays the same.
You must have all that the token may do afterwards.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if r == (wire.TokenChange{}) {
				return cli.Usagef("set %s: nothing to change is given: add a flag such as --role viewer", args[0])
			}
			t, err := api.ChangeToken(ctx, args[0], r)
			return a.Tell(err, t, "token %s: %s; it expires %s", t.Name, seedbed.GrantLine(t.AllGrants()), untilOf(t))
		}),
	}
	a.Fill(c, &r, tokenFlags(
		"a role in another project, as `PROJECT=ROLE`, instead of those before (repeatable); an empty one removes all")...)
	return c
}

// untilOf returns when a token expires, in a sentence.
func untilOf(t seedbed.Token) string {
	if t.Expires.IsZero() {
		return "never"
	}
	return "at " + expiry(t)
}

// grants parses roles in projects. One empty text is none.
func grants(texts []string) (any, error) {
	all := []seedbed.Grant{}
	for _, text := range texts {
		if text == "" && len(texts) == 1 {
			break
		}
		g, err := seedbed.ParseGrant(text)
		if err != nil {
			return nil, cli.Usagef("--also: %v", err)
		}
		all = append(all, g)
	}
	return all, nil
}

// expires returns the time at which a token expires that is valid for that long.
func expires(text string) (any, error) {
	lasts, err := seedbed.ParseDuration(text)
	switch {
	case err != nil || lasts < 0:
		return nil, cli.Usagef("--expires %s: expected a duration such as 30d, or 0 for never", text)
	case lasts == 0:
		return time.Time{}, nil
	}
	return time.Now().Add(lasts), nil
}

func tokens(a *cli.App) cli.Resource[seedbed.Token] {
	return cli.Resource[seedbed.Token]{
		Some:    cli.Selected((*client.Client).ListTokens),
		Filters: []cli.Filter{cli.NameFilter(), {Name: "role", Usage: "only with this `ROLE`"}},
		None:    "no tokens except the one in the configuration (api.token_file)", Unmatched: "no matching tokens",
		Project: func(t seedbed.Token) string { return t.Project },
		Head:    []string{"name", "role", "also", "made", "used", "expires", "quota"},
		Row: func(t seedbed.Token) []string {
			return []string{t.Name, string(t.Role), seedbed.GrantLine(t.Grants), a.Ago(t.Created), a.Ago(t.Used), expiry(t), quotaLine(t.Quota)}
		},
		One: cli.Named((*client.Client).Token),
		Pairs: func(a *cli.App, t seedbed.Token) [][2]string {
			return [][2]string{
				{"name", t.Name}, {"project", t.Project}, {"role", string(t.Role)}, {"also", seedbed.GrantLine(t.Grants)},
				{"made", a.Moment(t.Created)}, {"used", a.Moment(t.Used)}, {"expires", expiry(t)}, {"quota", quotaLine(t.Quota)},
			}
		},
	}
}

func expiry(t seedbed.Token) string {
	switch {
	case t.Expires.IsZero():
		return "never"
	case t.Expired(time.Now()):
		return "expired"
	}
	return t.Expires.Local().Format(time.DateTime)
}

// quotaFlags are the flags of a token's quota, whose fields have that prefix.
func quotaFlags(prefix string) []cli.Flag {
	return []cli.Flag{
		{Field: prefix + "max_instances", Usage: "at most `N` live instances created with it; 0: no limit"},
		{Field: prefix + "max_vcpus", Usage: "at most `N` virtual CPUs of these instances together; 0: no limit"},
		{Field: prefix + "max_memory", Usage: "at most this `SIZE` of memory of these instances together; 0: no limit"},
		{Field: prefix + "max_disk", Usage: "at most this `SIZE` of their disks together; 0: no limit"},
	}
}

func tokenQuota(a *cli.App) *cobra.Command {
	var q seedbed.TokenQuota
	c := &cobra.Command{
		Use: "quota NAME", Short: "Set resource limits for a token",
		Long: `Set resource limits for all live instances created with a token. Limits you omit are
removed. Existing instances are not affected.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			t, err := api.SetTokenQuota(ctx, args[0], q)
			return a.Tell(err, t, "token %s: %s", t.Name, cmp.Or(quotaLine(t.Quota), "no limits"))
		}),
	}
	a.Fill(c, &q, quotaFlags("")...)
	return c
}

// quotaLine returns a quota on one line, or an empty string for no quota.
func quotaLine(q seedbed.TokenQuota) string {
	var all []string
	if q.Instances > 0 {
		all = append(all, fmt.Sprintf("%d instances", q.Instances))
	}
	if q.VCPUs > 0 {
		all = append(all, fmt.Sprintf("%d vcpus", q.VCPUs))
	}
	if q.Memory > 0 {
		all = append(all, "memory "+q.Memory.String())
	}
	if q.Disk > 0 {
		all = append(all, "disk "+q.Disk.String())
	}
	return strings.Join(all, ", ")
}

// AuditCommand returns the command audit.
func AuditCommand(a *cli.App) *cobra.Command {
	c := cli.Resource[seedbed.AuditEntry]{
		Some:    cli.Selected((*client.Client).ListAudit),
		Filters: []cli.Filter{{Name: "actor", Usage: "only changes of this `CALLER`, such as \"token ci\""}, cli.SinceFilter()},
		Most:    100, None: "no changes were made through the API", Unmatched: "no matching changes",
		Head: []string{"when", "project", "who", "role", "from", "what", "request"},
		Row: func(e seedbed.AuditEntry) []string {
			at, request := e.At.Local().Format(time.DateTime), strings.Replace(e.Request, "/api/v1", "", 1)
			from := cmp.Or(e.From, "socket")
			if e.Actor == seedbed.InstallationActor {
				from = ""
			}
			return []string{at, e.Project, e.Actor, string(e.Role), from, e.What, request}
		},
	}.List(a, "audit", "Show the audit log, newest first")
	c.Long = `Show who changed what, newest first. Each entry was written in the same transaction as
the change. With -f json, entries also contain the former state and the request, without
secrets and documents.

An admin of a project sees the changes that were made in it.`
	return c
}
