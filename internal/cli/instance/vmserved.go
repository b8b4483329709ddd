package instance

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

func vmOptions(a *cli.App) *cobra.Command {
	var o seedbed.MetadataOptions
	c := &cobra.Command{
		Use: "metadata-options VM", Short: "Show or change how an instance may use the metadata service",
		Long: `Show how an instance may use the metadata service or, with flags, change it. Changes
take effect immediately, even while it runs.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			i, err := changed(ctx, api, args[0], o != seedbed.MetadataOptions{}, wire.InstanceChange{Metadata: &o})
			return a.ShowPairs(err, i.Metadata.WithDefaults(seedbed.MetadataOptions{}), flags.OptionPairs(i.Metadata))
		}),
	}
	a.Fill(c, &o, flags.OptionFlags("")...)
	return c
}

// changed returns the instance after a change, or unchanged if asked is false.
func changed(ctx context.Context, api *client.Client, name string, asked bool, change wire.InstanceChange) (seedbed.Instance, error) {
	if !asked {
		return api.Instance(ctx, name)
	}
	return api.ChangeInstance(ctx, name, change)
}

func vmTag(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "tag VM [KEY=VALUE|KEY-]...", Short: "Show or change an instance's tags",
		Long: `Show an instance's tags or, with arguments, change them: KEY=VALUE sets a tag and
KEY- removes one.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			tags := map[string]*string{}
			for _, arg := range args[1:] {
				k, v, set := strings.Cut(arg, "=")
				key, drop := strings.CutSuffix(arg, "-")
				if set {
					key = k
				}
				if _, twice := tags[key]; twice || key == "" || !set && !drop {
					return cli.Usagef("%q: expected KEY=VALUE or KEY-, each key once", arg)
				}
				tags[key] = nil
				if set {
					tags[key] = &v
				}
			}
			i, err := changed(ctx, api, args[0], len(tags) > 0, wire.InstanceChange{Tags: tags})
			if err != nil {
				return err
			}
			if len(i.Tags) == 0 && !a.JSON() {
				a.Say("%s has no tags", i.Name)
				return nil
			}
			return a.ShowPairs(nil, i.Tags, flags.TagPairs(i.Tags))
		}),
	}
}

func vmGroups(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "security-groups VM [GROUP]...", Short: "Show or change the security groups of an instance's NICs",
		Long: `Show the security groups of an instance's NICs or, with arguments, put the NICs into
these groups and no others; the group open allows everything. Changes take effect
immediately, even while it runs. Connections that were allowed go on.`,
	}
	nic := cli.NICFlag(c, "change only", "all")
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		groups := args[1:]
		change := wire.InstanceChange{SecurityGroups: &groups, NIC: nic()}
		i, err := changed(ctx, api, args[0], len(groups) > 0, change)
		pairs := cli.Each(i.NICs, func(n seedbed.NIC) [2]string {
			in := n.Groups
			if len(in) == 0 {
				in = []string{seedbed.OpenGroup}
			}
			return [2]string{"nic " + strconv.Itoa(n.Index), strings.Join(in, ", ")}
		})
		return a.ShowPairs(err, i.NICs, pairs)
	})
	return c
}

func vmBandwidth(a *cli.App) *cobra.Command {
	var (
		nic     func() *int
		in, out string
	)
	c := &cobra.Command{
		Use: "bandwidth VM", Short: "Show or change how fast an instance's NICs may be",
		Long: `Show the rates of an instance's NICs or, with --in or --out, change those of one. Changes take
effect immediately, even while it runs. If its network limits its NICs as well, the lower
rate counts.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			change := wire.InstanceChange{NIC: nic()}
			for _, f := range []struct {
				text string
				into **seedbed.BitRate
			}{{in, &change.BandwidthIn}, {out, &change.BandwidthOut}} {
				if f.text == "" {
					continue
				}
				r, err := seedbed.ParseBitRate(f.text)
				if err != nil {
					return cli.Usagef("%v", err)
				}
				*f.into = &r
			}
			i, err := changed(ctx, api, args[0], in+out != "", change)
			rate := func(r seedbed.BitRate) string {
				if r == 0 {
					return "no limit"
				}
				return r.String()
			}
			pairs := cli.Each(i.NICs, func(n seedbed.NIC) [2]string {
				return [2]string{"nic " + strconv.Itoa(n.Index), fmt.Sprintf("in %s, out %s", rate(n.BandwidthIn), rate(n.BandwidthOut))}
			})
			return a.ShowPairs(err, i.NICs, pairs)
		}),
	}
	nic = cli.NICFlag(c, "change", cli.LowestNIC)
	c.Flags().StringVar(&in, "in", "", "how fast it may receive, as a `RATE` such as 100Mbit; 0 for no limit")
	c.Flags().StringVar(&out, "out", "", "how fast it may send, as a `RATE`")
	return c
}

// besides returns the further addresses of a NIC, its rates, and the ports of the node that go to it, as the end of its line.
func besides(n seedbed.NIC) string {
	var all strings.Builder
	for _, a := range n.Secondary {
		fmt.Fprintf(&all, ", also %s", a)
	}
	if n.BandwidthIn != 0 {
		fmt.Fprintf(&all, ", %s in", n.BandwidthIn)
	}
	if n.BandwidthOut != 0 {
		fmt.Fprintf(&all, ", %s out", n.BandwidthOut)
	}
	for _, a := range []netip.Addr{n.Floating, n.Floating6} {
		if a.IsValid() {
			fmt.Fprintf(&all, ", reached at %s", a)
		}
	}
	for _, f := range n.Forwards {
		fmt.Fprintf(&all, ", %s to port %s", f.Listen, f.Ports())
	}
	return all.String()
}

// spotFlags are the flags for a spot notice.
type spotFlags struct {
	at               map[string]*string // by action
	rebalance, clear bool
}

func vmSpot(a *cli.App) *cobra.Command {
	f := spotFlags{at: map[string]*string{}}
	c := &cobra.Command{
		Use: "spot VM", Short: "Show or change an instance's notice of interruption",
		Long: `Show the notice of interruption that an instance reads at spot/instance-action or,
with a flag, change it. The notice itself does nothing: you have to carry it out. TIME
is in RFC 3339 form, or relative to now such as +2m.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			i, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			spot, asked, err := f.notice(i.Spot, a.Now())
			if err != nil {
				return err
			}
			if i, err = changed(ctx, api, args[0], asked, wire.InstanceChange{Spot: wire.SpotNotice(spot)}); err != nil {
				return err
			}
			if i.Spot == nil && !a.JSON() {
				a.Say("%s has no notice", i.Name)
				return nil
			}
			return a.ShowPairs(nil, i.Spot, spotPairs(a, i.Spot))
		}),
	}
	for _, action := range []string{"terminate", "stop", "hibernate"} {
		f.at[action] = c.Flags().String(action+"-at", "", "announce that it will "+action+" at `TIME`")
	}
	c.Flags().BoolVar(&f.rebalance, "rebalance", false, "recommend to move its work elsewhere")
	c.Flags().BoolVar(&f.clear, "clear", false, "remove the notice")
	return c
}

// notice returns the notice that the flags make of the previous one.
func (f spotFlags) notice(was *seedbed.Spot, now time.Time) (spot *seedbed.Spot, asked bool, err error) {
	var next seedbed.Spot
	if was != nil {
		next = *was
	}
	actions := 0
	for _, action := range slices.Sorted(maps.Keys(f.at)) {
		if *f.at[action] == "" {
			continue
		}
		actions++
		next.Action = action
		if next.Time, err = cli.ParseMoment(action+"-at", *f.at[action], now); err != nil {
			return nil, false, err
		}
	}
	if f.rebalance {
		next.Rebalance = now.UTC().Truncate(time.Second)
	}
	switch {
	case actions > 1 || f.clear && (actions > 0 || f.rebalance):
		return nil, false, cli.Usagef("give one of --terminate-at, --stop-at and --hibernate-at, or only --clear")
	case f.clear:
		return nil, true, nil
	}
	return &next, actions > 0 || f.rebalance, nil
}

func spotPairs(a *cli.App, s *seedbed.Spot) [][2]string {
	if s == nil {
		return nil
	}
	return [][2]string{{"action", s.Action}, {"time", a.Moment(s.Time)}, {"rebalance", a.Moment(s.Rebalance)}}
}

// spotLine returns a notice on one line.
func spotLine(a *cli.App, s *seedbed.Spot) string {
	if s == nil {
		return ""
	}
	var said []string
	if s.Action != "" {
		said = append(said, s.Action+" at "+a.Moment(s.Time))
	}
	if !s.Rebalance.IsZero() {
		said = append(said, "rebalance since "+a.Moment(s.Rebalance))
	}
	return strings.Join(said, "; ")
}
