package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"seedbed/internal/build"
)

// DocsCommand returns the command that generates the package's documentation. Users do not need it.
func (a *App) DocsCommand() *cobra.Command {
	c := Group(&cobra.Command{Use: "docs", Short: "Make documentation", Hidden: true})
	c.AddCommand(&cobra.Command{
		Use: "man DIR", Short: "Write the manual pages to a directory",
		RunE: a.Do(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := a.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "SEEDBED", Section: "1", Source: "Seedbed " + build.Version(), Manual: "Seedbed",
			}, args[0])
		}),
	})
	return c
}
