package netcfg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/durable"
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

// The file of the networks that a node leaves out, and how many it has, and bytes of each reason.
const (
	leftOutFile   = "left-out.json"
	maxLeftOut    = 200
	maxLeftReason = 300
	maxLeftFile   = 1 << 20
)

// SaveLeftOut writes which networks the node leaves out into a directory, by name with the reasons, for ReadLeftOut. Of very many, the
// first are written.
func SaveLeftOut(dir string, networks map[string]error) error {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		if len(all) < maxLeftOut {
			all[name] = seedbed.ClipTo(networks[name].Error(), maxLeftReason)
		}
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, leftOutFile), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("networks that are left out: %w", err)
	}
	return nil
}

// ReadLeftOut returns what SaveLeftOut wrote last; nothing if it never did. The owner of the directory need not be trusted: a link is
// not followed, and what is not a file is not waited for.
func ReadLeftOut(dir string) (networks map[string]string, err error) {
	f, err := os.OpenFile(filepath.Join(dir, leftOutFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("networks that are left out: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a file: remove it and restart seedbed-metadata", f.Name())
	}
	if err := json.NewDecoder(io.LimitReader(f, maxLeftFile)).Decode(&networks); err != nil {
		return nil, fmt.Errorf("networks that are left out: %s: %w", f.Name(), err)
	}
	for name, reason := range networks {
		if len(networks) > maxLeftOut || len(name) > maxLeftReason {
			delete(networks, name)
			continue
		}
		networks[name] = seedbed.ClipTo(reason, maxLeftReason)
	}
	return networks, nil
}
