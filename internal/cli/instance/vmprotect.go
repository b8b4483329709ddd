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
		Use: "protect NAME...", Short: "Require the name to be typed again before remove, rebuild or snapshot restore",
		Long: `Require the name to be typed again before remove, rebuild or snapshot restore. Webhooks
can do none of them, and the cleanup skips the instance.`,
	}
	done := "%s is protected"
	if !on {
		c.Use, c.Short, done = "unprotect NAME...", "Remove the protection of instances", "%s is no longer protected"
		c.Long = "Remove the protection of instances. With --all or --tag it asks for confirmation."
	}
	var sel selection
	if !on {
		sel.risk = risk{"unprotect", "unprotecting", "allows removal, rebuild and restore"}
	}
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		names, err := sel.agreed(ctx, a, api, args)
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

// askName asks for confirmation to remove or rebuild the instance, which deletes its disks, unless a removal keeps them. For a
// protected instance it asks for the name, and returns it.
func askName(ctx context.Context, a *cli.App, api *client.Client, name, what string, keep bool) (string, error) {
	i, err := api.Instance(ctx, name)
	if err != nil {
		return "", err
	}
	gone := ""
	if what == "remove" {
		gone = goesWith(i)
	}
	doing := map[string]string{"remove": "removing", "rebuild": "rebuilding"}[what]
	return stakes{risk{what, doing, destroys("its", keep, gone)}, andDelete(i, keep, gone), fate(i, keep, gone)}.agreed(a, i)
}

// stakes are what a command does to an instance that is to be confirmed, by the name of a protected one.
type stakes struct {
	risk
	asks, fate string // the end of the question, and what is said of a protected instance
}

// agreed asks, and returns the name of a protected instance.
func (s stakes) agreed(a *cli.App, i seedbed.Instance) (string, error) {
	if !a.Terminal {
		return "", cli.Usagef("%s %s %s: add -y (--yes) to confirm", s.doing, i.Name, s.effect)
	}
	if !i.Protected {
		if a.Agreed(fmt.Sprintf("%s %s (%s)%s?", strings.ToUpper(s.verb[:1])+s.verb[1:], i.Name, i.State, s.asks)) {
			return "", nil
		}
	} else {
		answer, err := a.Answer(fmt.Sprintf("%s (%s) is protected: %s. To %s it, type its name: ", i.Name, i.State, s.fate, s.verb))
		if err == nil && answer == i.Name {
			return answer, nil
		}
	}
	return "", seedbed.Errorf(seedbed.ErrConflict, "%s was not changed", i.Name)
}

// goesWith returns, in words, the attached volumes that are removed with their instances; empty without any.
func goesWith(all ...seedbed.Instance) string {
	var names []string
	for _, i := range all {
		for _, v := range i.Attached {
			if !v.Keep {
				names = append(names, v.Name)
			}
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "the volume " + names[0] + ", which was attached with --keep=false"
	}
	return "the volumes " + strings.Join(names, ", ") + ", which were attached with --keep=false"
}

// destroys returns what a removal does to disks, which are "its" or "their", and to the volumes gone.
func destroys(whose string, keep bool, gone string) string {
	if keep {
		return "makes " + whose + " disks volumes" + cli.When(gone != "", " and destroys "+gone)
	}
	return "destroys " + whose + " disks" + cli.When(gone != "", " and "+gone)
}

// andDelete returns the end of the question whether to do that to an instance.
func andDelete(i seedbed.Instance, keep bool, gone string) string {
	if keep {
		return ", whose " + become(i) + cli.When(gone != "", ", and permanently delete "+gone)
	}
	return " and permanently delete its " + disks(len(i.Volumes)) + cli.When(gone != "", " and "+gone)
}

// fate says what becomes of the disks of an instance.
func fate(i seedbed.Instance, keep bool, gone string) string {
	if keep {
		return "its " + become(i) + cli.When(gone != "", ", and "+gone+", will be permanently deleted")
	}
	return "its " + disks(len(i.Volumes)) + cli.When(gone != "", " and "+gone+",") + " will be permanently deleted"
}

// become says that the disks of an instance become volumes.
func become(i seedbed.Instance) string {
	if len(i.Volumes) == 1 {
		return "1 disk becomes a volume"
	}
	return disks(len(i.Volumes)) + " become volumes"
}

// askRemoval asks for confirmation to remove several instances.
func askRemoval(ctx context.Context, a *cli.App, api *client.Client, names []string, keep bool) error {
	all := make([]seedbed.Instance, len(names))
	for n, name := range names {
		var err error
		if all[n], err = api.Instance(ctx, name); err != nil {
			return err
		}
	}
	return askAll(a, risk{"remove", "removing", destroys("their", keep, goesWith(all...))}, names)
}

// risk is what a command does that is to be confirmed.
type risk struct {
	verb, doing string // such as "stop" and "stopping"
	effect      string // such as "interrupts running guests"
}

// askAll asks for confirmation to do something to several instances.
func askAll(a *cli.App, r risk, names []string) error {
	if !a.Terminal {
		some := "1 instance"
		if len(names) > 1 {
			some = fmt.Sprintf("%d instances", len(names))
		}
		return cli.Usagef("%s %s %s: add -y (--yes) to confirm", r.doing, some, r.effect)
	}
	if !a.Agreed(fmt.Sprintf("%s %s? This %s.", strings.ToUpper(r.verb[:1])+r.verb[1:], strings.Join(names, ", "), r.effect)) {
		return seedbed.Errorf(seedbed.ErrConflict, "no instance was changed")
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
