package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// RoleCommand returns the command role with its subcommands.
func RoleCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "role", Aliases: []string{"roles"}, Short: "Manage roles",
		Long: `Manage roles. A role is a set of actions, such as instance.create. Viewer, operator and
admin are built in. An admin of the installation makes others, which every project can use.
A token has a role in its project, and can have others in further projects.`,
	})
	r := roles(a)
	c.AddCommand(r.List(a, "list", "List roles"), roleShow(a), roleAdd(a), roleSet(a),
		a.RemoveCommand("remove NAME", "Remove a role", "Remove role %s", "role %s removed", (*client.Client).DeleteRole), roleActions(a))
	return c
}

func roles(a *cli.App) cli.Resource[wire.Role] {
	return cli.Resource[wire.Role]{
		Some: cli.Selected((*client.Client).ListRoles), Filters: []cli.Filter{cli.NameFilter()},
		None: "no roles", Unmatched: "no matching roles",
		Head: []string{"name", "built in", "actions", "description"},
		Row: func(r wire.Role) []string {
			return []string{string(r.Name), cli.YesOnly(r.BuiltIn), strconv.Itoa(len(r.Expanded)), r.Description}
		},
	}
}

// actionRows returns the rows of a table that explains actions. An action that this release does not know
// has no explanation.
func actionRows(actions []seedbed.Action) [][]string {
	return cli.Each(actions, func(a seedbed.Action) []string {
		info, _ := a.Info()
		return []string{string(a), about(info), info.Description}
	})
}

func about(info seedbed.ActionInfo) string {
	if info.Installation {
		return "installation"
	}
	return "project"
}

func roleShow(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a role and what each of its actions is",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r, err := api.Role(ctx, args[0])
			pairs := [][2]string{{"name", string(r.Name)}, {"description", r.Description}}
			if !r.BuiltIn {
				pairs = append(pairs, [][2]string{{"defined as", strings.Join(r.Actions, ", ")}, {"made", a.Moment(r.Created)},
					{"changed", a.Moment(r.Changed)}}...)
			}
			if err = a.ShowPairs(err, r, pairs); err != nil || a.JSON() {
				return err
			}
			fmt.Fprintln(a.Out)
			a.PrintTable([]string{"action", "about the", "what it allows"}, actionRows(r.Expanded), "")
			return nil
		}),
	}
}

// roleFlags are the flags that say what a role is.
func roleFlags() []cli.Flag {
	return []cli.Flag{
		{Field: "actions", Name: "allow", Usage: "`ACTION` that it has, or NOUN.* for all of a noun (repeatable; role actions lists them)",
			Names: cli.ActionPatterns},
		{Field: "description", Usage: "description as `TEXT`"},
	}
}

func roleAdd(a *cli.App) *cobra.Command {
	var r wire.RoleRequest
	c := &cobra.Command{
		Use: "add NAME --allow ACTION", Short: "Add a role",
		Long: `Add a role. NOUN.* stands for all actions of a noun, also those that a later release adds.
You can only give actions that you have.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = seedbed.Role(args[0])
			made, err := api.AddRole(ctx, r)
			return a.Tell(err, made, "role %s added; it has %d actions", made.Name, len(made.Expanded))
		}),
	}
	a.Fill(c, &r, roleFlags()...)
	return c
}

func roleSet(a *cli.App) *cobra.Command {
	var r wire.RoleDefinition
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a role",
		Long: `Change a role. The actions that --allow names replace the former ones. It applies at once
to all who have the role.`,
	}
	given := a.Fill(c, &r, roleFlags()...)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if !given.Given() {
			return cli.Usagef("nothing to change: expected --allow or --description")
		}
		was, err := api.Role(ctx, args[0])
		if err != nil {
			return err
		}
		if err := was.Name.CheckCustom(); err != nil {
			return err
		}
		if given.Changed("allow") {
			was.Actions = r.Actions
		}
		if given.Changed("description") {
			was.Description = r.Description
		}
		made, err := api.ChangeRole(ctx, was)
		return a.Tell(err, made, "role %s changed; it has %d actions", made.Name, len(made.Expanded))
	})
	return c
}

func roleActions(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "actions", Short: "List all actions, with the least built-in role that has each",
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := api.Actions(ctx)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(all)
			}
			a.PrintTable([]string{"action", "from role", "about the", "what it allows"}, cli.Each(all, func(i seedbed.ActionInfo) []string {
				return []string{string(i.Name), string(i.Role), about(i), i.Description}
			}), "")
			return nil
		}),
	}
}

// WhoamiCommand returns the command whoami.
func WhoamiCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "whoami", Short: "Show who you are, and what you may do",
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			who, err := api.Whoami(ctx)
			err = a.ShowPairs(err, who, [][2]string{
				{"name", who.Name}, {"project", who.Project}, {"role", string(who.Role)}, {"grants", seedbed.GrantLine(who.Grants)},
			})
			if err != nil || a.JSON() {
				return err
			}
			fmt.Fprintln(a.Out)
			a.PrintTable([]string{"action", "about the", "what it allows"}, actionRows(who.Actions), "")
			return nil
		}),
	}
}
