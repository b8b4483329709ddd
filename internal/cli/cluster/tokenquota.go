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

// quotaFlags are the flags of a token's quota, whose fields have that prefix.
func quotaFlags(prefix string) []cli.Flag {
	return []cli.Flag{
		{Field: prefix + "max_instances", Usage: "at most `N` live instances created with it; 0: no limit"},
		{Field: prefix + "max_vcpus", Usage: "at most `N` virtual CPUs of these instances together; 0: no limit"},
		{Field: prefix + "max_memory", Usage: "at most this `SIZE` of memory of these instances together; 0: no limit"},
		{Field: prefix + "max_disk", Usage: "at most this `SIZE` of their disks together; 0: no limit"},
	}
}

func tokenQuota(a *cli.App) *cobra.Command {
	var (
		q seedbed.TokenQuota
		f *cli.Bound
	)
	c := &cobra.Command{
		Use: "quota NAME", Short: "Set resource limits for a token",
		Long: `Set resource limits for all live instances created with a token. Limits you omit are
removed. Existing instances are not affected.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if err := f.Read(); err != nil {
				return err
			}
			t, err := api.SetTokenQuota(ctx, args[0], q)
			if err != nil {
				return err
			}
			return a.Tell(t, "token %s: %s", t.Name, cmp.Or(quotaLine(t.Quota), "no limits"))
		}),
	}
	f = cli.Bind(a, c, &q, quotaFlags("")...)
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
