package storage

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// dryFlag adds --dry-run to a command that imports.
func dryFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "only show what would be done and what prevents it")
}

// tellImport prints what an import would make. It returns an error if the import would be refused.
func tellImport(ctx context.Context, a *cli.App, api *client.Client, req seedbed.ImportRequest) error {
	p, err := api.PlanImport(ctx, req)
	pool := p.Pool
	if p.Free > 0 {
		pool += ", " + cli.Size(p.Free) + " free"
	}
	return a.ShowPlanned(err, p, [][2]string{
		{"name", p.Name}, {"pool", pool}, {"node", p.Node}, {"size", cli.Size(p.Size)},
		{"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
	}, p.Name, p.Problems)
}
