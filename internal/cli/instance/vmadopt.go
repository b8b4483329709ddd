package instance

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// vmAdopt returns the command that adopts a domain, or with --dry-run shows what that would do.
func vmAdopt(a *cli.App) *cobra.Command {
	var (
		req  seedbed.AdoptRequest
		w    cli.WaitFlags
		dry  bool
		node string
	)
	c := &cobra.Command{
		Use: "adopt DOMAIN", Short: "Adopt a libvirt domain and its disks as an instance",
		Long: `Adopt a libvirt domain and its disks: it becomes an instance with the same name, UUID,
MAC addresses and size. The domain must be off. Its disks are renamed as volumes of the
pool that they are stored in, and its NICs get Seedbed's tap devices; everything else
stays. Its NICs must be on bridges of managed networks.

If the guest sets its own address, give it with --address, in the order of the NICs:
packets from any other address are dropped. "seedbed vm adoptable" lists the domains,
and --dry-run shows what prevents an adoption.`,
		Example: "  seedbed vm adopt old-web --address 10.7.0.12 --tag from=virt-manager\n  seedbed vm start old-web",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return adoptable(ctx, a, api, node, args[0])
			}
			receipt, err := api.Adopt(ctx, node, args[0], req)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &req,
		cli.Flag{Field: "addresses", Name: "address", Usage: "`ADDRESS` of each NIC, in order (default: a free one)"},
		cli.Flag{Field: "tags", Name: "tag", Each: true, Usage: "tag of the instance as `KEY=VALUE` (repeatable)"},
	)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what the domain has and what prevents its adoption")
	c.Flags().StringVar(&node, "node", "", "`NODE` of the domain, if several nodes have one of that name")
	w.AddJob(a, c)
	return c
}

// adoptable shows a domain that could be adopted.
func adoptable(ctx context.Context, a *cli.App, api *client.Client, node, name string) error {
	d, err := api.Domain(ctx, node, name)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintJSON(d)
	}
	pairs := [][2]string{
		{"name", d.Name}, {"uuid", string(d.ID)}, {"node", d.Node}, {"state", string(d.State)},
		{"vcpus", fmt.Sprint(d.VCPUs)}, {"memory", d.Memory.String()},
	}
	for _, disk := range d.Disks {
		into := "in no pool"
		if disk.Pool != "" {
			into = fmt.Sprintf("%s in pool %s", disk.Size, disk.Pool)
		}
		pairs = append(pairs, [2]string{"disk " + disk.Target, disk.Source + ", " + into})
	}
	for _, n := range d.NICs {
		pairs = append(pairs, [2]string{"nic " + n.MAC.String(), "bridge " + n.Bridge})
	}
	a.PrintPairs(pairs)
	if len(d.Problems) == 0 {
		a.Say("it can be adopted: seedbed vm adopt %s", d.Name)
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "it cannot be adopted: %s", strings.Join(d.Problems, "; "))
}

// vmAdoptable returns the command that lists the domains that belong to no instance.
func vmAdoptable(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.ForeignDomain]{
		Some:    cli.Selected((*client.Client).ListDomains),
		Filters: []cli.Filter{cli.EveryNodeFilter(), cli.WordFilter("state", "only in this `STATE`", seedbed.DomainStates())},
		None:    "all libvirt domains are instances", Unmatched: "no matching domains",
		Head: []string{"name", "node", "state", "vcpus", "memory", "uuid", "project"},
		Row: func(d seedbed.ForeignDomain) []string {
			return []string{d.Name, d.Node, string(d.State), fmt.Sprint(d.VCPUs), d.Memory.String(), string(d.ID), d.Project}
		},
	}.List(a, "adoptable", "List libvirt domains that are not instances")
}

func vmForget(a *cli.App) *cobra.Command {
	c := a.Confirmed("Forget instance %s? It gets no more metadata, addresses and filters",
		a.JobAction("forget VM", "Stop managing an instance; its domain and disks stay", cli.Named((*client.Client).Forget)))
	c.Long = `Stop managing an instance without deleting anything: its domain, which may be running,
and its disks stay where they are. It no longer gets metadata, addresses or filters.
"seedbed vm adopt" adopts it again once it is off.`
	return c
}
