// Package cluster has the commands for the installation: its nodes, networks, tokens and certificates.
package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed/internal/cli"
	"seedbed/internal/mtls"
)

const dayTime = 24 * time.Hour

func ClusterCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "cluster", Short: "Certificates by which the hosts of an installation know each other",
		Long: `Make the certificates by which the hosts of an installation know each other. All of it
happens here: nothing is asked of seedbedd.`,
	})
	c.AddCommand(clusterCA(a), clusterIssue(a))
	return c
}

func clusterCA(a *cli.App) *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "ca DIR", Short: "Make the authority that signs the certificates of the hosts", Args: cobra.ExactArgs(1),
		Long: `Make the authority that signs the certificates of the hosts: DIR/ca.pem, which each host gets,
and DIR/ca.key, which none needs. Whoever has ca.key can be any host: keep it where only you are.`,
		RunE: a.Do(func(_ context.Context, args []string) error {
			if err := checkDays(days); err != nil {
				return err
			}
			made, err := mtls.NewAuthority(args[0], time.Duration(days)*dayTime)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(made)
			}
			a.Say("authority made: %s for all hosts, %s for none; good until %s", made.Cert, made.Key, made.Expires.Format(time.DateOnly))
			return nil
		}),
	}
	c.Flags().IntVar(&days, "days", 3650, "it is valid for so `many` days")
	return c
}

func clusterIssue(a *cli.App) *cobra.Command {
	var roles, hosts []string
	var out string
	var days int
	var replace bool
	c := &cobra.Command{
		Use: "issue DIR NODE --role ROLE", Short: "Make the certificates of a host", Args: cobra.ExactArgs(2),
		Long: `Make the certificates of the host whose node name is NODE, signed by the authority in DIR. Each has a
key of its own: ROLE.pem and ROLE.key, in DIR/NODE or --out, beside a copy of ca.pem. A host has
the role control for seedbedd, worker for seedbed-worker, and metadata for seedbed-metadata.

Others reach it by its node name, and by each --host.`,
		Example: `  seedbed cluster issue ca cp1 --role control --host 10.0.0.1
  seedbed cluster issue ca hv2 --role worker,metadata --host hv2.example --host 10.0.0.2`,
		RunE: a.Do(func(_ context.Context, args []string) error {
			dir, node := args[0], args[1]
			if len(roles) == 0 {
				return cli.Usagef("--role is missing: want control, worker or metadata, or several")
			}
			if err := checkDays(days); err != nil {
				return err
			}
			for _, r := range roles {
				if !slices.Contains(mtls.Roles(), mtls.Role(r)) {
					return cli.Usagef("--role %q: want control, worker or metadata", r)
				}
			}
			authority, err := mtls.OpenAuthority(dir)
			if err != nil {
				return err
			}
			if out == "" {
				out = filepath.Join(dir, node)
			}
			all := []mtls.Issued{}
			for _, r := range roles {
				made, err := authority.Issue(out, node, mtls.Role(r), hosts, time.Duration(days)*dayTime, replace)
				if err != nil {
					return err
				}
				all = append(all, made)
			}
			return printIssued(a, all)
		}),
	}
	c.ValidArgsFunction = a.Completion(cli.Files, cli.Nodes)
	f := c.Flags()
	f.StringSliceVar(&roles, "role", nil, "`role` of a daemon on the host: control, worker or metadata; may be repeated")
	f.StringSliceVar(&hosts, "host", nil, "another `name` or IP address of the host; may be repeated")
	f.StringVar(&out, "out", "", "`directory` to write to, DIR/NODE by default")
	f.IntVar(&days, "days", 365, "they are valid for so `many` days")
	f.BoolVar(&replace, "replace", false, "issue anew what is there already")
	return c
}

func printIssued(a *cli.App, all []mtls.Issued) error {
	if a.JSON() {
		return a.PrintJSON(all)
	}
	for _, made := range all {
		where := ""
		if len(made.Hosts) > 0 {
			where = " at " + strings.Join(made.Hosts, ", ")
		}
		a.Say("%s is %s of %s%s; good until %s", made.Cert, made.Role, made.Node, where, made.Expires.Format(time.DateOnly))
	}
	return nil
}

// checkDays refuses what no clock and no file format takes.
func checkDays(days int) error {
	const most = 100 * 365
	if days < 1 || days > most {
		return cli.Usagef("--days %d: want 1 to %d", days, most)
	}
	return nil
}
