package instances

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"seedbed"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

const newProjectVolumeColumns = `id, project, name, pool, volume, owner, token, node, state, size, image, keep, revision, created, limits`

// projectVolumeColumns are those that scanProjectVolume reads.
const projectVolumeColumns = newProjectVolumeColumns + `, wanted, instance, idx, bus`

func scanProjectVolume(r sqldb.Row) (v seedbed.ProjectVolume, err error) {
	var image, instance sql.NullString
	var index sql.NullInt64
	var limits string
	err = r.Scan(&v.ID, &v.Project, &v.Name, &v.Pool, &v.Volume, &v.Owner, &v.Token, &v.Node, &v.State, &v.Size, &image, &v.Keep, &v.Revision,
		sqldb.ToTime(&v.Created), &limits, &v.Wanted, &instance, &index, &v.Bus)
	if err == nil && limits != "" {
		err = json.Unmarshal([]byte(limits), &v.IOLimits)
	}
	v.Serial = seedbed.SerialOf(v.ID)
	v.Image, v.Instance, v.Index = image.String, seedbed.InstanceID(instance.String), int(index.Int64)
	if v.Instance != "" {
		v.Device = seedbed.DeviceOf(v)
	}
	return v, err
}

// noProjectVolume is the error for a volume that does not exist.
func noProjectVolume(kind error, name string) error {
	return seedbed.Errorf(kind, "volume %q does not exist", sqldb.Clean(name, 80))
}

// LockProjectVolume locks the row of a project's volume, and returns the volume. It returns ErrNotFound if there is none.
func LockProjectVolume(ctx context.Context, tx *sqldb.Tx, project, name string) (seedbed.ProjectVolume, error) {
	return lockVolume(ctx, tx, noProjectVolume(seedbed.ErrNotFound, name), `project = $1 AND name = $2`, project, name)
}

// LockVolumeOf locks the row of the volume with that ID, and returns the volume. It returns missing if there is none.
func LockVolumeOf(ctx context.Context, tx *sqldb.Tx, id string, missing error) (seedbed.ProjectVolume, error) {
	return lockVolume(ctx, tx, missing, `id = $1`, id)
}

func lockVolume(ctx context.Context, tx *sqldb.Tx, missing error, cond string, args ...any) (seedbed.ProjectVolume, error) {
	v, err := sqldb.LockOne(ctx, tx, scanProjectVolume, missing,
		`UPDATE project_volume SET name = name WHERE `+cond+` RETURNING `+projectVolumeColumns, args...)
	if err == nil && v.Instance != "" {
		v.Holder, err = sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT name FROM instance WHERE id = $1`, v.Instance)
	}
	return v, err
}

// InsertProjectVolume adds a volume that no instance has. It returns ErrExists if its project has one of its name.
func InsertProjectVolume(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) error {
	added, err := addProjectVolume(ctx, tx, v)
	if err == nil && !added {
		err = seedbed.Errorf(seedbed.ErrExists, "volume %q exists already: choose another name (seedbed volume list)", v.Name)
	}
	return err
}

// addProjectVolume adds a volume, and reports whether it did: no other has its name, or its name in the pool.
func addProjectVolume(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) (bool, error) {
	limits, err := limitsText(v.IOLimits)
	if err != nil {
		return false, err
	}
	n, err := sqldb.Affect(ctx, tx, `INSERT INTO project_volume (`+newProjectVolumeColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, 1, $12, $13) ON CONFLICT DO NOTHING`,
		v.ID, v.Project, v.Name, v.Pool, v.Volume, v.Owner, v.Token, v.Node, v.State, int64(v.Size), sqldb.Null(v.Image),
		sqldb.Micros(sqldb.OrNow(v.Created)), limits)
	return n > 0, err
}

// inPool returns the volume of a project that has that name in the pool, or none.
func inPool(ctx context.Context, tx *sqldb.Tx, pool, name string) (seedbed.ProjectVolume, error) {
	return sqldb.One(ctx, tx, scanProjectVolume, nil,
		`SELECT `+projectVolumeColumns+` FROM project_volume WHERE pool = $1 AND volume = $2`, pool, name)
}

// SetVolumeState sets the state of a volume. An unknown ID is ignored.
func SetVolumeState(ctx context.Context, tx *sqldb.Tx, id string, to seedbed.VolumeState) error {
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET state = $1, revision = revision + 1 WHERE id = $2`, to, id)
}

// changed records that the volumes of an instance have changed.
func changed(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `UPDATE instance SET revision = revision + 1, changed = $1 WHERE id = $2`, sqldb.Micros(sqldb.Now()), id)
}

// SetAttachmentState sets the state of a volume of an instance.
func SetAttachmentState(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, to seedbed.VolumeState) error {
	if err := changed(ctx, tx, v.Instance); err != nil {
		return err
	}
	return SetVolumeState(ctx, tx, v.ID, to)
}

// GiveVolume records that a volume is to be attached to an instance, at v.Index and v.Bus.
func GiveVolume(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, to seedbed.InstanceID) error {
	if err := changed(ctx, tx, to); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET state = $1, instance = $2, idx = $3, bus = $4, keep = $5, revision = revision + 1
		WHERE id = $6`, seedbed.VolumeAttaching, to, int64(v.Index), v.Bus, sqldb.Flag(v.Keep), v.ID)
}

// ReindexVolumes gives other places to the volumes attached to an instance whose places its own disks have taken. UnindexVolumes gives
// them back the former ones.
func ReindexVolumes(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	if err := sqldb.Exec(ctx, tx, `UPDATE project_volume SET former = idx WHERE instance = $1`, id); err != nil {
		return err
	}
	inst, err := ReadOne(ctx, tx, id)
	if err != nil {
		return err
	}
	for _, v := range inst.Reindexed() {
		err := sqldb.Exec(ctx, tx, `UPDATE project_volume SET idx = $1, revision = revision + 1 WHERE id = $2`, int64(v.Index), v.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// UnindexVolumes undoes ReindexVolumes. No volume was attached or detached since.
func UnindexVolumes(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET idx = former, revision = revision + 1 WHERE instance = $1 AND former <> idx`, id)
}

// CheckAttached returns ErrConflict if an instance, with so many disks of its own, has too many with those that are attached to it.
func CheckAttached(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, own int) error {
	n, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) FROM project_volume WHERE instance = $1`, id)
	if err == nil && n > 0 && own+n > seedbed.MaxDisks {
		err = seedbed.Errorf(seedbed.ErrConflict,
			"with %d disks of its own and %d that are attached, the instance has more than %d: detach some first (seedbed volume detach)",
			own, n, seedbed.MaxDisks)
	}
	return err
}

const freed = `state = 'free', instance = NULL, idx = NULL, former = NULL, bus = '', keep = 1, revision = revision + 1`

// FreeVolume records that an instance no longer has a volume.
func FreeVolume(ctx context.Context, tx *sqldb.Tx, id string, of seedbed.InstanceID) error {
	if err := changed(ctx, tx, of); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE project_volume SET `+freed+` WHERE id = $1 AND instance = $2`, id, of)
}

// DropProjectVolume deletes a volume.
func DropProjectVolume(ctx context.Context, tx *sqldb.Tx, id string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM project_volume WHERE id = $1`, id)
}

// PartVolumes records what becomes of the volumes of an instance that is deleted. Those that are attached and kept become free, as
// do its own disks if they are kept: they become volumes with the names of the instance and their indexes. The others were removed.
func PartVolumes(
	ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, how seedbed.Removal, node func(pool string) (string, error),
) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM project_volume WHERE instance = $1 AND keep = 0`, id); err != nil {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `UPDATE project_volume SET `+freed+` WHERE instance = $1`, id); err != nil || !how.KeepDisks {
		return err
	}
	inst, err := ReadOne(ctx, tx, id)
	if err != nil {
		return err
	}
	for _, disk := range inst.Volumes {
		v := seedbed.ProjectVolume{ID: seedbed.NewVolumeID(), Project: inst.Project, Pool: disk.Pool, Volume: disk.Name, Owner: inst.ID,
			Token: inst.Token, State: seedbed.VolumeFree, Size: disk.Size, Image: disk.Image}
		if v.Node, err = node(disk.Pool); err != nil {
			return err
		}
		if err := keepDisk(ctx, tx, v, seedbed.KeptName(inst.Name, disk.Index)); err != nil {
			return err
		}
	}
	return nil
}

// keepDisk adds the volume that a disk becomes, with the name or, while a volume has that, with a number. A disk that is a volume
// already stays that. The instance has gone by now, so it fails only if the database does.
func keepDisk(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume, name string) (err error) {
	for {
		known, err := inPool(ctx, tx, v.Pool, v.Volume)
		if err != nil || known.ID != "" {
			return err
		}
		v.Name, err = seedbed.FreeName(name, func(name string) (bool, error) { return hasVolume(ctx, tx, v.Project, name) })
		if err != nil {
			return err
		}
		if added, err := addProjectVolume(ctx, tx, v); err != nil || added {
			return err
		}
	}
}

// hasVolume reports whether a project has a volume of that name.
func hasVolume(ctx context.Context, tx *sqldb.Tx, project, name string) (bool, error) {
	n, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) FROM project_volume WHERE project = $1 AND name = $2`, project, name)
	return n > 0, err
}

// readAttached adds the attached volumes to the instances that satisfy a condition.
func readAttached(ctx context.Context, tx *sqldb.Tx, at map[seedbed.InstanceID]*seedbed.Instance, ofThem string, args []any) error {
	_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (seedbed.ProjectVolume, error) {
		v, err := scanProjectVolume(r)
		if err == nil {
			i := at[v.Instance]
			v.Holder = i.Name
			i.Attached = append(i.Attached, v)
		}
		return v, err
	}, `SELECT `+projectVolumeColumns+` FROM project_volume`+ofThem, args...)
	return err
}

// VolumeOf returns the volume of a project with that ID.
func (s *Store) VolumeOf(ctx context.Context, id string) (seedbed.ProjectVolume, error) {
	return s.projectVolume(ctx, noProjectVolume(seedbed.ErrNotFound, id), `v.id = $1`, id)
}

// ProjectVolume returns the volume of a project with that name or, if there is none, the disk of one of its instances that has the
// name in its pool.
func (s *Store) ProjectVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error) {
	missing := noProjectVolume(seedbed.ErrNotFound, name)
	v, err := s.projectVolume(ctx, nil, `v.project = $1 AND v.name = $2`, project, name)
	if err != nil || v.ID != "" {
		return v, err
	}
	var all []seedbed.ProjectVolume
	err = s.db.View(ctx, "read disk", func(tx *sqldb.Tx) error {
		all, err = disks(ctx, tx, `instance.project = $1 AND volume.name = $2`, project, name)
		return err
	})
	if err == nil && len(all) == 0 {
		err = missing
	}
	if err != nil {
		return seedbed.ProjectVolume{}, err
	}
	return all[0], nil
}

func (s *Store) projectVolume(ctx context.Context, missing error, cond string, args ...any) (v seedbed.ProjectVolume, err error) {
	err = s.db.View(ctx, "read volume", func(tx *sqldb.Tx) error {
		all, err := volumes(ctx, tx, cond, args...)
		if err == nil && len(all) == 0 {
			return missing
		}
		if err == nil {
			v = all[0]
		}
		return err
	})
	return v, err
}

// volumes returns the volumes of projects that satisfy a condition on the table v, with the names of the instances that have them.
func volumes(ctx context.Context, tx *sqldb.Tx, cond string, args ...any) ([]seedbed.ProjectVolume, error) {
	names := map[seedbed.InstanceID]string{}
	_, err := sqldb.List(ctx, tx, func(r sqldb.Row) (name string, err error) {
		var id seedbed.InstanceID
		if err = r.Scan(&id, &name); err == nil {
			names[id] = name
		}
		return name, err
	}, `SELECT i.id, i.name FROM project_volume v JOIN instance i ON i.id = v.instance WHERE `+cond, args...)
	if err != nil {
		return nil, err
	}
	all, err := sqldb.List(ctx, tx, scanProjectVolume, `SELECT `+projectVolumeColumns+` FROM project_volume v WHERE `+cond, args...)
	for n := range all {
		all[n].Holder = names[all[n].Instance]
	}
	return all, err
}

// disks returns the disks that were made with instances, as volumes without an ID.
func disks(ctx context.Context, tx *sqldb.Tx, cond string, args ...any) ([]seedbed.ProjectVolume, error) {
	shared, err := nodes.Sharing(ctx, tx)
	if err != nil {
		return nil, err
	}
	return sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.ProjectVolume, err error) {
		var image sql.NullString
		var system seedbed.System
		err = r.Scan(&v.Project, &v.Name, &v.Pool, &v.Size, &image, &v.Index, &v.Instance, &v.Holder, &v.Node,
			sqldb.ToTime(&v.Created), sqldb.ToJSON(&system))
		if shared(v.Pool) {
			v.Node = ""
		}
		v.Volume, v.Owner, v.State, v.Image = v.Name, v.Instance, seedbed.VolumeAttached, image.String
		v.Bus = cmp.Or(system.DiskBus, seedbed.BusVirtio)
		v.Device = seedbed.DeviceOf(v)
		return v, err
	}, `SELECT instance.project, volume.name, volume.pool, volume.size, volume.image, volume.idx, instance.id, instance.name, instance.node,
		instance.created, instance.system FROM volume JOIN instance ON instance.id = volume.instance WHERE `+cond, args...)
}

// ProjectVolumes returns the volumes in a scope, those of instances included, by project, instance and name.
func (s *Store) ProjectVolumes(ctx context.Context, in seedbed.Scope) (all []seedbed.ProjectVolume, err error) {
	err = s.db.View(ctx, "list volumes", func(tx *sqldb.Tx) error {
		cond, of, args := `1 = 1`, `1 = 1`, []any(nil)
		if project, one := in.One(); one {
			cond, of, args = `v.project = $1`, `instance.project = $1`, []any{project}
		}
		if all, err = volumes(ctx, tx, cond, args...); err != nil {
			return err
		}
		more, err := disks(ctx, tx, of, args...)
		all = append(all, more...)
		return err
	})
	slices.SortFunc(all, func(a, b seedbed.ProjectVolume) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// RenameVolume gives a volume of a project another name, and returns the volume. It returns ErrNotFound, ErrExists if the project has
// one of that name, ErrConflict while it is made or removed and for a disk of an instance, or the error of a check that the volume as
// it was does not pass.
func (s *Store) RenameVolume(
	ctx context.Context, project, name, to string, checks ...func(seedbed.ProjectVolume) error,
) (v seedbed.ProjectVolume, err error) {
	if err := seedbed.CheckName("volume", to); err != nil {
		return v, err
	}
	err = s.db.Update(ctx, "rename volume", func(tx *sqldb.Tx) error {
		if v, err = LockProjectVolume(ctx, tx, project, name); errors.Is(err, seedbed.ErrNotFound) {
			return orOfInstance(ctx, tx, project, name, err)
		}
		if err != nil {
			return err
		}
		if err := sqldb.Pass(v, checks); err != nil {
			return err
		}
		switch v.State {
		case seedbed.VolumeMaking, seedbed.VolumeChanging:
			return seedbed.Errorf(seedbed.ErrConflict, "a job works on volume %q, which is %s: its name stays until that has ended", v.Name, v.State)
		case seedbed.VolumeRemoving:
			return seedbed.Errorf(seedbed.ErrConflict, "volume %q is being removed, so its name stays: if its removal has failed, "+
				"remove it again (seedbed volume remove %s)", v.Name, v.Name)
		}
		if v.Name == to {
			return sqldb.ErrUnchanged
		}
		taken, err := hasVolume(ctx, tx, project, to)
		if err == nil && taken {
			err = seedbed.Errorf(seedbed.ErrExists, "volume %q exists already: choose another name (seedbed volume list)", to)
		}
		if err != nil {
			return err
		}
		v.Name, v.Revision = to, v.Revision+1
		if err := changed(ctx, tx, v.Instance); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE project_volume SET name = $1, revision = revision + 1 WHERE id = $2`, to, v.ID)
	})
	return v, err
}

// orOfInstance returns the error of CheckOwn if the name is that of a disk of an instance, and otherwise missing.
func orOfInstance(ctx context.Context, tx *sqldb.Tx, project, name string, missing error) error {
	all, err := disks(ctx, tx, `instance.project = $1 AND volume.name = $2`, project, name)
	if err != nil || len(all) > 0 {
		return cmp.Or(err, all[0].CheckOwn())
	}
	return missing
}

// VolumeOwners returns the IDs in the tags of the volumes of projects, by which their pools know them.
func (s *Store) VolumeOwners(ctx context.Context) (all []seedbed.InstanceID, err error) {
	err = s.db.View(ctx, "list owners of volumes", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, sqldb.Value[seedbed.InstanceID], `SELECT DISTINCT owner FROM project_volume ORDER BY owner`)
		return err
	})
	return all, err
}
