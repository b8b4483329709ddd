package netcfg

import (
	"errors"
	"maps"
	"slices"
)

// LeftOut is the error of a state that is applied except for some networks: those whose bridge names are taken by
// foreign bridges, which were not changed, those whose prefixes the node reaches another way, those whose uplinks it
// does not have or cannot share, and those that this version does not understand. A LeftOut is never joined with other errors,
// so a caller that finds it with errors.As knows that nothing else is wrong.
type LeftOut struct {
	// Networks holds the reason, an ErrConflict, for each network that was left out, by name.
	Networks map[string]error
}

// Error says why each network was left out.
func (e *LeftOut) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the reasons, ordered by the name of the network.
func (e *LeftOut) Unwrap() []error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(e.Networks)) {
		all = append(all, e.Networks[name])
	}
	return all
}

// outcome returns the error of a state whose rules are in force.
func outcome(left *LeftOut, problems []error) error {
	switch {
	case len(problems) > 0: // not the LeftOut itself: it would mean that nothing else is wrong
		return errors.Join(append(left.Unwrap(), problems...)...)
	case len(left.Networks) > 0:
		return left
	}
	return nil
}
