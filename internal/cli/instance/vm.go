// Package instance has the commands for instances.
package instance

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// VMCommand returns the command vm with its subcommands.
func VMCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "vm", Aliases: []string{"vms", "instance"}, Short: "Manage instances"})
	c.AddCommand(vmList(a), instances(a).Show(a, "show NAME", "Show an instance"),
		vmStart(a), vmStop(a), vmReboot(a), vmMove(a), vmMigrate(a), vmUnmigrate(a), vmRebuild(a), vmRemove(a),
		vmProtect(a, true), vmProtect(a, false), vmSnapshot(a), vmResize(a), vmRename(a), vmClone(a),
		vmSet(a), vmCDROM(a), vmFlatten(a), vmLog(a), vmWait(a),
		vmConsole(a), vmVNC(a), vmScreenshot(a), vmExec(a), vmCopy(a), vmSSH(a), vmTop(a),
		vmAdopt(a), vmAdoptable(a), vmForget(a),
		vmNIC(a), vmOptions(a), vmTag(a), vmGroups(a), vmBandwidth(a), vmSpot(a),
		vmExpire(a), vmExtend(a), vmNotes(a),
		a.MaintenanceCommand("VM", "an instance", (*client.Client).Announce, (*client.Client).Maintenance), vmPassword(a))
	return c
}

func addresses(i seedbed.Instance) string {
	var addrs []string
	for _, n := range i.NICs {
		addrs = append(addrs, addressesOf(n)...)
	}
	return strings.Join(addrs, ", ")
}

// located returns where an instance is reached, after a blank; empty if no address is known.
func located(i seedbed.Instance) string {
	at := addresses(i)
	return cli.When(at != "", " at "+at)
}

// addressesOf returns the first addresses of a NIC that are known.
func addressesOf(n seedbed.NIC) (all []string) {
	for _, a := range []netip.Addr{n.Addr, n.Addr6} {
		if a.IsValid() {
			all = append(all, a.String())
		}
	}
	return all
}

func instances(a *cli.App) cli.Resource[seedbed.Instance] {
	return cli.Resource[seedbed.Instance]{
		None: "no instances yet: seedbed create NAME --image IMAGE, or --profile PROFILE", Unmatched: "no matching instances",
		Head: []string{"name", "state", "address", "profile", "image", "node", "made"},
		Row: func(i seedbed.Instance) []string {
			return []string{i.Name, standing(i), addresses(i), i.Profile, i.Image, i.Node, a.Ago(i.Created)}
		},
		Project: func(i seedbed.Instance) string { return i.Project },
		One:     cli.Named((*client.Client).Instance), Pairs: vmPairs,
	}
}

func vmList(a *cli.App) *cobra.Command {
	var tags []string
	r := instances(a)
	r.Filters = []cli.Filter{
		cli.WordFilter("state", "only in this `STATE`", seedbed.InstanceStates()),
		{Name: "profile", Usage: "only of this `PROFILE`"}, cli.NodeFilter(), cli.NameFilter(),
	}
	r.Some = func(api *client.Client, ctx context.Context, _ []string, s client.Selection) ([]seedbed.Instance, error) {
		q := seedbed.InstanceQuery{
			Scope: s.Scope, State: seedbed.InstanceState(s.Where["state"]), Profile: s.Where["profile"], Node: s.Where["node"],
			Prefix: s.Where["name"], Limit: s.Limit,
		}
		if len(tags) > 0 {
			q.Limit = 0 // the API knows no tags
		}
		all, err := api.ListInstances(ctx, q)
		return slices.DeleteFunc(all, func(i seedbed.Instance) bool { return !tagged(i, tags) }), err
	}
	c := r.List(a, "list", "List instances")
	addTags(a, c, &tags, "only with this tag, as `KEY=VALUE` or KEY (repeatable)")
	return c
}

// standing returns an instance's state, and what distinguishes it from other instances in that
// state.
func standing(i seedbed.Instance) string {
	return string(i.State) + cli.When(i.Held, ", held") + cli.When(i.Protected, ", protected") +
		cli.When(i.Expiry.Over(time.Now()), ", expired")
}

func vmPairs(a *cli.App, i seedbed.Instance) [][2]string {
	nics := cli.Each(i.NICs, func(n seedbed.NIC) string {
		words := append(addressesOf(n), n.MAC.String(), "on", n.Network, "("+n.ID.Tap()+")")
		return strings.Join(words, " ") + cli.InGroups(n) + besides(n) + cli.When(n.State != seedbed.NICAttached, ", "+string(n.State))
	})
	volumes := cli.Each(i.Volumes, func(v seedbed.Volume) string {
		return fmt.Sprintf("%s/%s %s", v.Pool, v.Name, v.Size) + cli.When(v.Image != "", " from "+v.Image)
	})
	for _, v := range i.Attached {
		volumes = append(volumes, fmt.Sprintf("%s %s as %s, %s", v.Name, v.Size, v.Device, v.State))
	}
	return [][2]string{
		{"name", i.Name}, {"project", i.Project}, {"id", string(i.ID)}, {"ec2 id", i.ID.EC2()}, {"state", string(i.State)},
		{"held", cli.YesOnly(i.Held)}, {"protected", cli.YesOnly(i.Protected)},
		{"profile", i.Profile}, {"image", i.Image}, {"node", i.Node}, {"on its way to", i.Target}, {"goes back to", i.Home},
		{"vcpus", strconv.Itoa(i.VCPUs)}, {"memory", cli.Size(i.Memory)},
		{"nics", strings.Join(nics, "\n")}, {"volumes", strings.Join(volumes, "\n")},
		{"firmware", string(i.System.Firmware)}, {"tpm", cli.YesOnly(i.System.TPM)},
		{"boot from", i.System.BootFrom}, {"cdrom", i.CDROM}, {"screen", cli.When(i.System.VNC, screenLine(i.System))},
		{"autostart", cli.YesOnly(i.System.Autostart)}, {"restart", restartLine(i.System)},
		{"placement group", i.PlacementGroup}, {"pending", pendingLine(i)},
		{"ssh keys", strings.Join(i.SSHKeys, "\n")}, {"ready", string(i.Ready)},
		{"user-data follows", cli.YesOnly(i.Follow == seedbed.FollowLive)},
		{"datasource", string(i.Datasource)}, {"metadata options", flags.OptionLine(i.Metadata)},
		{"tags", flags.TagLine(i.Tags)}, {"notice", spotLine(a, i.Spot)},
		{"expires", expiryLine(a, i.Expiry, "", "")}, {"notes", i.Notes},
		{"made", a.Moment(i.Created)}, {"created by token", i.Token},
		{"user-data fetched", a.Moment(i.Fetched)}, {"reported", a.Moment(i.Reported)}, {"host key", i.HostKey},
		{"domain gone", a.Moment(i.GoneSince)},
	}
}

func vmRemove(a *cli.App) *cobra.Command {
	var (
		sel     selection
		yes     bool
		keep    bool
		confirm string
		w       cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "remove NAME...", Short: "Remove instances and their volumes",
		Long: `Remove instances and their volumes. Volumes that were attached stay, unless they were
attached with --keep=false. With --keep-disks, the disks that the instances were made with
become volumes named after them, such as web1-0 (seedbed volume list). If the create job
of an instance is still running, that job is cancelled and rolled back first; any other
job on the instance must end before. Several instances are removed after one question;
protected ones are refused.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) (err error) {
			names, err := sel.names(ctx, a, api, args)
			if err != nil {
				return err
			}
			said := confirm
			switch {
			case len(names) > 1 && confirm != "":
				return cli.Usagef("--confirm is for one instance: %d are given", len(names))
			case yes || confirm != "" || len(names) == 0:
			case len(names) > 1:
				err = askRemoval(ctx, a, api, names, keep)
			default:
				said, err = askName(ctx, a, api, names[0], "remove", keep)
			}
			if err != nil {
				return err
			}
			return a.FinishEach(ctx, api, &w, names, sel.given(), func(name string) (seedbed.Receipt, error) {
				if keep {
					return api.RemoveInstanceOnly(ctx, name, said)
				}
				return api.RemoveInstance(ctx, name, said)
			})
		}),
	}
	cli.AddYes(c, &yes)
	c.Flags().BoolVar(&keep, "keep-disks", false, "make their disks volumes instead of removing them")
	c.Flags().StringVar(&confirm, "confirm", "", "the instance's `NAME` again, if it is protected")
	w.Add(c)
	sel.add(a, c)
	return c
}
