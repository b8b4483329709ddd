package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

// quotaFlags are the flags of a token's quota.
type quotaFlags struct{ seedbed.TokenQuota }

func (q *quotaFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.Int64Var(&q.Instances, "max-instances", 0, "at most `N` live instances created with it; 0: no limit")
	f.Int64Var(&q.VCPUs, "max-vcpus", 0, "at most `N` virtual CPUs of these instances together; 0: no limit")
	f.Var(cli.NewSize(&q.Memory), "max-memory", "at most this much memory of these instances together; 0: no limit")
	f.Var(cli.NewSize(&q.Disk), "max-disk", "at most this size of their disks together; 0: no limit")
}

func tokenQuota(a *cli.App) *cobra.Command {
	var q quotaFlags
	c := &cobra.Command{
		Use: "quota NAME", Short: "Set resource limits for a token", Args: cobra.ExactArgs(1),
		Long: `Set resource limits for all live instances created with a token. Limits you omit are
removed. Existing instances are not affected.`,
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
				said = "no limits"
			}
			a.Say("token %s: %s", t.Name, said)
			return nil
		}),
	}
	q.add(c)
	return c
}

// quotaLine returns a quota on one line, or an empty string for no quota.
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
