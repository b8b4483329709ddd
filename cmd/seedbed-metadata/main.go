// Command seedbed-metadata is the guest plane of one node. It creates the bridges and filters,
// answers DHCP and DNS, and serves each guest its own metadata. It needs CAP_NET_ADMIN, CAP_NET_RAW and
// CAP_NET_BIND_SERVICE, and links no C code.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"seedbed/guestplane"
	"seedbed/internal/config"
	"seedbed/internal/run"
)

func main() {
	var cleanup, force bool
	os.Exit(run.Program{
		Name:    "seedbed-metadata",
		Summary: "Seedbed's guest plane on a node: metadata, DHCP, DNS, bridges, filters",
		Flags: func(f *flag.FlagSet) {
			f.BoolVar(&cleanup, "cleanup", false,
				"remove bridges, addresses and filters, and exit; stop seedbed-metadata first; refused while something is attached")
			f.BoolVar(&force, "force", false, "with -cleanup: remove them even if something is attached; still refused while seedbed-metadata runs")
		},
		Run: func(ctx context.Context, c config.Config, log *slog.Logger) error {
			if cleanup {
				return guestplane.TakeDown(ctx, c.Metadata.Health, log, force)
			}
			return serve(ctx, c, log)
		},
	}.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
