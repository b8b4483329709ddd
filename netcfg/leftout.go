package netcfg

import (
	"errors"
	"maps"
	"slices"
)

// LeftOut is the error of a state that is applied but for some networks: the
// names of their bridges are taken by others, which were not touched. It is the
// whole error, so a caller that finds it with errors.As knows that nothing else is wrong.
type LeftOut struct {
	// Networks are those that were left out, by name, each with its ErrConflict.
	Networks map[string]error
}

// Error says why each network was left out.
func (e *LeftOut) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap gives the reasons, by the name of the network.
func (e *LeftOut) Unwrap() []error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(e.Networks)) {
		all = append(all, e.Networks[name])
	}
	return all
}

// outcome is the error of a state whose rules are in force.
func outcome(left *LeftOut, problems []error) error {
	switch {
	case len(problems) > 0: // not the LeftOut itself: it would say that this is all
		return errors.Join(append(left.Unwrap(), problems...)...)
	case len(left.Networks) > 0:
		return left
	}
	return nil
}
