package hook

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"seedbed"
)

// Health lists the scripts. It reports a problem if one of them would be refused, or if the
// configuration names one that does not exist. A host that has and needs no scripts has no check.
func (r *Runner) Health(context.Context) []seedbed.Check {
	check := seedbed.Check{Name: "hook scripts", OK: true}
	entries, err := os.ReadDir(r.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	names := slices.Clone(r.cfg.Named)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().IsRegular() && info.Mode()&0o111 == 0 { // another file beside them, or one that is just being installed
			continue
		}
		if seedbed.CheckName("script", e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	if err == nil && len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	var there, bad []string
	if err != nil {
		bad = append(bad, err.Error())
	}
	for _, name := range slices.Compact(names) {
		f, err := r.open(name)
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		f.Close()
		there = append(there, name)
	}
	check.Detail = "in " + r.cfg.Dir + ": " + strings.Join(there, ", ")
	if len(there) == 0 {
		check.Detail = "none in " + r.cfg.Dir
	}
	if len(bad) > 0 {
		check.OK = false
		check.Detail += "; " + strings.Join(bad, "; ")
		check.Hint = "stages that require such a script fail: install it as root, with mode 755"
	}
	return []seedbed.Check{check}
}
