package catalogue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

// ImageColumns are the columns that ScanImage reads.
const ImageColumns = `name, pool, state, size, source, format, sha256, firmware, node, created`

// ScanImage reads an image from a row of ImageColumns.
func ScanImage(r sqldb.Row) (i seedbed.Image, err error) {
	err = r.Scan(&i.Name, &i.Pool, &i.State, &i.Size, &i.Source, &i.Format, &i.SHA256, &i.Firmware, &i.Node, sqldb.ToTime(&i.Created))
	return i, err
}

// Image returns the image called name, which may still be importing.
func (s *Store) Image(ctx context.Context, name string) (seedbed.Image, error) {
	return sqldb.CachedIn(s.db, "image", name, func() (i seedbed.Image, err error) {
		err = s.db.View(ctx, "read image", func(tx *sqldb.Tx) error {
			if i, err = ReadImage(ctx, tx, name, seedbed.ErrNotFound); err != nil {
				return err
			}
			i.Published, err = imagePublished(ctx, tx, name)
			return err
		})
		return i, err
	})
}

// ReadImage reads an image. missing is the kind of the error if it does not exist. For a caller that
// uses the image, with missing ErrInvalid, an image that is being removed is ErrInvalid too.
func ReadImage(ctx context.Context, tx *sqldb.Tx, name string, missing error) (seedbed.Image, error) {
	i, err := sqldb.One(ctx, tx, ScanImage, seedbed.Errorf(missing, "image %q does not exist", sqldb.Clean(name, 80)),
		`SELECT `+ImageColumns+` FROM image WHERE name = $1 AND dropped = 0`, name)
	if err == nil && i.State == seedbed.ImageRemoving && missing == seedbed.ErrInvalid {
		err = seedbed.Errorf(missing, "image %q is being removed, or could not be: take another, or see its job", sqldb.Clean(name, 80))
	}
	return i, err
}

// useImage reads the image that a request of a project names, to use it: what does not exist, or is not
// published to the project, and what is being removed is ErrInvalid.
func useImage(ctx context.Context, tx *sqldb.Tx, project, name string) (seedbed.Image, error) {
	qualified, err := Resolve(ctx, tx, seedbed.PublishedImage, project, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.PublishedImage.Missing(seedbed.ErrInvalid, name)
	}
	if err != nil {
		return seedbed.Image{}, err
	}
	return ReadImage(ctx, tx, qualified, seedbed.ErrInvalid)
}

func imagePublished(ctx context.Context, tx *sqldb.Tx, name string) (*seedbed.Publication, error) {
	to, err := ReadPublication(ctx, tx, seedbed.PublishedImage, name)
	return Shown(to), err
}

// LockImage locks the row of an image, and returns the image.
func LockImage(ctx context.Context, tx *sqldb.Tx, name string) (i seedbed.Image, err error) {
	i, err = sqldb.LockOne(ctx, tx, ScanImage, seedbed.Errorf(seedbed.ErrNotFound, "image %q does not exist", sqldb.Clean(name, 80)),
		`UPDATE image SET name = name WHERE name = $1 AND dropped = 0 RETURNING `+ImageColumns, name)
	if err == nil {
		i.Published, err = imagePublished(ctx, tx, name)
	}
	return i, err
}

// PublishImage says to which other projects an image is published, and returns the image. It returns
// ErrNotFound, ErrInvalid for a publication that it cannot have, or the error of a check that the image as it
// was does not pass.
func (s *Store) PublishImage(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Image) error,
) (i seedbed.Image, err error) {
	err = s.db.Update(ctx, "publish image "+name, func(tx *sqldb.Tx) error {
		if i, err = LockImage(ctx, tx, name); err != nil {
			return err
		}
		if err := sqldb.Pass(i, checks); err != nil {
			return err
		}
		if err := SetPublication(ctx, tx, seedbed.PublishedImage, name, to); err != nil {
			return err
		}
		i.Published, err = imagePublished(ctx, tx, name)
		return err
	})
	return i, err
}

// Images returns all images sorted by name.
func (s *Store) Images(ctx context.Context) (all []seedbed.Image, err error) {
	err = s.db.View(ctx, "list images", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, ScanImage, `SELECT `+ImageColumns+` FROM image WHERE dropped = 0 ORDER BY name`)
		if err != nil {
			return err
		}
		to, err := ReadPublications(ctx, tx, seedbed.PublishedImage)
		for n := range all {
			all[n].Published = Shown(to[all[n].Name])
		}
		return err
	})
	return all, err
}

// InsertImage adds the image of an import job; node is where that job runs. A dropped row of the
// same name, kept for those that still refer to it, becomes the new image. It returns ErrForbidden if the
// image's project has as many as its quota allows.
func InsertImage(ctx context.Context, tx *sqldb.Tx, i seedbed.Image, node string) error {
	made, err := sqldb.Affect(ctx, tx, `
		INSERT INTO image (`+ImageColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (name) DO UPDATE SET pool = excluded.pool, state = excluded.state, size = excluded.size, source = excluded.source,
			format = excluded.format, sha256 = excluded.sha256, firmware = excluded.firmware,
			node = excluded.node, created = excluded.created, dropped = 0
		WHERE image.dropped = 1`,
		i.Name, i.Pool, seedbed.ImageImporting, i.Size, i.Source, i.Format, i.SHA256, i.Firmware, node, sqldb.Micros(sqldb.OrNow(i.Created)))
	if err == nil && made == 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "image %q exists already", i.Name)
	}
	if err != nil {
		return err
	}
	in, err := access.HoldProject(ctx, tx, seedbed.ProjectOf(i.Name))
	if err != nil {
		return err
	}
	return access.Images().Hold(ctx, tx, in)
}

// ActivateImage records what the import found, and makes the image active.
func ActivateImage(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, found seedbed.ImageInfo) error {
	if j.Kind != seedbed.JobImport {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s makes no image: it is a %s job", j.ID.Short(), j.Kind)
	}
	n, err := sqldb.Affect(ctx, tx,
		`UPDATE image SET state = $1, size = $2, format = $3, sha256 = $4, firmware = $5 WHERE name = $6 AND dropped = 0`,
		seedbed.ImageActive, found.Size, sqldb.Clean(found.Format, 80), sqldb.Clean(found.SHA256, 80), found.Firmware, j.Subject)
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrConflict, "job %s: image %q does not exist", j.ID.Short(), j.Subject)
	}
	return err
}

// DropImage removes an image and releases its name. The row stays, hidden, so that other rows can
// refer to it without checking that it exists.
func DropImage(ctx context.Context, tx *sqldb.Tx, name string) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM claim WHERE kind = $1 AND holder = $2`, ImageClaim, name); err != nil {
		return err
	}
	if err := Withdraw(ctx, tx, seedbed.PublishedImage, name); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE image SET dropped = 1 WHERE name = $1`, name)
}

// ImageClaim is the kind of claim that reserves an image's name. The unique values of an instance
// (ID, name, MACs and addresses) are claimed by the keys of its own rows.
const ImageClaim = "image"

// Take makes a claim for holder, the name of an image. If the claim is held, it returns ErrExists
// and names the job that holds it.
func Take(ctx context.Context, tx *sqldb.Tx, c seedbed.Claim, holder string) error {
	n, err := sqldb.Affect(ctx, tx, `INSERT INTO claim (kind, key, job, holder) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		c.Kind, c.Key, c.Job, holder)
	if err != nil || n == 1 {
		return err
	}
	var by seedbed.JobID
	var state seedbed.JobState
	err = tx.QueryRowContext(ctx,
		`SELECT job.id, job.state FROM claim JOIN job ON job.id = claim.job WHERE claim.kind = $1 AND claim.key = $2`,
		c.Kind, c.Key).Scan(&by, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return sqldb.ErrAgain // it was released between the two statements
	}
	if err != nil {
		return err
	}
	return &seedbed.Error{Kind: seedbed.ErrExists, Msg: taken(c, by, state), Holder: by}
}

// SetImageState sets the state of an image. It returns missing, which may be nil, if there is no such
// image.
func SetImageState(ctx context.Context, tx *sqldb.Tx, name string, to seedbed.ImageState, missing error) error {
	n, err := sqldb.Affect(ctx, tx, `UPDATE image SET state = $1 WHERE name = $2 AND dropped = 0`, to, name)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

func taken(c seedbed.Claim, by seedbed.JobID, state seedbed.JobState) string {
	if !state.Terminal() {
		return fmt.Sprintf("image %q is being imported by job %s", c.Key, by.Short())
	}
	return fmt.Sprintf("image %q exists already (imported by job %s)", c.Key, by.Short())
}

// MoveImages records that the images of one node are on another. The empty name is no node.
func MoveImages(ctx context.Context, tx *sqldb.Tx, from, to string) error {
	return sqldb.Exec(ctx, tx, `UPDATE image SET node = $1 WHERE node = $2`, to, from)
}

// HoldISO locks an image that is to be in a CD-ROM drive: a transaction that removes it waits, and then sees who uses it. It returns
// ErrInvalid unless the image is complete and in the format ISO.
func HoldISO(ctx context.Context, tx *sqldb.Tx, name string) error {
	if err := sqldb.Exec(ctx, tx, `UPDATE image SET state = state WHERE name = $1`, name); err != nil {
		return err
	}
	i, err := ReadImage(ctx, tx, name, seedbed.ErrInvalid)
	if err != nil {
		return err
	}
	return i.CheckISO()
}
