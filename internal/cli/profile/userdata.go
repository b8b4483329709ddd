package profile

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
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
	d := &documents[client.UserDataDocument]{
		a: a, label: "userdata document", plural: "userdata documents", suffix: ".yaml",
		add: (*client.Client).AddUserData, change: (*client.Client).ChangeUserData, remove: removing((*client.Client).RemoveUserData),
		one: (*client.Client).UserDataDocument, all: (*client.Client).UserDataDocuments,
		of: func(u client.UserDataDocument) document { return document{u.ID, u.Name, u.Data} },
	}
	d.addTo(c)
	return c
}
