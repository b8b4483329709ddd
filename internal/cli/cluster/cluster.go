// Package cluster has the commands for the installation: its nodes, networks, tokens and
// certificates.
package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/mtls"
)

const dayTime = 24 * time.Hour

// Command returns the command cluster with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "cluster", Short: "Make the certificates of an installation's hosts",
		Long: `Make the certificates with which the hosts of an installation authenticate each other.
The commands work on this machine only and do not need seedbedd.`,
	})
	c.AddCommand(clusterCA(a), clusterIssue(a))
	return c
}

func clusterCA(a *cli.App) *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "ca DIR", Short: "Create the certificate authority of the hosts",
		Long: `Create the certificate authority of the hosts: DIR/ca.pem, which every host needs, and
DIR/ca.key, which no host needs. With ca.key anyone can impersonate any host: keep it
private.`,
		RunE: a.Do(func(_ context.Context, args []string) error {
			if err := checkDays(days); err != nil {
				return err
			}
			made, err := mtls.NewAuthority(args[0], time.Duration(days)*dayTime)
			return a.Tell(err, made, "certificate authority created: copy %s to every host; keep %s private; valid until %s",
				made.Cert, made.Key, made.Expires.Format(time.DateOnly))
		}),
	}
	c.Flags().IntVar(&days, "days", 3650, "valid for `N` days")
	return c
}

func clusterIssue(a *cli.App) *cobra.Command {
	var roles, hosts []string
	var out string
	var days int
	var replace bool
	c := &cobra.Command{
		Use: "issue DIR NODE --role ROLE", Short: "Issue the certificates of a host",
		Long: `Issue the certificates of the host with node name NODE, signed by the authority in DIR.
Each has its own key: ROLE.pem and ROLE.key, in DIR/NODE or --out, next to a copy of
ca.pem. The role is control for seedbedd, worker for seedbed-worker, and metadata for
seedbed-metadata.

The certificates are valid for the node name and for each --host.`,
		Example: `  seedbed cluster issue ca cp1 --role control --host 10.0.0.1
  seedbed cluster issue ca hv2 --role worker,metadata --host hv2.example --host 10.0.0.2`,
		RunE: a.Do(func(_ context.Context, args []string) error {
			dir, node := args[0], args[1]
			if len(roles) == 0 {
				return cli.Usagef("--role is missing: expected control, worker, metadata or libvirt, or several")
			}
			if err := checkDays(days); err != nil {
				return err
			}
			for _, r := range roles {
				if !slices.Contains(mtls.Roles(), mtls.Role(r)) {
					return cli.Usagef("--role %q: expected control, worker, metadata or libvirt", r)
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
	f.StringSliceVar(&roles, "role", nil, "`ROLE` of a daemon on the host: control, worker, metadata or libvirt (repeatable)")
	f.StringSliceVar(&hosts, "host", nil, "another `NAME` or IP address of the host (repeatable)")
	f.StringVar(&out, "out", "", "`DIRECTORY` to write to (default: DIR/NODE)")
	f.IntVar(&days, "days", 365, "valid for `N` days")
	f.BoolVar(&replace, "replace", false, "replace existing certificates")
	return c
}

func printIssued(a *cli.App, all []mtls.Issued) error {
	if a.JSON() {
		return a.PrintJSON(all)
	}
	for _, made := range all {
		where := cli.When(len(made.Hosts) > 0, " at "+strings.Join(made.Hosts, ", "))
		a.Say("%s is %s of %s%s; valid until %s", made.Cert, made.Role, made.Node, where, made.Expires.Format(time.DateOnly))
	}
	return nil
}

// checkDays refuses a validity that clocks or file formats cannot represent.
func checkDays(days int) error {
	const most = 100 * 365
	if days < 1 || days > most {
		return cli.Usagef("--days %d: expected 1 to %d", days, most)
	}
	return nil
}

// CertificateCommand returns the command certificate with its subcommands.
func CertificateCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "certificate", Short: "Print certificates"})
	c.AddCommand(&cobra.Command{
		Use: "identity", Short: "Print the certificate that verifies instance identity documents",
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			text, err := api.IdentityCertificate(ctx)
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		}),
	})
	return c
}
