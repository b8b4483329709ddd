package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// consentChecks returns the check that privileged scripts have a node that runs them. It is left out
// if there are no such scripts, or if no node has reported yet.
func consentChecks(
	scripts func(context.Context, seedbed.NameMatch) ([]seedbed.Script, error),
	nodes func(context.Context) ([]seedbed.Node, error),
) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		check := seedbed.Check{Name: "privileged scripts"}
		stored, err := scripts(ctx, seedbed.NameMatch{})
		known, err2 := nodes(ctx)
		if err := errors.Join(err, err2); err != nil {
			check.Detail, check.Hint = strings.ReplaceAll(err.Error(), "\n", "; "), "follow its message"
			return []seedbed.Check{check}
		}
		stored = slices.DeleteFunc(stored, func(s seedbed.Script) bool { return !s.Options.Privileged })
		known = slices.DeleteFunc(known, func(n seedbed.Node) bool { return n.Seen.IsZero() })
		if len(stored) == 0 || len(known) == 0 {
			return nil
		}
		var names, consent []string
		for _, s := range stored {
			names = append(names, s.Name)
		}
		for _, n := range known {
			if n.Report.PrivilegedScripts {
				consent = append(consent, n.Name)
			}
		}
		if check.OK = len(consent) > 0; check.OK {
			check.Detail = fmt.Sprintf("%s: run on %s", strings.Join(names, ", "), strings.Join(consent, ", "))
		} else {
			check.Detail = fmt.Sprintf("%s: no node runs privileged scripts", strings.Join(names, ", "))
			check.Hint = "set scripts.privileged: true in seedbed.yaml where they are to run, and restart seedbed-worker there; " +
				"or take the privilege away: seedbed script options " + names[0] + " --privileged=false"
		}
		return []seedbed.Check{check}
	}
}
