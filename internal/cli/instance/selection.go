package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// selection says for which instances a command is: for those that its arguments name, or for those
// that --all or --tag select.
type selection struct {
	all  bool
	tags []string
	// in are the states of the instances that --all and --tag select; without any, they are in every
	// state.
	in []seedbed.InstanceState
	// risk is what is confirmed before the command is carried out for what --all and --tag select. If
	// it is empty there is no question, and no --yes.
	risk risk
	yes  bool
}

// add adds the flags to c, whose arguments are names.
func (s *selection) add(a *cli.App, c *cobra.Command) {
	of := "all instances"
	if len(s.in) > 0 {
		of = "all that are " + strings.Join(cli.Each(s.in, func(state seedbed.InstanceState) string { return string(state) }), " or ")
	}
	c.Flags().BoolVar(&s.all, "all", false, of)
	addTags(a, c, &s.tags, of+", with this tag, as `KEY=VALUE` or KEY (repeatable)")
	c.MarkFlagsMutuallyExclusive("all", "tag")
	if s.risk != (risk{}) {
		c.Flags().BoolVarP(&s.yes, "yes", "y", false, "do not ask for confirmation of --all or --tag")
	}
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case s.given() && len(args) > 0:
			return cli.Usagef("%s: give names, or --all, or --tag", c.CommandPath())
		case !s.given() && len(args) == 0:
			return fmt.Errorf("the name is missing: give one or more, or --all, or --tag")
		}
		return nil
	}
	names := a.Completion(cli.Instances)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return names(c, nil, begun) // each of several
	}
}

func addTags(a *cli.App, c *cobra.Command, tags *[]string, usage string) {
	c.Flags().StringArrayVar(tags, "tag", nil, usage)
	a.CompleteFlag(c, "tag", a.FlagCompletion(tagsOf))
}

// tagsOf lists the tags of all instances, as KEY=VALUE.
func tagsOf(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Instances(ctx)
	var tags []string
	for _, i := range all {
		for _, p := range flags.TagPairs(i.Tags) {
			tags = append(tags, p[0]+"="+p[1])
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), err
}

func (s *selection) given() bool { return s.all || len(s.tags) > 0 }

// names returns the names of the instances, each once.
func (s *selection) names(ctx context.Context, a *cli.App, api *client.Client, args []string) ([]string, error) {
	if !s.given() {
		var names []string
		seen := map[string]bool{}
		for _, name := range args {
			if !seen[name] {
				names = append(names, name)
			}
			seen[name] = true
		}
		return names, nil
	}
	all, err := api.ListInstances(ctx, seedbed.InstanceQuery{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range all {
		if s.has(i) && tagged(i, s.tags) {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		a.Say("no matching instances")
	}
	return names, nil
}

// agreed is like names, and asks for confirmation of what --all and --tag select.
func (s *selection) agreed(ctx context.Context, a *cli.App, api *client.Client, args []string) ([]string, error) {
	names, err := s.names(ctx, a, api, args)
	if err == nil && len(names) > 0 && s.given() && s.risk != (risk{}) && !s.yes {
		err = askAll(a, s.risk, names)
	}
	return names, err
}

func (s *selection) has(i seedbed.Instance) bool {
	for _, state := range s.in {
		if i.State == state {
			return true
		}
	}
	return len(s.in) == 0
}

// tagged reports whether an instance has all of some tags, each given as KEY=VALUE or only KEY.
func tagged(i seedbed.Instance, tags []string) bool {
	for _, tag := range tags {
		key, value, exact := strings.Cut(tag, "=")
		if has, ok := i.Tags[key]; !ok || exact && has != value {
			return false
		}
	}
	return true
}

// jobs returns a command that starts a job for each selected instance and follows them.
func (s *selection) jobs(
	a *cli.App, use, short string, begin func(*client.Client, context.Context, string) (seedbed.Receipt, error),
) *cobra.Command {
	var w cli.WaitFlags
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			names, err := s.agreed(ctx, a, api, args)
			if err != nil {
				return err
			}
			return a.FinishEach(ctx, api, &w, names, s.given(), func(name string) (seedbed.Receipt, error) { return begin(api, ctx, name) })
		}),
	}
	w.AddJob(a, c)
	s.add(a, c)
	return c
}
