package instance

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmMaintenance(a *cli.App) *cobra.Command {
	return a.MaintenanceCommand("VM", "an instance", (*client.Client).Announce, (*client.Client).Maintenance)
}
