package cli

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
)

func (a *App) vmMaintenance() *cobra.Command {
	return a.MaintenanceCommand("VM", "an instance", (*client.Client).Announce, (*client.Client).Maintenance)
}
