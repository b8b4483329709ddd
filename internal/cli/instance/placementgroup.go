package instance

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// PlacementGroupCommand returns the command placement-group with its subcommands.
func PlacementGroupCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "placement-group", Aliases: []string{"placement-groups"},
		Short: "Manage placement groups: instances that are kept together, or apart"})
	r := cli.Resource[seedbed.PlacementGroup]{
		Project: func(g seedbed.PlacementGroup) string { return seedbed.ProjectOf(g.Name) },
		Some:    cli.Selected((*client.Client).ListPlacementGroups), Filters: []cli.Filter{cli.NameFilter()},
		None: "no placement groups yet: seedbed placement-group add NAME POLICY", Unmatched: "no matching placement groups",
		Head: []string{"name", "policy", "instances", "description"},
		Row: func(g seedbed.PlacementGroup) []string {
			return []string{g.Name, string(g.Policy), strconv.Itoa(len(g.Instances)), g.Description}
		},
		One: cli.Named((*client.Client).PlacementGroup),
		Pairs: func(a *cli.App, g seedbed.PlacementGroup) [][2]string {
			return [][2]string{{"name", g.Name}, {"policy", string(g.Policy)}, {"description", g.Description},
				{"instances", strings.Join(g.Instances, "\n")}, {"added", a.Moment(g.Created)}}
		},
	}
	c.AddCommand(addPlacementGroup(a), r.List(a, "list", "List placement groups"),
		r.Show(a, "show NAME", "Show a placement group with its instances"),
		a.Removal("remove NAME", "Remove a placement group that no instance and no profile has", "Remove placement group %s",
			func(ctx context.Context, api *client.Client, args []string) (string, error) {
				return cli.Done(api.DeletePlacementGroup(ctx, args[0]), "Removed placement group %q.", args[0])
			}, cli.PlacementGroups))
	return c
}

func addPlacementGroup(a *cli.App) *cobra.Command {
	var r wire.PlacementGroupRequest
	c := &cobra.Command{
		Use: "add NAME POLICY", Short: "Make a placement group",
		Long: `Make a placement group. POLICY says on which nodes its instances are:
  affinity            all on one node
  anti-affinity       each on a node of its own
  soft-affinity       on one node, if they fit there
  soft-anti-affinity  each on a node of its own, if there are enough
An instance comes into it by --placement-group of seedbed create, profile add and vm set.`,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			r.Name, r.Policy = args[0], seedbed.PlacementPolicy(args[1])
			_, err := api.CreatePlacementGroup(ctx, r)
			return cli.Done(err, "Added placement group %q.", args[0])
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, placementPolicies),
	}
	a.Fill(c, &r, cli.Flag{Field: "description", Usage: "description as `TEXT`"})
	return c
}

func placementPolicies(context.Context, *client.Client, []string, string) ([]string, error) {
	return cli.Each(seedbed.PlacementPolicies(), func(p seedbed.PlacementPolicy) string { return string(p) }), nil
}
