package cluster

import (
	"context"

	"github.com/spf13/cobra"

	"seedbed/api/client"
	"seedbed/internal/cli"
)

// CertificateCommand returns the command certificate with its subcommands.
func CertificateCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "certificate", Short: "Print certificates"})
	c.AddCommand(&cobra.Command{
		Use: "identity", Short: "Print the certificate that verifies instance identity documents",
		RunE: a.Call(func(ctx context.Context, api *client.Client, _ []string) error {
			text, err := api.IdentityCertificate(ctx)
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		}),
	})
	return c
}
