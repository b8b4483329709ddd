package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *app) vmCmd() *cobra.Command {
	c := group(&cobra.Command{Use: "vm", Aliases: []string{"vms", "instance"}, Short: "Instances"})
	c.AddCommand(a.vmList(), a.vmShow(), a.vmStart(), a.vmStop(), a.vmReboot(), a.vmRebuild(), a.vmRemove(), a.vmSnapshot(), a.vmFlatten(), a.vmLog(),
		a.vmOptions(), a.vmTag(), a.vmSpot(), a.vmMaintenance(), a.vmPassword())
	return c
}

func addresses(i seedbed.Instance) string {
	var addrs []string
	for _, n := range i.NICs {
		if n.Addr.IsValid() {
			addrs = append(addrs, n.Addr.String())
		}
	}
	return strings.Join(addrs, ", ")
}

func (a *app) vmList() *cobra.Command {
	var q seedbed.InstanceQuery
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List instances", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			none := "no instances yet: seedbed create NAME --profile PROFILE"
			if q != (seedbed.InstanceQuery{Limit: q.Limit}) {
				none = "no such instances"
			}
			all := func(c *client.Client, ctx context.Context) ([]seedbed.Instance, error) {
				return c.ListInstances(ctx, q)
			}
			return list(ctx, a, all, none,
				[]string{"name", "state", "address", "profile", "image", "node", "made"},
				func(i seedbed.Instance) []string {
					return []string{i.Name, string(i.State), addresses(i), i.Profile, i.Image, i.Node, a.ago(i.Created)}
				})
		}),
	}
	c.Flags().StringVar((*string)(&q.State), "state", "", "only those in that `STATE`: provisioning, running, stopped, removing, gone or failed")
	c.Flags().StringVar(&q.Profile, "profile", "", "only those of that `PROFILE`")
	c.Flags().StringVar(&q.Prefix, "name", "", "only those whose name starts with `TEXT`")
	c.Flags().IntVar(&q.Limit, "limit", 0, "at most so `many`; 0 is all")
	return c
}

func (a *app) vmShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an instance", Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return show(ctx, a, (*client.Client).Instance, args[0], a.vmPairs)
		}),
	}
}

func (a *app) vmPairs(i seedbed.Instance) [][2]string {
	var nics, volumes []string
	for _, n := range i.NICs {
		nics = append(nics, fmt.Sprintf("%s %s on %s (%s)", n.Addr, n.MAC, n.Network, n.ID.Tap()))
	}
	for _, v := range i.Volumes {
		line := fmt.Sprintf("%s/%s %s", v.Pool, v.Name, v.Size)
		if v.Image != "" {
			line += " from " + v.Image
		}
		volumes = append(volumes, line)
	}
	held := ""
	if i.Held {
		held = "yes"
	}
	return [][2]string{
		{"name", i.Name}, {"id", string(i.ID)}, {"ec2 id", i.ID.EC2()}, {"state", string(i.State)}, {"held", held},
		{"profile", i.Profile}, {"image", i.Image}, {"node", i.Node},
		{"vcpus", strconv.Itoa(i.VCPUs)}, {"memory", size(i.Memory)},
		{"nics", strings.Join(nics, "\n")}, {"volumes", strings.Join(volumes, "\n")},
		{"ssh keys", strings.Join(i.SSHKeys, "\n")}, {"ready", string(i.Ready)},
		{"datasource", string(i.Datasource)}, {"metadata options", optionLine(i.Metadata)}, {"tags", tagLine(i.Tags)}, {"notice", a.spotLine(i.Spot)},
		{"made", a.moment(i.Created)},
		{"user-data fetched", a.moment(i.Fetched)}, {"reported", a.moment(i.Reported)}, {"domain gone", a.moment(i.GoneSince)},
	}
}

func (a *app) vmRemove() *cobra.Command {
	var (
		yes bool
		w   waitFlags
	)
	c := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove an instance, its volumes included", Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			if !yes {
				if err := a.confirm(ctx, api, args[0], "remove"); err != nil {
					return err
				}
			}
			receipt, err := api.RemoveInstance(ctx, args[0])
			if err != nil {
				return err
			}
			return a.finish(ctx, api, receipt, &w)
		}),
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	w.add(c)
	return c
}

// confirm asks whether the instance may be removed or rebuilt: its disks go with that.
func (a *app) confirm(ctx context.Context, api *client.Client, name, what string) error {
	if !a.terminal {
		return usagef("to %s %s destroys its disks: give -y to say so", what, name)
	}
	i, err := api.Instance(ctx, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "Really %s %s (%s), with %d disk(s) that go for good? [y/N] ", what, i.Name, i.State, len(i.Volumes))
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("%s was left as it is", name)
	}
	return nil
}
