package instance

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// vmProtect protects an instance, or takes the protection away.
func vmProtect(a *cli.App, on bool) *cobra.Command {
	c := &cobra.Command{
		Use: "protect NAME", Short: "Have removing and rebuilding an instance take its name once more", Args: cobra.ExactArgs(1),
		Long: `Have removing and rebuilding an instance take its name once more. No webhook may do
either, and the cleanup leaves it alone.`,
	}
	done := "%s is protected"
	if !on {
		c.Use, c.Short, c.Long, done = "unprotect NAME", "Take the protection of an instance away", "", "%s is protected no more"
	}
	c.RunE = a.Do(func(ctx context.Context, args []string) error {
		i, err := changed(ctx, a, args[0], true, client.InstanceChange{Protected: &on})
		if err != nil {
			return err
		}
		if a.JSON() {
			return a.PrintJSON(i)
		}
		a.Say(done, i.Name)
		return nil
	})
	return c
}

// askName asks whether the instance may be removed or rebuilt: its disks go with
// that. For one that is protected it asks for the name, which it gives back.
func askName(ctx context.Context, a *cli.App, api *client.Client, name, what string) (string, error) {
	if !a.Terminal {
		return "", cli.Usagef("to %s %s destroys its disks: give -y to say so", what, name)
	}
	i, err := api.Instance(ctx, name)
	if err != nil {
		return "", err
	}
	if i.Protected {
		fmt.Fprintf(a.Err, "%s (%s) is protected, and %d disk(s) go for good. To %s it, type its name: ", i.Name, i.State, len(i.Volumes), what)
	} else {
		fmt.Fprintf(a.Err, "Really %s %s (%s), with %d disk(s) that go for good? [y/N] ", what, i.Name, i.State, len(i.Volumes))
	}
	line, err := bufio.NewReader(a.In).ReadString('\n')
	answer := strings.TrimSpace(line)
	switch {
	case err != nil:
	case i.Protected && answer == i.Name:
		return answer, nil
	case !i.Protected && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")):
		return "", nil
	}
	return "", seedbed.Errorf(seedbed.ErrConflict, "%s was left as it is", name)
}
