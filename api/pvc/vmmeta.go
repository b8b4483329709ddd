package pvc

import (
	"context"
	"slices"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/api/server"
)

// The choices of PVC for what its client sets of a VM, apart from none.
var migrationMethods = []string{"live", "shutdown"}

// maxDowntime is the longest time for which a migration may let a guest stand still, in milliseconds: that of a system template.
const maxDowntime = 24 * 60 * 60 * 1000

// setVMMeta changes how a VM is placed and migrated, which counts from its next migration on, and whether it starts with its node, by a
// job. The profile is what a VM was made from, and does not change.
func (r *router) setVMMeta(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	i, err := r.vm(ctx, c, vmNotFound())
	if err != nil {
		return err
	}
	change, known, err := r.metaOf(ctx, c, f, i)
	if err != nil {
		return err
	}
	auto := f.has("autostart")
	if !known && !auto {
		return refused(fiber.StatusBadRequest, "ERROR: No updates to apply.")
	}
	const done = "Successfully modified PVC metadata of VM '%s'."
	if auto {
		on := f.flag("autostart")
		if f.err != nil {
			return f.err
		}
		if on != i.System.Autostart {
			receipt, err := r.VolumeJobs.Set(ctx, i.FullName(), seedbed.HardwareChange{Autostart: &on}, o)
			if err != nil {
				return err
			}
			if _, err := r.awaitEnd(ctx, receipt.Job); err != nil {
				return err
			}
		}
	}
	if known {
		if _, err := r.Change(ctx, i.FullName(), func(i *seedbed.Instance) error { change(&i.System); return nil }); err != nil {
			return err
		}
	}
	return say(c, done, i.Name)
}

// metaOf returns what a request changes at once of how a VM is placed and migrated, and whether that is anything.
func (r *router) metaOf(ctx context.Context, c *fiber.Ctx, f *fields, i seedbed.Instance) (
	change func(*seedbed.System), known bool, err error,
) {
	choice := func(name string, of []string) (string, error) {
		v := f.text(name)
		if v == "none" {
			return "", nil
		}
		if !slices.Contains(of, v) {
			return "", &refusal{status: fiber.StatusBadRequest, message: map[string]string{name: "A valid " + name + " must be specified"}}
		}
		return v, nil
	}
	to := i.System
	given := map[string]bool{}
	for _, name := range []string{"profile", "limit", "selector", "migration_method", "migration_max_downtime"} {
		given[name] = f.has(name)
		known = known || given[name]
	}
	if given["profile"] {
		return nil, false, refused(fiber.StatusBadRequest, "ERROR: profile of VM '%s' cannot be changed: it is what the VM was made from. "+
			"\"seedbed vm rebuild\" gives it the disks of another one.", i.Name)
	}
	if given["limit"] {
		to.NodeLimit = words(f.text("limit"))
		if err := r.knownNodes(ctx, c, to.NodeLimit); err != nil {
			return nil, false, err
		}
		if err := server.ChoosesNode(c, i.System.NodeLimit...); err != nil { // nor may such a caller lift the limit
			return nil, false, err
		}
	}
	if given["selector"] {
		if to.NodeSelector, err = choice("selector", seedbed.NodeSelectors()); err != nil {
			return nil, false, err
		}
	}
	if given["migration_method"] {
		if to.MigrationMethod, err = choice("migration_method", migrationMethods); err != nil {
			return nil, false, err
		}
	}
	if given["migration_max_downtime"] {
		ms := f.number("migration_max_downtime", "A migration_max_downtime value must be an integer.")
		if f.err == nil && (ms < 0 || ms > maxDowntime) {
			return nil, false, refused(fiber.StatusBadRequest, "ERROR: migration_max_downtime is %d: expected 0 to %d milliseconds.", ms,
				maxDowntime)
		}
		to.MigrationMaxDowntime = int64(ms)
	}
	return func(s *seedbed.System) {
		if given["limit"] {
			s.NodeLimit = to.NodeLimit
		}
		if given["selector"] {
			s.NodeSelector = to.NodeSelector
		}
		if given["migration_method"] {
			s.MigrationMethod = to.MigrationMethod
		}
		if given["migration_max_downtime"] {
			s.MigrationMaxDowntime = to.MigrationMaxDowntime
		}
	}, known, f.err
}

// knownNodes refuses names of nodes that do not exist, and any names of a caller that cannot choose nodes.
func (r *router) knownNodes(ctx context.Context, c *fiber.Ctx, names []string) error {
	if err := server.ChoosesNode(c, names...); err != nil || len(names) == 0 {
		return err
	}
	all, err := r.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(n seedbed.NodeStatus) bool { return n.Name == name }) {
			return refused(fiber.StatusBadRequest, "ERROR: Specified node '%s' is invalid.", seedbed.Clip(name))
		}
	}
	return nil
}
