package pvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// vmSnapshot is a snapshot of a VM's volumes as PVC shows it. It has no lines of what differs in the definition, because a snapshot of
// Seedbed has no definition.
type vmSnapshot struct {
	Name string `json:"name"`
	// Timestamp is in seconds since 1970, and Age in seconds.
	Timestamp string   `json:"timestamp"`
	Age       int64    `json:"age"`
	Lines     []string `json:"xml_diff_lines"`
	Volumes   []string `json:"rbd_snapshots"`
}

// snapshotTimes is the form of the name of a snapshot that a request does not name.
const snapshotTimes = "20060102150405"

func (r *router) snapshotRoutes(t *table, p string) {
	add := func(method string, action seedbed.Action, path string, h func(context.Context, *fiber.Ctx, *fields, seedbed.JobOptions) error) {
		t.add(method, action, path, server.CallTimeout, r.parameters, r.starting(h))
	}
	add(fiber.MethodPost, seedbed.ActionSnapshotCreate, p, r.takeSnapshot)
	add(fiber.MethodDelete, seedbed.ActionSnapshotRemove, p, r.removeSnapshot)
	add(fiber.MethodPost, seedbed.ActionSnapshotRestore, p+"/rollback", r.rollBack)
}

// snapshotsOf returns the snapshots of a VM as PVC shows them, the newest first. It returns none if the VM's node does not answer, or
// has lost a volume: the rest of what is known of the VM is worth showing.
func (r *router) snapshotsOf(ctx context.Context, i seedbed.Instance, now time.Time) ([]vmSnapshot, error) {
	all, err := r.SnapshotsOf(ctx, i)
	if errors.Is(err, seedbed.ErrUnavailable) || errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil
	}
	slices.Reverse(all)
	return server.Each(all, func(s wire.Snapshot) vmSnapshot {
		v := vmSnapshot{
			Name: s.Name, Timestamp: strconv.FormatInt(s.Created.Unix(), 10), Age: int64(now.Sub(s.Created).Seconds()), Lines: []string{},
		}
		for _, of := range i.Volumes {
			if slices.Contains(s.Volumes, of.Name) {
				v.Volumes = append(v.Volumes, fmt.Sprintf("%s/%s@%s", of.Pool, of.Name, s.Name))
			}
		}
		return v
	}), err
}

func (r *router) takeSnapshot(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	name := f.text("snapshot_name")
	if f.err != nil {
		return f.err
	}
	if name == "" {
		name = time.Now().Format(snapshotTimes)
	}
	if err := seedbed.CheckName("snapshot", name); err != nil {
		return err
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	receipt, err := r.VolumeJobs.Snapshot(ctx, i.FullName(), name, seedbed.FreezeAuto, o)
	if errors.Is(err, seedbed.ErrExists) {
		return refused(fiber.StatusBadRequest, "Snapshot name '%s' already exists for VM '%s'!", name, i.Name)
	}
	return r.begun(c, receipt, err, "vm.create_snapshot")
}

// withSnapshot returns the VM of a path and the name of a snapshot that it has.
func (r *router) withSnapshot(ctx context.Context, c *fiber.Ctx, f *fields) (i seedbed.Instance, name string, err error) {
	name = f.must("snapshot_name", "A snapshot name must be specified")
	if f.err != nil {
		return i, "", f.err
	}
	if i, err = r.vm(ctx, c, noSuchVM(c)); err != nil {
		return i, "", err
	}
	has, err := r.HasSnapshot(ctx, i, name)
	if err == nil && !has {
		err = refused(fiber.StatusBadRequest, "Could not find snapshot '%s' of VM '%s'!", seedbed.Clip(name), i.Name)
	}
	return i, name, err
}

func (r *router) removeSnapshot(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	i, name, err := r.withSnapshot(ctx, c, f)
	if err != nil {
		return err
	}
	receipt, err := r.VolumeJobs.RemoveSnapshot(ctx, i.FullName(), name, o)
	return r.begun(c, receipt, err, "vm.remove_snapshot")
}

// rollBack brings the volumes of a VM that is off back to a snapshot. As in PVC, one that runs is refused.
func (r *router) rollBack(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	i, name, err := r.withSnapshot(ctx, c, f)
	if err != nil {
		return err
	}
	if i.State != seedbed.InstanceStopped {
		return refused(fiber.StatusBadRequest, "VM '%s' is not stopped or disabled; VMs cannot be rolled back while running: "+
			"stop it, or use \"seedbed vm snapshot restore\"", i.Name)
	}
	receipt, err := r.Intake.Submit(ctx, seedbed.Request{
		Action: seedbed.DoSnapshotRestore, Project: i.Project, Name: i.Name, Params: map[string]any{"snapshot": name}, JobOptions: o,
	}, nil)
	return r.begun(c, receipt, err, "vm.rollback_snapshot")
}

// renameVM gives a VM that is off another name.
func (r *router) renameVM(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	name := f.must("new_name", "A new VM name must be specified")
	if f.err != nil {
		return f.err
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	if i.State != seedbed.InstanceStopped {
		return refused(fiber.StatusBadRequest, "ERROR: VM '%s' is not in stopped state; VMs cannot be renamed while running.", i.Name)
	}
	receipt, err := r.VolumeJobs.Rename(ctx, i.FullName(), name, o)
	switch {
	case errors.Is(err, seedbed.ErrExists):
		return refused(fiber.StatusBadRequest, "A VM named '%s' is already present in the cluster", name)
	case err != nil:
		return err
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	if !ended {
		return say(c, "Renaming VM '%s' to '%s'. Task %s continues.", i.Name, name, receipt.Job.Short())
	}
	return say(c, "Successfully renamed VM '%s' to '%s'.", i.Name, name)
}
