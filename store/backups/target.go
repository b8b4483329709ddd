package backups

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

const targetColumns = `name, settings, secret, identity, name_key, revision, created, changed`

func scanTarget(r sqldb.Row) (t seedbed.BackupTarget, err error) {
	err = r.Scan(&t.Name, sqldb.ToJSON(&t.BackupSettings), &t.Secret, &t.Identity, &t.NameKey, &t.Revision, sqldb.ToTime(&t.Created),
		sqldb.ToTime(&t.Changed))
	return t, err
}

func noTarget(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "backup target %q does not exist", sqldb.Clean(name, 80))
}

// CreateBackupTarget adds a target. It returns ErrInvalid for one that is not valid, and ErrExists if there is one of that name.
func (s *Store) CreateBackupTarget(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupTarget, error) {
	if err := t.Check(); err != nil {
		return seedbed.BackupTarget{}, err
	}
	t.Revision, t.Created = 1, sqldb.Now()
	t.Changed = t.Created
	err := s.db.Update(ctx, "create backup target "+t.Name, func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx,
			`INSERT INTO backup_target (`+targetColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT DO NOTHING`,
			t.Name, sqldb.AsJSON(t.BackupSettings), string(t.Secret), string(t.Identity), string(t.NameKey), t.Revision, sqldb.Micros(t.Created))
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "backup target %q exists already", t.Name)
		}
		return err
	})
	if err != nil {
		return seedbed.BackupTarget{}, err
	}
	return t, nil
}

// BackupTarget returns the target of that name, with its secrets.
func (s *Store) BackupTarget(ctx context.Context, name string) (t seedbed.BackupTarget, err error) {
	err = s.db.View(ctx, "read backup target", func(tx *sqldb.Tx) error {
		t, err = sqldb.One(ctx, tx, scanTarget, noTarget(name), `SELECT `+targetColumns+` FROM backup_target WHERE name = $1`, name)
		return err
	})
	return t, err
}

// BackupTargets returns all targets sorted by name, with their secrets.
func (s *Store) BackupTargets(ctx context.Context) (all []seedbed.BackupTarget, err error) {
	err = s.db.View(ctx, "list backup targets", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanTarget, `SELECT `+targetColumns+` FROM backup_target ORDER BY name`)
		return err
	})
	return all, err
}

func lockTarget(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.BackupTarget, error) {
	return sqldb.LockOne(ctx, tx, scanTarget, noTarget(name),
		`UPDATE backup_target SET revision = revision WHERE name = $1 RETURNING `+targetColumns, name)
}

// ChangeBackupTarget applies change to a target. The name cannot change.
func (s *Store) ChangeBackupTarget(
	ctx context.Context, name string, change func(*seedbed.BackupTarget) error,
) (t seedbed.BackupTarget, err error) {
	err = s.db.Update(ctx, "change backup target "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if t, err = lockTarget(ctx, tx, name); err != nil {
			return err
		}
		was := t
		if err := change(&t); err != nil {
			return err
		}
		t.Name = was.Name
		if err := t.Check(); err != nil {
			return err
		}
		t.Revision, t.Changed = was.Revision+1, sqldb.Now()
		return sqldb.Exec(ctx, tx,
			`UPDATE backup_target SET settings = $1, secret = $2, identity = $3, name_key = $4, revision = $5, changed = $6 WHERE name = $7`,
			sqldb.AsJSON(t.BackupSettings), string(t.Secret), string(t.Identity), string(t.NameKey), t.Revision, sqldb.Micros(t.Changed), name)
	})
	return t, err
}

// DeleteBackupTarget removes a target, which must pass the checks. What is in it stays there. It returns ErrInUse if a schedule has it.
func (s *Store) DeleteBackupTarget(ctx context.Context, name string, checks ...func(seedbed.BackupTarget) error) error {
	return s.db.Update(ctx, "remove backup target "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		t, err := lockTarget(ctx, tx, name)
		if err == nil {
			err = sqldb.Pass(t, checks)
		}
		if err != nil {
			return err
		}
		schedule, err := sqldb.One(ctx, tx, sqldb.Value[string], nil,
			`SELECT name FROM schedule WHERE target = $1 ORDER BY name LIMIT 1`, name)
		if err == nil && schedule != "" {
			err = seedbed.Errorf(seedbed.ErrInUse, "backup target %q is that of schedule %s; remove that first (seedbed backup schedule remove %s)",
				name, schedule, schedule)
		}
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM backup_target WHERE name = $1`, name)
	})
}
