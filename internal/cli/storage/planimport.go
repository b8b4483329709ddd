package storage

import (
	"context"
	"fmt"
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
	if err != nil {
		return err
	}
	if a.JSON() {
		err = a.PrintJSON(p)
	} else {
		pool := p.Pool
		if p.Free > 0 {
			pool += ", " + cli.Size(p.Free) + " free"
		}
		of := ""
		if p.Size > 0 {
			of = cli.Size(p.Size)
		}
		a.PrintPairs([][2]string{
			{"name", p.Name}, {"pool", pool}, {"node", p.Node}, {"size", of},
			{"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
		})
	}
	if err == nil && len(p.Problems) > 0 {
		err = fmt.Errorf("%s would be refused: %s", p.Name, strings.Join(p.Problems, "; "))
	}
	return err
}
