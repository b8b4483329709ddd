package profile

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// ScriptCommand returns the command script with its subcommands.
func ScriptCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "script", Short: "Manage provisioning scripts",
		Long: `Manage provisioning scripts, in Python as in PVC. The script "empty" always exists.`,
	})
	d := &documents[wire.Script]{
		a: a, label: "provisioning script", plural: "scripts", suffix: ".py",
		add: func(c *client.Client, ctx context.Context, name, text string) error {
			_, err := c.CreateScript(ctx, wire.ScriptRequest{Name: name, Text: text})
			return err
		},
		change: func(c *client.Client, ctx context.Context, s wire.Script, text string) error {
			s.Text = text
			_, err := c.ChangeScript(ctx, s)
			return err
		},
		remove: (*client.Client).DeleteScript, one: (*client.Client).Script, all: (*client.Client).Scripts,
		names:  cli.ScriptNames,
		of:     func(s wire.Script) document { return document{s.Stored, s.Name, s.Text} },
		unread: func(name string) wire.Script { return wire.Script{Name: name} },
	}
	d.addTo(c)
	c.AddCommand(scriptCheck(a), scriptOptions(a))
	return c
}
