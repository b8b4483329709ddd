package cli

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
)

func (a *App) ScriptCommand() *cobra.Command {
	c := Group(&cobra.Command{
		Use: "script", Short: "Provisioning scripts",
		Long: `Provisioning scripts, in Python as PVC has them. "empty" is always there.`,
	})
	d := &documents[client.Script]{
		a: a, label: "provisioning script", plural: "scripts", suffix: ".py",
		add: (*client.Client).AddScript, change: (*client.Client).ChangeScript, remove: removing((*client.Client).RemoveScript),
		one: (*client.Client).Script, all: (*client.Client).Scripts,
		of: func(s client.Script) document { return document(s) },
	}
	d.addTo(c)
	c.AddCommand(a.scriptCheck(), a.scriptOptions())
	return c
}
