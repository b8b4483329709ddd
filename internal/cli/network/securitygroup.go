package network

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

// SecurityGroupCommand returns the command security-group with its subcommands.
func SecurityGroupCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "security-group", Aliases: []string{"security-groups"},
		Short: "Manage security groups: what the NICs of instances may send and receive"})
	r := cli.Resource[seedbed.SecurityGroup]{
		Project: func(g seedbed.SecurityGroup) string { return seedbed.ProjectOf(g.Name) },
		Some:    cli.Selected((*client.Client).ListSecurityGroups), Filters: []cli.Filter{cli.NameFilter()},
		None: "no security groups yet: seedbed security-group add NAME RULE...", Unmatched: "no matching security groups",
		Head: []string{"name", "rules", "description"},
		Row: func(g seedbed.SecurityGroup) []string {
			return []string{g.Name, strconv.Itoa(len(g.Rules)), g.Description}
		},
		One: cli.Named((*client.Client).SecurityGroup), Pairs: groupPairs,
	}
	c.AddCommand(addGroup(a), r.List(a, "list", "List security groups"), r.Show(a, "show NAME", "Show a security group with its rules"),
		changeGroup(a, "allow NAME RULE...", "Add rules to a security group", `Add rules to a security group. `+ruleForm,
			func(rules []seedbed.SecurityRule) wire.SecurityGroupChange {
				return wire.SecurityGroupChange{Allow: rules}
			}),
		changeGroup(a, "revoke NAME RULE...", "Remove rules from a security group", `Remove rules from a security group, as show writes them.
Connections that a rule allowed go on until they have been idle for some minutes.`,
			func(rules []seedbed.SecurityRule) wire.SecurityGroupChange {
				return wire.SecurityGroupChange{Revoke: rules}
			}),
		a.Removal("remove NAME", "Remove a security group that no NIC is in", "Remove security group %s",
			func(ctx context.Context, api *client.Client, args []string) (string, error) {
				return cli.Done(api.DeleteSecurityGroup(ctx, args[0]), "Removed security group %q.", args[0])
			}, cli.SecurityGroups))
	return c
}

const ruleForm = `A rule is a text such as
  "in tcp 443"                       TCP to port 443, from everywhere
  "in tcp 8000-8100 from 10.0.0.0/8" TCP to some ports, from some addresses
  "in tcp 5432 from group app"       TCP to port 5432, from the members of a group
  "in icmp 8"                        echo requests
  "out any to 2001:db8::/32 # lab"   everything to some IPv6 addresses, with a description
The protocol is any, tcp, udp, icmp, icmp6 or the number of another. What a rule allows is
answered without a further rule. Members are meant by their NICs on the same network. Put
each rule into quotes; one alone needs none.`

func groupPairs(_ *cli.App, g seedbed.SecurityGroup) [][2]string {
	return [][2]string{{"name", g.Name}, {"description", g.Description},
		{"rules", strings.Join(cli.Each(g.Rules, described), "\n")}}
}

// described returns a rule as ParseSecurityRule takes it.
func described(r seedbed.SecurityRule) string {
	return r.String() + cli.When(r.Description != "", " # "+r.Description)
}

func addGroup(a *cli.App) *cobra.Command {
	var r wire.SecurityGroupRequest
	c := &cobra.Command{
		Use: "add NAME [RULE]...", Short: "Make a security group",
		Long: "Make a security group. Its members may send and receive what a rule of one of their groups\nallows. " + ruleForm,
		RunE: a.Told(func(ctx context.Context, api *client.Client, args []string) (_ string, err error) {
			r.Name = args[0]
			if r.Rules, err = parseRules(args[1:]); err != nil {
				return "", err
			}
			_, err = api.CreateSecurityGroup(ctx, r)
			return cli.Done(err, "Added security group %q.", args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.Fill(c, &r, cli.Flag{Field: "description", Usage: "description as `TEXT`"})
	return c
}

func changeGroup(
	a *cli.App, use, short, long string, change func([]seedbed.SecurityRule) wire.SecurityGroupChange,
) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long}
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		rules, err := parseRules(args[1:])
		if err != nil {
			return err
		}
		g, err := api.ChangeSecurityGroup(ctx, args[0], change(rules))
		return a.ShowPairs(err, g, groupPairs(a, g))
	})
	c.ValidArgsFunction = a.Completion(cli.SecurityGroups)
	return c
}

// parseRules parses rules, each in an argument of its own. One alone may be in several.
func parseRules(texts []string) (rules []seedbed.SecurityRule, err error) {
	if len(texts) > 1 && (texts[0] == string(seedbed.DirectionIn) || texts[0] == string(seedbed.DirectionOut)) {
		texts = []string{strings.Join(texts, " ")}
	}
	for _, text := range texts {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			return nil, cli.Usagef("%s", err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}
