package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// completionTime is how long a shell waits for names from the API.
const completionTime = 2 * time.Second

// completed is the largest number of names to complete from long lists.
const completed = 200

// NameLister returns the possible values of an argument. args are the arguments before it, and
// begun is the text typed so far. It may also return names that do not begin with that text.
type NameLister func(ctx context.Context, api *client.Client, args []string, begun string) ([]string, error)

// Files is the lister for file arguments. The shell completes them.
var Files NameLister

// NoNames is the lister for the name of a new object.
func NoNames(context.Context, *client.Client, []string, string) ([]string, error) { return nil, nil }

// Completion completes each argument with its lister. It hides errors of the API: the command
// itself will report them.
func (a *App) Completion(each ...NameLister) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		lister := each[len(args)]
		if lister == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		api, err := a.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		all, err := lister(ctx, api, args, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all = slices.DeleteFunc(all, func(name string) bool {
			return !strings.HasPrefix(name, begun) && !strings.HasPrefix(seedbed.ShortName(name), begun) || Printable(name) != name
		})
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// FlagCompletion completes the value of a flag.
func (a *App) FlagCompletion(lister NameLister) cobra.CompletionFunc {
	complete := a.Completion(lister)
	return func(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(c, nil, begun)
	}
}

// Each returns what of returns for each element of all.
func Each[T, R any](all []T, of func(T) R) []R {
	each := make([]R, len(all))
	for i, v := range all {
		each[i] = of(v)
	}
	return each
}

// completeNames completes the first argument of every command without a completion of its own. It
// chooses the lister by the argument's name and the command.
func (a *App) completeNames(root *cobra.Command) {
	named := map[string]NameLister{
		"vm": Instances, "profile": Profiles, "image": Images, "hook": Hooks, "network": Networks, "endpoint": endpoints, "job": jobs,
		"token": tokens, "volume": Volumes, "project": projects, "role": Roles,
	}
	for _, group := range root.Commands() {
		if group.Name() != "provisioner" {
			a.completeBelow(group, named[group.Name()])
		}
	}
	if !a.completes {
		return
	}
	for name, lister := range map[string]NameLister{"profile": Profiles, "image": Images, "network": Networks, "node": Nodes, "hook": Hooks} {
		for _, c := range CommandsOf(root) {
			a.CompleteFlag(c, name, a.FlagCompletion(lister))
		}
	}
	for _, c := range CommandsOf(root) {
		if strings.HasPrefix(c.CommandPath(), root.Name()+" token ") {
			a.CompleteFlag(c, "role", a.FlagCompletion(Roles))
		}
	}
	a.CompleteFlag(root, "connection", a.connectionNames)
	a.CompleteFlag(root, "project", a.FlagCompletion(projects))
	a.CompleteFlag(root, "format", fixed(formats))
	a.CompleteFlag(root, "output", fixed(formats))
}

func (a *App) completeBelow(group *cobra.Command, named NameLister) {
	for _, c := range CommandsOf(group) {
		words := strings.Fields(c.Use)
		if c.ValidArgsFunction != nil || len(words) < 2 {
			continue
		}
		words[1] = strings.Trim(words[1], "[].")
		var lister NameLister
		switch {
		case words[1] == "VM":
			lister = Instances
		case words[1] == "HOOK":
			lister = Hooks
		case c.Name() == "add" || c.Name() == "create":
			continue // its name is new, and the next argument may be a file
		case words[1] == "NODE":
			lister = Nodes
		case c.Parent() == group && (words[1] == "NAME" || words[1] == "ID"):
			lister = named
		}
		if lister != nil {
			c.ValidArgsFunction = a.Completion(lister)
		}
	}
}

// CompleteFlag completes the value of a flag, if c has it. The first completion of a flag stays. Cobra keeps completions, and the
// commands that they are of, as long as the process lives. So there are none unless the shell asks for one.
func (a *App) CompleteFlag(c *cobra.Command, name string, f cobra.CompletionFunc) {
	if a.completes && c.Flag(name) != nil {
		_ = c.RegisterFlagCompletionFunc(name, f) // the error is that there is one
	}
}

// fixed completes one of some words.
func fixed(words []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// CommandsOf returns a command and all its subcommands, at every depth.
func CommandsOf(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, CommandsOf(sub)...)
	}
	return all
}
