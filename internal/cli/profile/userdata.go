package profile

import (
	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

func UserdataCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "userdata", Short: "User-data that profiles share",
		Long: `User-data that profiles share. A document is kept and served byte for byte: cloud-config,
a script, a MIME multipart document, whatever the guest reads. "empty" is always there.`,
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
