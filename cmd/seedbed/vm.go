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
	c.AddCommand(a.vmList(), a.vmShow(), a.vmRemove(), a.vmLog())
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
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List instances", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return list(ctx, a, (*client.Client).Instances, "no instances yet: seedbed create NAME --profile PROFILE",
				[]string{"name", "state", "address", "profile", "image", "node", "made"},
				func(i seedbed.Instance) []string {
					return []string{i.Name, string(i.State), addresses(i), i.Profile, i.Image, i.Node, a.ago(i.Created)}
				})
		}),
	}
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
		{"ssh keys", strings.Join(i.SSHKeys, "\n")}, {"ready", string(i.Ready)}, {"made", a.moment(i.Created)},
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
				if err := a.confirm(ctx, api, args[0]); err != nil {
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

// confirm asks whether the instance and its disks may go.
func (a *app) confirm(ctx context.Context, api *client.Client, name string) error {
	if !a.terminal {
		return usagef("removing %s destroys its disks: give -y to say so", name)
	}
	i, err := api.Instance(ctx, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "Remove %s (%s, %d disk(s)) for good? [y/N] ", i.Name, i.State, len(i.Volumes))
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("%s was not removed", name)
	}
	return nil
}
