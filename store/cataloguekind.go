package store

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/store/sqldb"
)

// takeovers returns the objects of a catalogue, each after the objects that it refers to.
func (db *DB) takeovers(c seedbed.Catalogue, how seedbed.CatalogueImport) (all []takeover) {
	for _, t := range c.System {
		all = append(all, db.takeSystem(t.Template()))
	}
	for _, t := range c.Network {
		all = append(all, db.takeNetwork(t))
	}
	for _, t := range c.Storage {
		all = append(all, db.takeStorage(t, how))
	}
	for _, d := range c.UserData {
		all = append(all, db.takeUserData(d))
	}
	for _, s := range c.Scripts {
		all = append(all, db.takeScript(s))
	}
	for _, p := range c.Provisioner {
		all = append(all, db.takeProfile(p.Profile(), how))
	}
	for _, p := range c.Profiles {
		all = append(all, db.takeProfile(p, how))
	}
	return all
}

// found returns the object called name in its catalogue form, or nil if there is none.
func found[T, R any](ctx context.Context, name string, read func(context.Context, seedbed.NameMatch) ([]T, error), form func(T) R) (any, error) {
	all, err := read(ctx, seedbed.ExactName(name))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return form(all[0]), nil
}

func (db *DB) takeSystem(t seedbed.SystemTemplate) takeover {
	return takeover{
		kind: kindSystem, name: t.Name,
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, db.SystemTemplates, seedbed.SystemOfCatalogue)
		},
		make: func(ctx context.Context) error {
			_, err := db.CreateSystemTemplate(ctx, t)
			return err
		},
		change: func(ctx context.Context) error {
			_, err := db.ChangeSystemTemplate(ctx, t.Name, func(now *seedbed.SystemTemplate) error {
				kept := *now
				*now = t
				now.ObjectMeta, now.OVA, now.OVAID = kept.ObjectMeta, kept.OVA, kept.OVAID
				return nil
			})
			return err
		},
	}
}

func (db *DB) takeNetwork(t seedbed.CatalogueNetwork) takeover {
	fill := func(ctx context.Context) error {
		for _, vni := range t.VNIs {
			if err := db.AddTemplateNetwork(ctx, t.Name, vni, true); err != nil {
				return err
			}
		}
		return nil
	}
	return takeover{
		kind: kindNetwork, name: t.Name,
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, db.NetworkTemplates, seedbed.NetworkOfCatalogue)
		},
		make: func(ctx context.Context) error {
			if _, err := db.CreateNetworkTemplate(ctx, t.Name, t.MAC); err != nil {
				return err
			}
			return fill(ctx)
		},
		change: func(ctx context.Context) error {
			if t.MAC != "" {
				if err := t.MAC.Check(); err != nil {
					return err
				}
			}
			tx := sqldb.BatchOf(ctx)
			id, err := touchObject(ctx, tx, kindNetwork, "network_template", t.Name)
			if err != nil {
				return err
			}
			if err := sqldb.Exec(ctx, tx, `UPDATE network_template SET mac = $1 WHERE id = $2`, t.MAC, id); err != nil {
				return err
			}
			if err := sqldb.Exec(ctx, tx, `DELETE FROM network_template_net WHERE template = $1`, id); err != nil {
				return err
			}
			return fill(ctx)
		},
	}
}

func (db *DB) takeStorage(t seedbed.CatalogueStorage, how seedbed.CatalogueImport) takeover {
	fill := func(ctx context.Context) error {
		for _, d := range t.Disks {
			if how.CheckDisk != nil {
				if err := how.CheckDisk(d.Disk()); err != nil {
					return err
				}
			}
			if err := db.AddTemplateDisk(ctx, t.Name, d.Disk()); err != nil {
				return err
			}
		}
		return nil
	}
	return takeover{
		kind: kindStorage, name: t.Name,
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, db.StorageTemplates, seedbed.StorageOfCatalogue)
		},
		make: func(ctx context.Context) error {
			if _, err := db.CreateStorageTemplate(ctx, t.Name); err != nil {
				return err
			}
			return fill(ctx)
		},
		change: func(ctx context.Context) error {
			tx := sqldb.BatchOf(ctx)
			id, err := touchObject(ctx, tx, kindStorage, "storage_template", t.Name)
			if err != nil {
				return err
			}
			if err := sqldb.Exec(ctx, tx, `DELETE FROM storage_template_disk WHERE template = $1`, id); err != nil {
				return err
			}
			return fill(ctx)
		},
	}
}

func (db *DB) takeUserData(d seedbed.CatalogueDocument) takeover {
	return takeover{
		kind: kindUserData, name: d.Name,
		now: func(ctx context.Context) (any, error) {
			return found(ctx, d.Name, db.UserDataDocuments, func(d seedbed.UserDataDocument) seedbed.CatalogueDocument {
				return seedbed.CatalogueDocument{Name: d.Name, Data: d.Data}
			})
		},
		make: func(ctx context.Context) error {
			_, err := db.CreateUserData(ctx, d.Name, d.Data)
			return err
		},
		change: func(ctx context.Context) error { return db.SetUserData(ctx, d.Name, d.Data) },
	}
}

func (db *DB) takeScript(s seedbed.CatalogueScript) takeover {
	options := func(ctx context.Context) error {
		return db.SetScriptOptions(ctx, s.Name, func(o *seedbed.ScriptOptions) { *o = s.Options })
	}
	return takeover{
		kind: kindScript, name: s.Name,
		now: func(ctx context.Context) (any, error) {
			return found(ctx, s.Name, db.Scripts, func(s seedbed.Script) seedbed.CatalogueScript {
				return seedbed.CatalogueScript{Name: s.Name, Text: s.Text, Options: s.Options}
			})
		},
		make: func(ctx context.Context) error {
			if _, err := db.CreateScript(ctx, s.Name, s.Text); err != nil {
				return err
			}
			return options(ctx)
		},
		change: func(ctx context.Context) error {
			if err := db.SetScript(ctx, s.Name, s.Text); err != nil {
				return err
			}
			return options(ctx)
		},
	}
}

func (db *DB) takeProfile(p seedbed.Profile, how seedbed.CatalogueImport) takeover {
	check := func(ctx context.Context, p seedbed.Profile) error {
		if how.Check == nil {
			return nil
		}
		return how.Check(ctx, p)
	}
	return takeover{
		kind: kindProfile, name: p.Name,
		now: func(ctx context.Context) (any, error) {
			now, err := db.Profile(ctx, p.Name)
			if errors.Is(err, seedbed.ErrNotFound) {
				return nil, nil
			}
			return seedbed.ProfileOfCatalogue(now), err
		},
		make: func(ctx context.Context) error {
			if _, err := db.CreateProfile(ctx, p); err != nil {
				return err
			}
			return check(ctx, p)
		},
		change: func(ctx context.Context) error {
			now, err := db.ChangeProfile(ctx, p.Name, func(now *seedbed.Profile) error {
				*now = p
				return nil
			})
			if err != nil {
				return err
			}
			return check(ctx, now)
		},
	}
}
