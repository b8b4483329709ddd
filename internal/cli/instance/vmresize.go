package instance

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

func vmResize(a *cli.App) *cobra.Command {
	var (
		req          seedbed.ResizeRequest
		size, memory string
		dry          bool
		w            cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "resize NAME", Short: "Make an instance's disk larger, or change its vcpus and memory", Args: cobra.ExactArgs(1),
		Long: `Make a disk of an instance larger, or change its vcpus and memory.

A disk grows while the guest runs, which sees it at once; its partitions and file
systems are the guest's to grow, as cloud-init does at the next boot. No disk gets
smaller. Vcpus and memory change while the instance is stopped. Once the disk has
begun to grow there is no way back.`,
		Example: "  seedbed vm resize web1 --size 40GiB\n  seedbed vm resize db1 --disk 1 --size 2TiB\n  seedbed vm resize web1 --vcpus 4 --memory 8GiB",
		RunE: a.Do(func(ctx context.Context, args []string) (err error) {
			for text, into := range map[*string]*seedbed.Bytes{&size: &req.Size, &memory: &req.Memory} {
				if *text == "" {
					continue
				}
				if *into, err = seedbed.ParseBytes(*text); err != nil {
					return err
				}
			}
			api, err := a.Client()
			if err != nil {
				return err
			}
			if dry {
				p, err := api.PlanResize(ctx, args[0], req)
				if err != nil {
					return err
				}
				return a.ShowPlan(p)
			}
			receipt, err := api.ResizeInstance(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.Finish(ctx, api, receipt, &w)
		}),
	}
	f := c.Flags()
	f.StringVar(&req.Disk, "disk", "", "the `DISK` that grows, by its number from 0 or its volume's name (default: the only one)")
	f.StringVar(&size, "size", "", "the `SIZE` that it has from then on, such as 40GiB")
	f.IntVar(&req.VCPUs, "vcpus", 0, "how `many` virtual CPUs it has from then on")
	f.StringVar(&memory, "memory", "", "how `much` memory, such as 4GiB")
	f.BoolVar(&dry, "dry-run", false, "tell what it would be and what is in its way, and do nothing")
	c.MarkFlagsOneRequired("size", "vcpus", "memory")
	w.AddJob(a, c)
	return c
}
