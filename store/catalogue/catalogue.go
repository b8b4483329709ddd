package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

// maxCatalogue is the largest number of objects in a catalogue that TakeOver accepts.
const maxCatalogue = 50_000

// Catalogue returns everything of a project that instances are made from, as of one moment, with names as the
// project uses them. It leaves out the built-in empty objects.
func (s *Store) Catalogue(ctx context.Context, project string) (c seedbed.Catalogue, err error) {
	all := seedbed.NameMatch{Project: project}
	err = s.db.View(ctx, "read the catalogue", func(tx *sqldb.Tx) error {
		s := s.in(tx)
		system, err1 := s.SystemTemplates(ctx, all)
		network, err2 := s.NetworkTemplates(ctx, all)
		storage, err3 := s.StorageTemplates(ctx, all)
		documents, err4 := s.UserDataDocuments(ctx, all)
		scripts, err5 := s.Scripts(ctx, all)
		profiles, err6 := s.profiles(ctx, all)
		c = seedbed.Catalogue{
			System: each(system, seedbed.SystemOfCatalogue), Network: each(network, seedbed.NetworkOfCatalogue),
			Storage:  each(storage, seedbed.StorageOfCatalogue),
			UserData: []seedbed.CatalogueDocument{}, Scripts: []seedbed.CatalogueScript{},
			Profiles: each(profiles, seedbed.ProfileOfCatalogue),
		}
		for _, d := range documents {
			if d.Name != seedbed.Empty {
				c.UserData = append(c.UserData, seedbed.CatalogueDocument{Name: d.Name, Data: d.Data})
			}
		}
		for _, s := range scripts {
			if s.Name != seedbed.Empty {
				c.Scripts = append(c.Scripts, seedbed.CatalogueScript{Name: s.Name, Text: s.Text, Options: s.Options})
			}
		}
		inFile(&c, project)
		return errors.Join(err1, err2, err3, err4, err5, err6)
	})
	return c, err
}

// inFile leaves the project out of the names in its catalogue, so that another project or installation can import
// it. What is of another project keeps its name with that.
func inFile(c *seedbed.Catalogue, project string) {
	if project == seedbed.DefaultProject {
		return
	}
	var names []*string
	for i := range c.System {
		names = append(names, &c.System[i].Name)
	}
	for i := range c.Network {
		names = append(names, &c.Network[i].Name)
	}
	for i, t := range c.Storage {
		names = append(names, &c.Storage[i].Name)
		for n := range t.Disks {
			names = append(names, &t.Disks[n].Source)
		}
	}
	for i := range c.UserData {
		names = append(names, &c.UserData[i].Name)
	}
	for i := range c.Scripts {
		names = append(names, &c.Scripts[i].Name)
	}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		names = append(names, &p.Name, &p.Image, &p.System, &p.NetworkTemplate, &p.Storage, &p.Document, &p.Script, &p.OVA)
	}
	for _, name := range names {
		if *name != "" {
			*name = strings.TrimPrefix(seedbed.Explicit(*name), project+"/")
		}
	}
}

func each[T, R any](all []T, of func(T) R) []R {
	made := make([]R, len(all))
	for i, v := range all {
		made[i] = of(v)
	}
	return made
}

// ImportCatalogue merges a catalogue into that of a project in one transaction: it creates the objects
// that are missing and changes the others to match. An object that cannot be written, because it is
// invalid or refers to something that does not exist, is a conflict. If there is any conflict,
// nothing is written; the report says so, and the error is nil.
func (s *Store) ImportCatalogue(
	ctx context.Context, c seedbed.Catalogue, how seedbed.CatalogueImport,
) (report seedbed.CatalogueReport, err error) {
	if n := c.Objects(); n > maxCatalogue {
		return report, seedbed.Errorf(seedbed.ErrInvalid, "the catalogue has %d objects: expected at most %d", n, maxCatalogue)
	}
	err = s.db.Batch(ctx, "take over a catalogue", func(tx *sqldb.Tx) error {
		report = seedbed.CatalogueReport{Changes: []seedbed.CatalogueChange{}}
		for _, o := range s.in(tx).takeovers(c, how) {
			change, err := takeOver(ctx, tx, o, how.Keep)
			if err != nil {
				return err
			}
			report.Changes = append(report.Changes, change)
		}
		report.Applied = !how.DryRun && report.Conflicts() == 0
		if !report.Applied {
			return sqldb.ErrUnchanged // undo all changes
		}
		return nil
	})
	if report.Applied {
		s.revised.Wake() // even after an error, because the commit may have succeeded
	}
	return report, err
}

// takeover is one object of a catalogue. name is its name in the file, without a project. Its functions read
// and write in the transaction of the import.
type takeover struct {
	kind, name string
	// now returns the current object in its catalogue form, or nil if there is none.
	now          func(ctx context.Context) (any, error)
	make, change func(ctx context.Context) error
}

// takeOver creates or changes one object, and returns what was done.
func takeOver(ctx context.Context, tx *sqldb.Tx, o takeover, keep bool) (seedbed.CatalogueChange, error) {
	change := seedbed.CatalogueChange{Kind: o.kind, Name: sqldb.Clean(o.name, 80), Action: seedbed.CatalogueKept}
	err := sqldb.Savepoint(ctx, tx, func() error {
		if err := seedbed.CheckName(o.kind, o.name); err != nil {
			return err
		}
		before, err := o.now(ctx)
		if err != nil {
			return err
		}
		if before == nil {
			change.Action = seedbed.CatalogueMade
			return o.make(ctx)
		}
		if keep {
			return sqldb.ErrUnchanged
		}
		if err := o.change(ctx); err != nil {
			return err
		}
		after, err := o.now(ctx)
		if err != nil {
			return err
		}
		if same(before, after) {
			return sqldb.ErrUnchanged
		}
		change.Action = seedbed.CatalogueChanged
		return nil
	})
	if errors.Is(err, sqldb.ErrUnchanged) {
		return change, nil
	}
	if e, ok := errors.AsType[*seedbed.Error](err); ok && !errors.Is(err, seedbed.ErrUnavailable) {
		change.Action, change.Detail = seedbed.CatalogueConflict, e.Error()
		return change, nil
	}
	if err != nil {
		err = fmt.Errorf("%s %q: %w", o.kind, change.Name, err)
	}
	return change, err
}

// same reports whether the JSON forms of two objects are equal.
func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
