package cluster

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// nodeFence returns the command fence with its subcommands.
func nodeFence(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "fence", Short: "Switch off lost nodes, and start their instances elsewhere"})
	c.AddCommand(fenceSet(a), fenceClear(a), fenceCheck(a), fenceRun(a), fenceConfirm(a))
	return c
}

func fenceSet(a *cli.App) *cobra.Command {
	var r wire.FenceAgent
	c := &cobra.Command{
		Use: "set NODE --agent AGENT", Short: "Set the fence agent of a node",
		Long: `Set the program that switches a node off: one of the Debian package fence-agents, which must
be installed on the other nodes, or a script in their worker.fence_dir. It gets its options
on its standard input, as name=value lines. Those of the file have secrets: they are sealed
in the database and never shown. A file with one line without = is the password.`,
		Example: `  seedbed node fence set hv2 --agent fence_ipmilan --option ip=192.0.2.12 --option username=fence --secret-file hv2.bmc`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			n, err := api.ChangeNode(ctx, args[0], wire.NodeChange{Fencing: &r})
			return a.Tell(err, n, "node %s is fenced by %s: try it (seedbed node fence check %s)", n.Name, r.Agent, n.Name)
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "agent", Required: true, Usage: "the `AGENT`, such as fence_ipmilan"},
		cli.Flag{Field: "options", Name: "option", Each: true, Usage: "an option that it is told, as `NAME=VALUE` (repeatable)",
			ParseAll: func(pairs []string) (any, error) { return optionsOf(pairs) }},
		cli.Flag{Field: "secrets", Name: "secret-file", Usage: "`FILE` with its password, or with further options, one NAME=VALUE a line",
			Parse: func(file string) (any, error) { return secretsIn(file) }},
	)
	return c
}

// secretsIn returns the options with secrets in a file, whose single line without = is the password.
func secretsIn(file string) (map[string]string, error) {
	text, err := cli.GivenSecret(file)
	if err != nil {
		return nil, err
	}
	lines := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	if len(lines) == 1 && !strings.Contains(lines[0], "=") {
		return map[string]string{"password": lines[0]}, nil
	}
	all, err := optionsOf(lines)
	if err != nil {
		return nil, cli.Usagef("%s: expected the password alone, or lines of the form NAME=VALUE, each name once", file)
	}
	return all, nil
}

// optionsOf returns options by name.
func optionsOf(pairs []string) (map[string]string, error) {
	all := map[string]string{}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if _, twice := all[name]; !ok || name == "" || twice {
			return nil, cli.Usagef("--option %s: expected NAME=VALUE, each name once", p)
		}
		all[name] = value
	}
	return all, nil
}

func fenceClear(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "clear NODE", Short: "Take the fence agent of a node away",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return changeNode(ctx, a, api, args[0], wire.NodeChange{Fencing: &wire.FenceAgent{}}, "node %s has no fence agent")
		}),
	}
}

func fenceCheck(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "check NODE", Short: "Ask the fence agent of a node whether the node is on",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			s, err := api.FenceStatus(ctx, args[0])
			state := "off"
			if s.On {
				state = "on"
			}
			return a.Tell(err, s, "node %s is %s, as its fence agent says on node %s", args[0], state, s.From)
		}),
	}
}

func fenceRun(a *cli.App) *cobra.Command {
	c := fenceJob(a, "run NODE", "Switch off a node, and start its instances elsewhere", false, "Switch off node %s at once")
	c.Long = `Have another node run the fence agent of a node. Once the node is off, its instances whose
restart is always are started on other nodes, those of the highest priority first. seedbedd
does so by itself when a node is lost for fencing.after.`
	return c
}

func fenceConfirm(a *cli.App) *cobra.Command {
	c := fenceJob(a, "confirm NODE", "Confirm that a node is off, and start its instances elsewhere", true, "Is node %s off: confirm it")
	c.Long = `Say that a node is off, and start its instances elsewhere as seedbed node fence run does, but
without its fence agent. If the node is not off, guests run twice and destroy their disks.`
	return c
}

func fenceJob(a *cli.App, use, short string, confirmed bool, question string) *cobra.Command {
	var w cli.WaitFlags
	c := a.Confirmed(question, &cobra.Command{
		Use: use, Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			receipt, err := api.Fence(ctx, args[0], confirmed)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	})
	w.Add(c)
	return c
}
