package storage

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// OVACommand returns the command ova with its subcommands.
func OVACommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "ova", Short: "OVA images"})
	c.AddCommand(
		ovaUpload(a),
		a.Removal("remove NAME", "Remove an OVA image", "Remove OVA image %s",
			func(ctx context.Context, api *client.Client, args []string) (string, error) {
				receipt, err := api.RemoveOVA(ctx, args[0])
				return cli.Done(a.Await(ctx, api, receipt, err), "Removed OVA image %q.", args[0])
			}, cli.OVAs),
		ovaList(a),
	)
	return c
}

func ovaUpload(a *cli.App) *cobra.Command {
	var (
		pool string
		dry  bool
	)
	c := &cobra.Command{
		Use: "upload NAME FILE --pool POOL", Short: "Upload an OVA file",
		Long: `Upload an OVA: each of its disks becomes an image, and a system template and a profile
of that name are created (use them with seedbed provisioner create). The profile uses
the provisioning script named ova or default_ova, which must exist and may be empty.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			f, size, err := openUpload(args[1])
			if err != nil {
				return err
			}
			defer f.Close()
			if dry {
				return tellImport(ctx, a, api, seedbed.ImportRequest{Name: args[0], OVA: true, Pool: pool, Size: size})
			}
			bar := newUploadBar(a, f, size)
			receipt, err := api.UploadOVA(ctx, args[0], pool, bar, size)
			bar.end()
			return a.TellMessage(cli.Done(a.Await(ctx, api, receipt, err), "Imported OVA image '%s'.", args[0]))
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, cli.Files),
	}
	c.Flags().StringVarP(&pool, "pool", "p", "", "storage `POOL` of its disks")
	dryFlag(c, &dry)
	_ = c.MarkFlagRequired("pool") // the flag was added above
	return c
}

func ovaList(a *cli.App) *cobra.Command {
	return cli.Resource[wire.OVA]{
		Some:    cli.Matching((*client.Client).OVAs),
		Project: func(o wire.OVA) string { return seedbed.ProjectOf(o.Name) }, None: "no OVA images", Unmatched: "no OVA images with that name",
		Head: []string{"name", "id", "published", "disk", "size", "pool", "volume", "format"},
		Row: func(o wire.OVA) []string {
			var volumes [][]string
			for _, v := range o.Volumes {
				volumes = append(volumes, []string{v.Disk, v.Size.Human(), v.Pool, v.Image, v.Format})
			}
			return cli.Stacked([]string{o.Name, cli.Number(int(o.ID)), cli.PublishedTo(o.Published)}, 5, volumes)
		},
	}.List(a, "list [LIMIT]", "List OVA images")
}
