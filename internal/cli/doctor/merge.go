package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// verdict is how a check ended. A later one is worse.
type verdict int

const (
	fine verdict = iota
	note
	problem
	verdicts
)

var verdictNames = [verdicts]string{"ok", "note", "problem"}

// verdictOf returns the verdict of a check: one that is OK and has a hint is a note.
func verdictOf(c seedbed.Check) verdict {
	switch {
	case !c.OK:
		return problem
	case c.Hint != "":
		return note
	}
	return fine
}

// result is a check as the command prints it. Its name is unique.
type result struct {
	seedbed.Check
	Verdict string `json:"verdict"`
}

// merge returns one result for each name, problems last. The host's own checks and those of the
// daemons partly look at the same things; node is the prefix under which the daemons report on this
// host. Of two results the worse one counts. Of two problems it is the host's own, whose hint is for
// this host, and otherwise the daemon's, which knows more. Two problems of the daemons with one name
// are one result with both.
func merge(node string, own, daemons []seedbed.Check) []result {
	var names []string
	byName := map[string]seedbed.Check{}
	for _, c := range own {
		if _, twice := byName[c.Name]; !twice {
			names = append(names, c.Name)
		}
		byName[c.Name] = c
	}
	theirs := map[string]bool{}
	for _, c := range daemons {
		key := c.Name
		if short, here := strings.CutPrefix(c.Name, node+": "); here {
			key = short
		}
		had, twice := byName[key]
		switch {
		case !twice:
			names = append(names, key)
			byName[key] = c
		case !theirs[key]:
			if verdictOf(c) >= verdictOf(had) && verdictOf(had) < problem {
				had = c
			}
			had.Name = c.Name
			byName[key] = had
		default:
			byName[key] = both(had, c)
		}
		theirs[key] = true
	}
	all := make([]result, 0, len(names))
	for _, name := range names {
		all = append(all, result{byName[name], verdictNames[verdictOf(byName[name])]})
	}
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(verdictOf(a.Check), verdictOf(b.Check)) })
	return all
}

// both returns one check for two of the same name.
func both(a, b seedbed.Check) seedbed.Check {
	switch {
	case verdictOf(b) > verdictOf(a):
		return b
	case verdictOf(b) < verdictOf(a) || a.Detail == b.Detail || verdictOf(a) == fine:
		return a
	}
	a.Detail += "; " + b.Detail
	if a.Hint != b.Hint && b.Hint != "" {
		a.Hint = strings.Trim(a.Hint+"; "+b.Hint, "; ")
	}
	return a
}

// count returns how many results have each verdict, as text.
func count(all []result) string {
	var n [verdicts]int
	for _, r := range all {
		n[verdictOf(r.Check)]++
	}
	several := func(n int, what string) string {
		if n != 1 {
			what += "s"
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%s: %d ok, %s, %s", several(len(all), "check"), n[fine], several(n[note], "note"), several(n[problem], "problem"))
}
