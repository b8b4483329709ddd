package catalogue

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// ovaColumns and diskColumns are the columns of an OVA image, besides its number and job, and of one
// of its disks, besides the image's name and its place.
const (
	ovaColumns  = `name, state, revision, created, changed`
	diskColumns = `disk, pool, image, file, format, size`
)

func scanOVA(r sqldb.Row) (o seedbed.OVA, err error) {
	o.Volumes = []seedbed.OVAVolume{}
	err = r.Scan(&o.ID, &o.Name, &o.State, &o.Revision, sqldb.ToTime(&o.Created), sqldb.ToTime(&o.Changed))
	return o, err
}

// OVAs returns the imported OVA images whose names match, sorted by name.
func (s *Store) OVAs(ctx context.Context, m seedbed.NameMatch) (all []seedbed.OVA, err error) {
	err = s.db.View(ctx, "list OVA images", func(tx *sqldb.Tx) error {
		all, err = ovas(ctx, tx, m)
		return err
	})
	return all, err
}

func ovas(ctx context.Context, tx *sqldb.Tx, m seedbed.NameMatch) ([]seedbed.OVA, error) {
	all, err := objects(ctx, tx, kindOVA, scanOVA, func(o seedbed.OVA) string { return o.Name }, m,
		`SELECT id, `+ovaColumns+` FROM ova WHERE %s AND state <> 'importing' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Volumes, err = OVAVolumes(ctx, tx, all[i].Name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readOVA reads the OVA image of that name, with its volumes.
func readOVA(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.OVA, error) {
	o, err := object(ctx, tx, kindOVA, scanOVA, name, `SELECT id, `+ovaColumns+` FROM ova WHERE name = $1`)
	if err != nil {
		return o, err
	}
	o.Volumes, err = OVAVolumes(ctx, tx, name)
	return o, err
}

// PublishOVA says to which other projects an OVA image is published, as [Store.PublishProfile] does for a
// profile. Its profile is published by itself.
func (s *Store) PublishOVA(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.OVA) error,
) (seedbed.OVA, error) {
	return publish(ctx, s, kindOVA, name, to, readOVA, checks)
}

// OVAVolumes returns the disks of an OVA image, in their order.
func OVAVolumes(ctx context.Context, tx *sqldb.Tx, ova string) ([]seedbed.OVAVolume, error) {
	return sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.OVAVolume, err error) {
		err = r.Scan(&v.Disk, &v.Pool, &v.Image, &v.File, &v.Format, &v.Size)
		return v, err
	}, `SELECT `+diskColumns+` FROM ova_volume WHERE ova = $1 ORDER BY idx`, ova)
}

// NoOVA returns the ErrNotFound of an OVA image that does not exist.
func NoOVA(name string) error { return noObject(kindOVA, name) }

// CheckNewOVA returns ErrInvalid for an OVA image that cannot be imported.
func CheckNewOVA(o *seedbed.NewOVA) error {
	switch {
	case o == nil:
		return seedbed.Errorf(seedbed.ErrInvalid, "an OVA job needs an OVA image")
	case len(o.OVA.Volumes) == 0 || len(o.OVA.Volumes) > seedbed.MaxOVADisks || len(o.Images) != len(o.OVA.Volumes):
		return seedbed.Errorf(seedbed.ErrInvalid, "OVA image %q has %d disks: expected 1 to %d",
			sqldb.Clean(o.OVA.Name, 80), len(o.OVA.Volumes), seedbed.MaxOVADisks)
	}
	if err := seedbed.CheckOVAName(o.OVA.Name); err != nil {
		return err
	}
	return checkSystem(o.System)
}

// InsertOVA adds an OVA image that a job on node is to import, with its images, its system template
// and its profile. They cannot be used until the import succeeds.
func InsertOVA(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, node string, o *seedbed.NewOVA) error {
	s := newStored()
	if err := holdProject(ctx, tx, o.OVA.Name); err != nil {
		return err
	}
	made, err := sqldb.Affect(ctx, tx,
		`INSERT INTO ova (`+ovaColumns+`, job) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO NOTHING`,
		o.OVA.Name, seedbed.ImageImporting, s.Revision, sqldb.Micros(s.Created), sqldb.Micros(s.Changed), job)
	if err == nil && made == 0 {
		err = objectExists(kindOVA, o.OVA.Name)
	}
	if err != nil {
		return err
	}
	for i, v := range o.OVA.Volumes {
		if err := Take(ctx, tx, seedbed.Claim{Kind: ImageClaim, Key: v.Image, Job: job}, v.Image); err != nil {
			return err
		}
		if err := InsertImage(ctx, tx, o.Images[i], node); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx,
			`INSERT INTO ova_volume (`+diskColumns+`, ova, idx) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			v.Disk, v.Pool, v.Image, sqldb.Clean(v.File, 255), sqldb.Clean(v.Format, 80), v.Size, o.OVA.Name, i)
		if err != nil {
			return err
		}
	}
	t := o.System
	t.NodeLimit = sqldb.OrEmpty(t.NodeLimit)
	t.ObjectMeta = s
	insertNumbered(tx, kindSystem, intoSystem, t.Name, systemValues(t), &t.ID)
	if err := sqldb.Exec(ctx, tx, `UPDATE system_template SET ova = $1 WHERE name = $2`, o.OVA.Name, t.Name); err != nil {
		return err
	}
	p := o.Profile
	p.Revision, p.Created, p.Changed = s.Revision, s.Created, s.Changed
	if err := checkProfile(&p); err != nil {
		return err
	}
	if err := profileNames(ctx, tx, &p); err != nil {
		return err
	}
	insertProfile(tx, &p)
	return nil
}

// ActivateOVA records what the import found, and makes the images active.
func ActivateOVA(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, found []seedbed.ImageInfo) error {
	if j.Kind != seedbed.JobOVA {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s makes no OVA image: it is a %s job", j.ID.Short(), j.Kind)
	}
	for _, i := range found {
		n, err := sqldb.Affect(ctx, tx, `UPDATE image SET state = $1, size = $2, format = $3, sha256 = $4 WHERE name = $5 AND dropped = 0`,
			seedbed.ImageActive, i.Size, sqldb.Clean(i.Format, 80), sqldb.Clean(i.SHA256, 80), i.Name)
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrConflict, "job %s: image %q does not exist", j.ID.Short(), i.Name)
		}
		if err != nil {
			return err
		}
		if err := sqldb.Exec(ctx, tx, `UPDATE ova_volume SET size = $1 WHERE image = $2`, i.Size, i.Name); err != nil {
			return err
		}
	}
	return setOVAState(ctx, tx, j.Subject, seedbed.ImageActive)
}

// setOVAState sets the state of an OVA image, but not of its images.
func setOVAState(ctx context.Context, tx *sqldb.Tx, name string, to seedbed.ImageState) error {
	n, err := sqldb.Affect(ctx, tx, `UPDATE ova SET state = $1, revision = revision + 1, changed = $2 WHERE name = $3`,
		to, sqldb.Micros(sqldb.Now()), name)
	if err == nil && n == 0 {
		err = NoOVA(name)
	}
	return err
}

// SetOVA sets the state of an OVA image and of its images.
func SetOVA(ctx context.Context, tx *sqldb.Tx, name string, to seedbed.ImageState) error {
	if err := setOVAState(ctx, tx, name, to); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx,
		`UPDATE image SET state = $1 WHERE dropped = 0 AND name IN (SELECT image FROM ova_volume WHERE ova = $2)`, to, name)
}

// DropOVA deletes an OVA image with everything that came with it, except a system template that
// another profile uses. It returns the names of its images, which the caller deletes.
func DropOVA(ctx context.Context, tx *sqldb.Tx, name string) (images []string, err error) {
	volumes, err := OVAVolumes(ctx, tx, name)
	if err != nil {
		return nil, err
	}
	for _, query := range []string{
		`DELETE FROM published WHERE kind = '` + string(kindProfile) + `' AND name IN (SELECT name FROM profile WHERE ova = $1)`,
		`DELETE FROM profile WHERE ova = $1`,
		`DELETE FROM published WHERE kind = '` + string(kindSystem) + `' AND name IN (SELECT name FROM system_template WHERE ova = $1)`,
		`DELETE FROM system_template WHERE ova = $1 AND NOT EXISTS (SELECT 1 FROM profile WHERE profile.system = system_template.name)`,
		`UPDATE system_template SET ova = NULL WHERE ova = $1`,
		`DELETE FROM published WHERE kind = '` + string(kindOVA) + `' AND name = $1`,
		`DELETE FROM ova_volume WHERE ova = $1`,
		`DELETE FROM ova WHERE name = $1`,
	} {
		if err := sqldb.Exec(ctx, tx, query, name); err != nil {
			return nil, err
		}
	}
	for _, v := range volumes {
		images = append(images, v.Image)
	}
	return images, nil
}

// HeldOVA is the state of an OVA image, and the job that made it.
type HeldOVA struct {
	Job   seedbed.JobID
	State seedbed.ImageState
}

// HoldOVA locks the row of an OVA image, so that concurrent jobs see each other.
func HoldOVA(ctx context.Context, tx *sqldb.Tx, name string, missing error) (HeldOVA, error) {
	return sqldb.One(ctx, tx, func(r sqldb.Row) (h HeldOVA, err error) {
		err = r.Scan(&h.Job, &h.State)
		return h, err
	}, missing, `UPDATE ova SET state = state WHERE name = $1 RETURNING job, state`, name)
}

// LockOVA locks the row of an OVA image, and returns it.
func LockOVA(ctx context.Context, tx *sqldb.Tx, name string) (o seedbed.OVA, err error) {
	if _, err := HoldOVA(ctx, tx, name, NoOVA(name)); err != nil {
		return o, err
	}
	return readOVA(ctx, tx, name)
}

// UnusedSystem returns ErrInUse if profiles of others use the system template of an OVA image.
func UnusedSystem(ctx context.Context, tx *sqldb.Tx, ova string) error {
	users, err := sqldb.List(ctx, tx, sqldb.Value[string], `
		SELECT p.name FROM profile p JOIN system_template s ON s.name = p.system
		WHERE s.ova = $1 AND (p.ova IS NULL OR p.ova <> $1)
		ORDER BY 1`, ova)
	if err != nil || len(users) == 0 {
		return err
	}
	told := Told(ctx, users, seedbed.ProjectOf)
	if len(told) == 0 {
		return seedbed.Errorf(seedbed.ErrInUse,
			"the system template of the OVA image %q is used by other projects, to which it is, or was, published", ova)
	}
	return seedbed.Errorf(seedbed.ErrInUse, "the system template of the OVA image %q is used by profile %s: change or remove that first",
		ova, sqldb.Quoted(told))
}
