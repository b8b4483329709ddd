package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// provisionerCmd has the tree of PVC's "pvc provisioner", with its options.
func (a *App) provisionerCmd() *cobra.Command {
	c := group(&cobra.Command{
		Use: "provisioner", Aliases: []string{"prov"}, Short: "Templates, userdata, scripts and profiles as PVC has them",
		Long: `What machines are composed of, as in the provisioner of the Parallel Virtual
Cluster: the commands and options are those of "pvc provisioner". A profile puts a
system, a network and a storage template, a userdata document and a script
together. What is made of one is an instance as any other (seedbed vm list).

A list takes a LIMIT: text that is anywhere in the name, at its start after ^, at
its end before $. A change prints what the server says of it.`,
		Example: `  seedbed provisioner template system add small -u 2 -m 1024 -s
  seedbed provisioner template network add lan -m '{prefix}:00:{vmid}0:{netid}0'
  seedbed provisioner template network vni add lan default
  seedbed provisioner template storage add root
  seedbed provisioner template storage disk add root sda -p default -i debian-13
  seedbed provisioner userdata add cloud cloud.yaml
  seedbed provisioner profile add web -s small -n lan -t root -u cloud -x empty
  seedbed provisioner create web1 web`,
	})
	c.AddCommand(a.templateCmd(), a.userdataCmd(), a.scriptCmd(), a.ovaCmd(), a.composedProfileCmd(), a.composeCmd())
	return c
}

// asking is a call of the API that changes something; it gives what the server says of it.
type asking func(ctx context.Context, api *client.Client, args []string) (string, error)

// told is what a command does that asks for one change.
func (a *App) told(ask asking) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		api, err := a.client()
		if err != nil {
			return err
		}
		msg, err := ask(ctx, api, args)
		if err != nil {
			return err
		}
		return a.tellMessage(msg)
	})
}

func (a *App) tellMessage(msg string) error {
	if a.json() {
		return a.printJSON(map[string]string{"message": msg})
	}
	a.say("%s", oneLine(msg))
	return nil
}

// removal is a command that removes what its arguments name, once that is
// confirmed; question asks with the arguments in their order.
func (a *App) removal(use, short, question string, ask asking, names ...nameLister) *cobra.Command {
	return a.asked(question, &cobra.Command{
		Use: use, Aliases: []string{"rm"}, Short: short, Args: cobra.ExactArgs(len(names)),
		RunE:              a.told(ask),
		ValidArgsFunction: a.completion(names...),
	})
}

// agree asks whether something is to be removed.
func (a *App) agree(yes bool, question string, args []string) error {
	if yes {
		return nil
	}
	quoted := make([]any, len(args))
	for i, arg := range args {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	what := fmt.Sprintf(question, quoted...)
	if !a.Terminal {
		return usagef("%s: give -y to say that it may go", strings.ToLower(what[:1])+what[1:])
	}
	fmt.Fprintf(a.Err, "%s? [y/N] ", what)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("nothing was removed")
	}
	return nil
}

// matchingCmd is a command that lists the objects of one kind.
func matchingCmd[T any](a *App, kind, none string, all func(*client.Client, context.Context, string) ([]T, error), head []string, row func(T) []string) *cobra.Command {
	return &cobra.Command{
		Use: "list [LIMIT]", Aliases: []string{"ls"}, Short: "List " + kind, Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			limit := ""
			if len(args) > 0 {
				limit = args[0]
				none = "no " + kind + " with that name"
			}
			matching := func(api *client.Client, ctx context.Context) ([]T, error) { return all(api, ctx, limit) }
			return list(ctx, a, matching, none, head, row)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// oneOf is a pflag.Value that is one of some words, in whatever case.
type oneOf struct {
	value *string
	words []string
}

func (o oneOf) String() string {
	if o.value == nil { // pflag asks the zero value for its default
		return ""
	}
	return *o.value
}

func (o oneOf) Type() string { return "word" }

func (o oneOf) Set(s string) error {
	for _, w := range o.words {
		if strings.EqualFold(s, w) {
			*o.value = w
			return nil
		}
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "want one of %s", strings.Join(o.words, ", "))
}

// addChoice adds a flag that is one of some words, which its usage then names.
func addChoice(c *cobra.Command, value *string, name, short, usage string, words ...string) {
	c.Flags().VarP(oneOf{value, words}, name, short, usage+": "+strings.Join(words, ", "))
	// The flag exists: it was added above.
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// switchFlag is a flag that has an opposite, as PVC's --serial and --no-serial.
type switchFlag struct{ on, off bool }

func (s *switchFlag) add(c *cobra.Command, name, short, offShort, usage string, byDefault bool) {
	s.on = byDefault
	f := c.Flags()
	f.BoolVarP(&s.on, name, short, byDefault, usage)
	f.BoolVarP(&s.off, "no-"+name, offShort, false, "the opposite of --"+name)
	c.MarkFlagsMutuallyExclusive(name, "no-"+name)
}

func (s *switchFlag) wanted() bool { return s.on && !s.off }

// said is the switch where one of the two flags was given, else nil.
func (s *switchFlag) said(c *cobra.Command, name string) *bool {
	if !c.Flags().Changed(name) && !c.Flags().Changed("no-"+name) {
		return nil
	}
	return new(s.wanted())
}

// given is the value of a flag that was given, else nil.
func given[T any](c *cobra.Command, name string, value T) *T {
	if !c.Flags().Changed(name) {
		return nil
	}
	return &value
}

// orDash shows what may be null.
func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}
