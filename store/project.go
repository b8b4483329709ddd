package store

import (
	"context"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// CreateProject adds a project with its security group "default", and returns it with its number. It returns ErrExists if
// there is one of that name, and ErrConflict if there was one: its jobs and its entries in the audit log stay.
func (db *DB) CreateProject(ctx context.Context, p seedbed.Project) (made seedbed.Project, err error) {
	if err := p.Check(); err != nil {
		return seedbed.Project{}, err
	}
	err = db.sql.Update(ctx, "create project "+p.Name, func(tx *sqldb.Tx) error {
		if made, err = access.AddProject(ctx, tx, p); err != nil {
			return err
		}
		group := seedbed.Qualified(p.Name, seedbed.DefaultGroup)
		_, err := instances.AddSecurityGroup(ctx, tx, seedbed.SecurityGroup{Name: group, Rules: seedbed.DefaultRules(group),
			Description: "of NICs that ask for no group"})
		return err
	})
	return made, err
}

// DeleteProject removes a project that has nothing, with its security and placement groups and what tokens of others may do in it. It
// returns ErrInUse, naming what it has, and ErrConflict for the default project.
func (db *DB) DeleteProject(ctx context.Context, name string, checks ...func(seedbed.Project) error) error {
	return db.sql.Update(ctx, "remove project "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if err := access.RemoveProject(ctx, tx, name, checks); err != nil {
			return err
		}
		if err := instances.DropSecurityGroups(ctx, tx, name); err != nil {
			return err
		}
		return instances.DropPlacementGroups(ctx, tx, name)
	})
}

// ProjectUse returns what a project has, or was promised.
func (db *DB) ProjectUse(ctx context.Context, name string) (u seedbed.Use, err error) {
	err = db.sql.View(ctx, "read the use of a project", func(tx *sqldb.Tx) error {
		if u, err = (owner{"project", name}).use(ctx, tx, "", resources{addresses: true, disks: true}); err != nil {
			return err
		}
		u.DiskIn = sqldb.OrEmptyMap(u.DiskIn)
		if u.Jobs, err = liveJobs(ctx, tx, name); err != nil {
			return err
		}
		for _, c := range []struct {
			kind access.Kind
			into *int64
		}{
			{access.Snapshots(), &u.Snapshots}, {access.Images(), &u.Images}, {access.Tokens(), &u.Tokens},
			{access.Hooks(), &u.Hooks}, {access.Endpoints(), &u.Endpoints}, {access.Networks(), &u.Networks},
			{access.SecurityGroups(), &u.SecurityGroups}, {access.FloatingAddresses(), &u.Floating},
		} {
			if *c.into, err = c.kind.Count(ctx, tx, name); err != nil {
				return err
			}
		}
		return nil
	})
	return u, err
}
