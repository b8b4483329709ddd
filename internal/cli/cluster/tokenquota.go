package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
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
		Use: "quota NAME", Short: "Set resource limits for a token",
		Long: `Set resource limits for all live instances created with a token. Limits you omit are
removed. Existing instances are not affected.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			t, err := api.SetTokenQuota(ctx, args[0], q.TokenQuota)
			if err != nil {
				return err
			}
			return a.Tell(t, "token %s: %s", t.Name, cmp.Or(quotaLine(t.Quota), "no limits"))
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
