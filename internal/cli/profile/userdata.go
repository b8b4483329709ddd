package profile

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// UserdataCommand returns the command userdata with its subcommands.
func UserdataCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "userdata", Short: "Manage user-data documents that profiles share",
		Long: `Manage user-data documents that profiles share. A document is stored and served byte for
byte: cloud-config, a script, a MIME multipart document, or anything that the guest
reads. The document "empty" always exists.`,
	})
	d := &documents[wire.UserData]{
		a: a, label: "userdata document", plural: "userdata documents", suffix: ".yaml", forced: true,
		add: func(c *client.Client, ctx context.Context, name, data string) error {
			_, err := c.CreateUserData(ctx, wire.UserDataRequest{Name: name, Data: data})
			return err
		},
		change: func(c *client.Client, ctx context.Context, u wire.UserData, data string) error {
			u.Data = data
			_, err := c.ChangeUserData(ctx, u)
			return err
		},
		remove: (*client.Client).DeleteUserData, one: (*client.Client).UserDataDocument, all: (*client.Client).UserDataDocuments,
		names:  cli.UserdataNames,
		of:     func(u wire.UserData) document { return document{u.Stored, u.Name, u.Data} },
		unread: func(name string) wire.UserData { return wire.UserData{Name: name} },
	}
	d.addTo(c)
	return c
}
