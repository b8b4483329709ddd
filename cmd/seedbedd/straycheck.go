package main

import (
	"context"
	"fmt"
	"slices"

	"seedbed"
)

// strayChecks returns the check that reports what carries Seedbed's tag and belongs to nothing in the
// database. It is left out if there are none.
func strayChecks(list func(context.Context) ([]seedbed.Orphan, error)) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "strays"}
		strays, err := list(ctx)
		switch {
		case err != nil:
			check.Detail, check.Hint = err.Error(), "follow its message"
		case len(strays) == 0:
			return nil
		default:
			first := strays[0]
			check.OK = true
			check.Detail = fmt.Sprintf("%s %s on %s carries Seedbed's tag and belongs to nothing in the database",
				first.Kind, first.Name, first.Node)
			if n := len(strays) - 1; n > 0 {
				check.Detail += fmt.Sprintf(", and %d more", n)
			}
			check.Hint = "list them with: seedbed orphan list. Nothing removes them automatically"
			if slices.ContainsFunc(strays, func(o seedbed.Orphan) bool { return o.Kind == seedbed.OrphanDomain }) {
				check.Hint += ". A domain among them has no network: shut it down, or put the newer database back"
			}
		}
		return []seedbed.Check{check}
	}
}
