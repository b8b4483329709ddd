package cli

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
)

func (a *App) vmMaintenance() *cobra.Command {
	return a.maintenanceCmd("VM", "an instance", (*client.Client).Announce, (*client.Client).Maintenance)
}
