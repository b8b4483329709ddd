package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmResize(a *cli.App) *cobra.Command {
	var (
		req seedbed.ResizeRequest
		dry bool
		w   cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "resize NAME", Short: "Grow an instance's disk, or change its vcpus and memory",
		Long: `Grow a disk of an instance, or change its vcpus and memory.

A disk grows while the guest runs, which sees it at once; its partitions and file
systems must be grown by the guest, as cloud-init does at the next boot. A disk cannot
shrink. VCPUs and memory can only change while the instance is stopped. Once the disk
has begun to grow, the job cannot be rolled back.`,
		Example: `  seedbed vm resize web1 --size 40GiB
  seedbed vm resize db1 --disk 1 --size 2TiB
  seedbed vm resize web1 --vcpus 4 --memory 8GiB`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if req == (seedbed.ResizeRequest{Disk: req.Disk}) {
				return cli.Usagef("resize %s: the new size is missing: give --size SIZE, --vcpus N or --memory SIZE", args[0])
			}
			if dry {
				return a.ShowPlan(api.PlanResize(ctx, args[0], req))
			}
			receipt, err := api.ResizeInstance(ctx, args[0], req)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &req,
		cli.Flag{Field: "disk", Usage: "`DISK` to grow, as a number from 0 or its volume's name (default: the only one)"},
		cli.Flag{Field: "size", Usage: "new `SIZE` of the disk, such as 40GiB", Parse: size},
		cli.Flag{Field: "vcpus", Usage: "new number of virtual CPUs, as `N`"},
		cli.Flag{Field: "memory", Usage: "new memory `SIZE`, such as 4GiB", Parse: size},
	)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change and what prevents it")
	w.AddJob(a, c)
	return c
}

func size(text string) (any, error) { return seedbed.ParseBytes(text) }
