package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

// quotaFlags bound what the instances of a token may have.
type quotaFlags struct{ seedbed.TokenQuota }

func (q *quotaFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.Int64Var(&q.Instances, "max-instances", 0, "so `many` live instances may be of its making; 0 is any number")
	f.Int64Var(&q.VCPUs, "max-vcpus", 0, "these may have so `many` virtual CPUs together; 0 is any number")
	f.Var(cli.NewSize(&q.Memory), "max-memory", "these may have so much memory together; 0 is any")
	f.Var(cli.NewSize(&q.Disk), "max-disk", "their disks may have that size together; 0 is any")
}

func tokenQuota(a *cli.App) *cobra.Command {
	var q quotaFlags
	c := &cobra.Command{
		Use: "quota NAME", Short: "Bound what the instances of a token may have", Args: cobra.ExactArgs(1),
		Long: `Bound what the live instances that a token made may have together. What is not
said is without bound from then on. Instances that there are stay.`,
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			t, err := api.SetTokenQuota(ctx, args[0], q.TokenQuota)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(t)
			}
			said := quotaLine(t.Quota)
			if said == "" {
				said = "without bound"
			}
			a.Say("token %s: %s", t.Name, said)
			return nil
		}),
	}
	q.add(c)
	return c
}

// quotaLine is a quota on one line; empty for none.
func quotaLine(q seedbed.TokenQuota) string {
	var all []string
	if q.Instances > 0 {
		all = append(all, fmt.Sprintf("%d instances", q.Instances))
	}
	if q.VCPUs > 0 {
		all = append(all, fmt.Sprintf("%d vcpus", q.VCPUs))
	}
	if q.Memory > 0 {
		all = append(all, "memory "+q.Memory.String())
	}
	if q.Disk > 0 {
		all = append(all, "disk "+q.Disk.String())
	}
	return strings.Join(all, ", ")
}
