package instance

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// vmProtect returns the command that protects an instance, or removes the protection.
func vmProtect(a *cli.App, on bool) *cobra.Command {
	c := &cobra.Command{
		Use: "protect NAME...", Short: "Require the name to be typed again before remove or rebuild",
		Long: `Require the name to be typed again before remove or rebuild. Webhooks can do neither,
and the cleanup skips the instance.`,
	}
	done := "%s is protected"
	if !on {
		c.Use, c.Short, c.Long, done = "unprotect NAME...", "Remove the protection of instances", "", "%s is no longer protected"
	}
	var sel selection
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		names, err := sel.names(ctx, a, api, args)
		if err != nil {
			return err
		}
		return cli.ForEach(names, func(name string) error {
			i, err := api.ChangeInstance(ctx, name, wire.InstanceChange{Protected: &on})
			return a.Tell(err, i, done, i.Name)
		})
	})
	sel.add(a, c)
	return c
}

// askName asks for confirmation to remove or rebuild the instance, which deletes its disks. For a
// protected instance it asks for the name, and returns it.
func askName(ctx context.Context, a *cli.App, api *client.Client, name, what string) (string, error) {
	i, err := api.Instance(ctx, name)
	if err != nil {
		return "", err
	}
	if !a.Terminal {
		doing := map[string]string{"remove": "removing", "rebuild": "rebuilding"}[what]
		return "", cli.Usagef("%s %s destroys its disks: add -y (--yes) to confirm", doing, name)
	}
	lost := disks(len(i.Volumes))
	if !i.Protected {
		if a.Agreed(fmt.Sprintf("%s %s (%s) and permanently delete its %s?", strings.ToUpper(what[:1])+what[1:], i.Name, i.State, lost)) {
			return "", nil
		}
	} else {
		answer, err := a.Answer(fmt.Sprintf("%s (%s) is protected: its %s will be permanently deleted. To %s it, type its name: ",
			i.Name, i.State, lost, what))
		if err == nil && answer == i.Name {
			return answer, nil
		}
	}
	return "", seedbed.Errorf(seedbed.ErrConflict, "%s was not changed", name)
}

// askAll asks for confirmation to remove several instances.
func askAll(a *cli.App, names []string) error {
	if !a.Terminal {
		return cli.Usagef("removing %d instances destroys their disks: add -y (--yes) to confirm", len(names))
	}
	if !a.Agreed(fmt.Sprintf("Remove %s and permanently delete their disks?", strings.Join(names, ", "))) {
		return seedbed.Errorf(seedbed.ErrConflict, "nothing was removed")
	}
	return nil
}

// disks returns n disks in words.
func disks(n int) string {
	if n == 1 {
		return "1 disk"
	}
	return fmt.Sprintf("%d disks", n)
}
