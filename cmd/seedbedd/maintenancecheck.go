package main

import (
	"context"

	"seedbed"
)

// maintenanceCheck returns the check that tells while the maintenance mode is on, of which nothing else reminds anyone.
func maintenanceCheck(maintained func(context.Context) (bool, error)) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "maintenance mode"}
		switch on, err := maintained(ctx); {
		case err != nil:
			check.Detail, check.Hint = err.Error(), "follow its message"
		case !on:
			return nil
		default:
			check.OK, check.Detail = true, "it is on: no lost node is fenced by itself"
			check.Hint = "switch it off when the work is done: pvc cluster maintenance off"
		}
		return []seedbed.Check{check}
	}
}
