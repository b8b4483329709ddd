package netcfg

import (
	"fmt"
	"log/slog"

	"github.com/google/nftables"
)

// batch builds one atomic change of the tables.
type batch struct {
	log *slog.Logger
	// thorough is true if elements are compared even though their digest matches.
	thorough bool
	// old is what this process wrote last; nil before the first time.
	old *plan

	wrote    bool
	believed bool // elements were assumed correct by their digest
}

func reference(t *table) *nftables.Table { return &nftables.Table{Name: tableName, Family: t.family} }

// table compares one table of the kernel with what p needs.
func (b *batch) table(c *nftables.Conn, t *table, exists bool, p *plan) error {
	version, err := t.version()
	if err != nil {
		return err
	}
	ref := reference(t)
	if exists {
		same, err := t.sameRules(c, ref, version)
		if err != nil {
			return err
		}
		if same {
			have, err := t.haveDigest(c, ref)
			switch {
			case err != nil:
				return err
			case have == p.digest() && !b.thorough:
				b.believed = true
				return nil
			case len(p.ports) <= fewPorts:
				return b.elements(c, t, ref, have, p)
			case b.old != nil && have == b.old.digest() && !b.thorough:
				b.believed = true
				return b.changes(c, t, b.old, p)
			}
		}
	}
	return b.replace(c, t, exists, version, p)
}

func (b *batch) replace(c *nftables.Conn, t *table, exists bool, version string, p *plan) error {
	ref := reference(t)
	if exists {
		c.DelTable(ref)
	}
	b.wrote = true
	b.log.Info("nftables rules written", "family", familyName(t.family), "version", version, "replaced", exists, "ports", len(p.ports))
	return t.create(c, ref, version, p)
}

// elements corrects the sets of a table whose rules are correct. have is the digest in that table.
// Only the elements of few ports are listed and compared: for each part of a listing the kernel
// walks the set from its beginning, so writing many elements again is much faster.
func (b *batch) elements(c *nftables.Conn, t *table, ref *nftables.Table, have string, p *plan) error {
	want := p.digest()
	changed := 0
	for i := range t.sets {
		if t.sets[i].size != 0 {
			continue
		}
		s := t.sets[i].nft(ref)
		list, err := c.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("list set %s: %w", s.Name, err)
		}
		kernel := make(map[string]string, len(list))
		for _, e := range list {
			kernel[string(e.Key)] = t.sets[i].valueOf(e)
		}
		ch := t.sets[i].against(p, kernel)
		changed += len(ch.gone) + len(ch.added)
		if err := ch.write(c, s); err != nil {
			return err
		}
	}
	if changed > 0 && have == want {
		b.log.Warn("the filters were changed externally; restoring", "family", familyName(t.family), "elements", changed)
	}
	if changed > 0 || have != want {
		noteDigest(c, ref, want)
		b.wrote = true
	}
	return nil
}

// difference writes what changes the tables of one plan into those of the next.
func (b *batch) difference(c *nftables.Conn, t, old *table, before, after *plan) error {
	version, err := t.version()
	if err != nil {
		return err
	}
	if was, err := old.version(); err != nil {
		return err
	} else if was != version {
		return b.replace(c, t, true, version, after)
	}
	if before.digest() == after.digest() {
		return nil
	}
	return b.changes(c, t, before, after)
}

// changes writes the difference of the elements of two plans.
func (b *batch) changes(c *nftables.Conn, t *table, before, after *plan) error {
	ref := reference(t)
	for i := range t.sets {
		if err := t.sets[i].between(before, after).write(c, t.sets[i].nft(ref)); err != nil {
			return err
		}
	}
	noteDigest(c, ref, after.digest())
	b.wrote = true
	return nil
}
