package storage

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func imageRemove(a *cli.App) *cobra.Command {
	c := a.JobAction("remove NAME", "Remove an unused image",
		func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
			return api.RemoveImage(ctx, args[0])
		})
	c.Aliases = []string{"rm"}
	c.Long = `Remove an image, or what is left of an import that could not be rolled back. It is
refused while profiles name the image or disks are clones of it: remove them first,
or make the instances' disks independent (seedbed vm flatten).`
	return a.Confirmed("Remove image %s", c)
}
