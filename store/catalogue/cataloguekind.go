package catalogue

import (
	"cmp"
	"context"
	"errors"

	"seedbed"
)

// takeovers returns the objects of a catalogue, each after the objects that it refers to.
func (s *Store) takeovers(c seedbed.Catalogue, how seedbed.CatalogueImport) (all []takeover) {
	// take adds an object with the qualified name that it has in the project.
	take := func(name *string, of func() takeover) {
		short := *name
		*name = seedbed.Qualified(cmp.Or(how.Project, seedbed.DefaultProject), short)
		o := of()
		o.name = short
		all = append(all, o)
	}
	for _, t := range c.System {
		take(&t.Name, func() takeover { return s.takeSystem(t.Template()) })
	}
	for _, t := range c.Network {
		take(&t.Name, func() takeover { return s.takeNetwork(t) })
	}
	for _, t := range c.Storage {
		take(&t.Name, func() takeover { return s.takeStorage(t, how) })
	}
	for _, d := range c.UserData {
		take(&d.Name, func() takeover { return s.takeUserData(d) })
	}
	for _, t := range c.Scripts {
		take(&t.Name, func() takeover { return s.takeScript(t) })
	}
	for _, p := range c.Provisioner {
		take(&p.Name, func() takeover { return s.takeProfile(p.Profile(), how) })
	}
	for _, p := range c.Profiles {
		take(&p.Name, func() takeover { return s.takeProfile(p, how) })
	}
	return all
}

// found returns the object called name in its catalogue form, or nil if there is none.
func found[T, R any](
	ctx context.Context, name string, read func(context.Context, seedbed.NameMatch) ([]T, error), form func(T) R,
) (any, error) {
	all, err := read(ctx, seedbed.ExactName(name))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return form(all[0]), nil
}

func (s *Store) takeSystem(t seedbed.SystemTemplate) takeover {
	return takeover{
		kind: kindSystem.Noun(),
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, s.SystemTemplates, seedbed.SystemOfCatalogue)
		},
		make: func(ctx context.Context) error {
			_, err := s.CreateSystemTemplate(ctx, t)
			return err
		},
		change: func(ctx context.Context) error {
			_, err := s.ChangeSystemTemplate(ctx, t.Name, func(now *seedbed.SystemTemplate) error {
				*now = t
				return nil
			})
			return err
		},
	}
}

func (s *Store) takeNetwork(t seedbed.CatalogueNetwork) takeover {
	change := func(ctx context.Context) error {
		_, err := s.ChangeNetworkTemplate(ctx, t.Name, func(now *seedbed.NetworkTemplate) error {
			now.MAC, now.Networks = t.MAC, nil
			for _, vni := range t.VNIs {
				if err := now.AddNetwork(vni, true); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	return takeover{
		kind: kindNetwork.Noun(),
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, s.NetworkTemplates, seedbed.NetworkOfCatalogue)
		},
		make: func(ctx context.Context) error {
			if _, err := s.CreateNetworkTemplate(ctx, t.Name, t.MAC); err != nil {
				return err
			}
			return change(ctx)
		},
		change: change,
	}
}

func (s *Store) takeStorage(t seedbed.CatalogueStorage, how seedbed.CatalogueImport) takeover {
	change := func(ctx context.Context) error {
		_, err := s.ChangeStorageTemplate(ctx, t.Name, func(now *seedbed.StorageTemplate) error {
			now.Disks = nil
			for _, d := range t.Disks {
				if how.CheckDisk != nil {
					if err := how.CheckDisk(d.Disk()); err != nil {
						return err
					}
				}
				if err := now.AddDisk(d.Disk()); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	return takeover{
		kind: kindStorage.Noun(),
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, s.StorageTemplates, seedbed.StorageOfCatalogue)
		},
		make: func(ctx context.Context) error {
			if _, err := s.CreateStorageTemplate(ctx, t.Name); err != nil {
				return err
			}
			return change(ctx)
		},
		change: change,
	}
}

func (s *Store) takeUserData(d seedbed.CatalogueDocument) takeover {
	return takeover{
		kind: kindUserData.Noun(),
		now: func(ctx context.Context) (any, error) {
			return found(ctx, d.Name, s.UserDataDocuments, func(d seedbed.UserDataDocument) seedbed.CatalogueDocument {
				return seedbed.CatalogueDocument{Name: d.Name, Data: d.Data}
			})
		},
		make: func(ctx context.Context) error {
			_, err := s.CreateUserData(ctx, d.Name, d.Data)
			return err
		},
		change: func(ctx context.Context) error {
			_, err := s.ChangeUserData(ctx, d.Name, func(now *seedbed.UserDataDocument) error {
				now.Data = d.Data
				return nil
			})
			return err
		},
	}
}

func (s *Store) takeScript(t seedbed.CatalogueScript) takeover {
	options := func(ctx context.Context) error {
		_, err := s.ChangeScriptOptions(ctx, t.Name, func(now *seedbed.Script) error {
			now.Options = t.Options
			return nil
		})
		return err
	}
	return takeover{
		kind: kindScript.Noun(),
		now: func(ctx context.Context) (any, error) {
			return found(ctx, t.Name, s.Scripts, func(has seedbed.Script) seedbed.CatalogueScript {
				return seedbed.CatalogueScript{Name: has.Name, Text: has.Text, Options: has.Options}
			})
		},
		make: func(ctx context.Context) error {
			if _, err := s.CreateScript(ctx, t.Name, t.Text); err != nil {
				return err
			}
			return options(ctx)
		},
		change: func(ctx context.Context) error {
			_, err := s.ChangeScript(ctx, t.Name, func(now *seedbed.Script) error {
				now.Text = t.Text
				return nil
			})
			if err != nil {
				return err
			}
			return options(ctx)
		},
	}
}

func (s *Store) takeProfile(p seedbed.Profile, how seedbed.CatalogueImport) takeover {
	check := func(ctx context.Context, p seedbed.Profile) error {
		if how.Check == nil {
			return nil
		}
		return how.Check(ctx, s, p)
	}
	return takeover{
		kind: kindProfile.Noun(),
		now: func(ctx context.Context) (any, error) {
			now, err := s.Profile(ctx, p.Name)
			if errors.Is(err, seedbed.ErrNotFound) {
				return nil, nil
			}
			return seedbed.ProfileOfCatalogue(now), err
		},
		make: func(ctx context.Context) error {
			if _, err := s.CreateProfile(ctx, p); err != nil {
				return err
			}
			return check(ctx, p)
		},
		change: func(ctx context.Context) error {
			now, err := s.ChangeProfile(ctx, p.Name, func(now *seedbed.Profile) error {
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
