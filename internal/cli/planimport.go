package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// dryFlag gives a command that imports the flag that has it only tell.
func dryFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "tell what would be made and what is in its way, and do nothing")
}

// tellImport tells what an import would make; an error when it would be refused.
func (a *App) tellImport(ctx context.Context, api *client.Client, req seedbed.ImportRequest) error {
	p, err := api.PlanImport(ctx, req)
	if err != nil {
		return err
	}
	if a.json() {
		err = a.printJSON(p)
	} else {
		pool := p.Pool
		if p.Free > 0 {
			pool += ", " + size(p.Free) + " free"
		}
		of := ""
		if p.Size > 0 {
			of = size(p.Size)
		}
		a.printPairs([][2]string{
			{"name", p.Name}, {"pool", pool}, {"node", p.Node}, {"size", of}, {"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
		})
	}
	if err == nil && len(p.Problems) > 0 {
		err = fmt.Errorf("%s would be refused: %s", p.Name, strings.Join(p.Problems, "; "))
	}
	return err
}
