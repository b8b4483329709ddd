package profile

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

// ScriptCommand returns the command script with its subcommands.
func ScriptCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "script", Short: "Manage provisioning scripts",
		Long: `Manage provisioning scripts, in Python as in PVC. The script "empty" always exists.`,
	})
	d := &documents[client.Script]{
		a: a, label: "provisioning script", plural: "scripts", suffix: ".py",
		add: (*client.Client).AddScript, change: (*client.Client).ChangeScript, remove: removing((*client.Client).RemoveScript),
		one: (*client.Client).Script, all: (*client.Client).Scripts,
		of: func(s client.Script) document { return document(s) },
	}
	d.addTo(c)
	c.AddCommand(scriptCheck(a), scriptOptions(a))
	return c
}
