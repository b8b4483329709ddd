package feed

import (
	"fmt"
	"iter"
	"maps"

	"seedbed"
)

// book holds the guests of a picture, in parts by the last byte of their ID, so that a changed copy
// shares most parts.
type book struct {
	parts [256]map[uuid]packed
	size  int
}

func (b *book) find(u uuid) (packed, bool) {
	p, ok := b.parts[u[15]][u]
	return p, ok
}

func (b *book) all() iter.Seq2[uuid, packed] {
	return func(yield func(uuid, packed) bool) {
		for _, part := range b.parts {
			for u, p := range part {
				if !yield(u, p) {
					return
				}
			}
		}
	}
}

// sharing is a template and the number of guests that have it.
type sharing struct {
	template *template
	guests   int
}

// draft is a copy of a book and its templates that is being changed. The original does not change.
type draft struct {
	guests *book
	shared map[string]sharing // by the template's text
	fresh  [256]bool          // parts that are copies already
}

// draft begins a change of p, or an empty state if empty is set.
func (p *picture) draft(empty bool) *draft {
	if empty {
		return &draft{guests: &book{}, shared: map[string]sharing{}}
	}
	guests := *p.guests
	return &draft{guests: &guests, shared: maps.Clone(p.shared)}
}

func (d *draft) part(u uuid) map[uuid]packed {
	i := u[15]
	if !d.fresh[i] {
		d.fresh[i] = true
		d.guests.parts[i] = maps.Clone(d.guests.parts[i])
		if d.guests.parts[i] == nil {
			d.guests.parts[i] = map[uuid]packed{}
		}
	}
	return d.guests.parts[i]
}

// put adds a guest, or replaces it.
func (d *draft) put(u uuid, p packed) {
	d.remove(u)
	s, ok := d.shared[p.shared.text]
	if !ok {
		s.template = p.shared
	}
	s.guests++
	d.shared[s.template.text] = s
	d.part(u)[u] = packed{p.own, s.template}
	d.guests.size++
}

func (d *draft) remove(u uuid) {
	part := d.part(u)
	old, ok := part[u]
	if !ok {
		return
	}
	s := d.shared[old.shared.text]
	if s.guests--; s.guests == 0 {
		delete(d.shared, old.shared.text)
	} else {
		d.shared[old.shared.text] = s
	}
	delete(part, u)
	d.guests.size--
}

// change is one packed record of a page; gone is true if it is no longer served.
type change struct {
	id    uuid
	guest packed
	gone  bool
}

// parcel is a seedbed.FeedPage with its changes packed.
type parcel struct {
	seedbed.FeedPage // without Changes
	changes          []change
	templates        map[string]*template
}

// guestChange is a seedbed.FeedChange with its record decoded.
type guestChange struct {
	Instance seedbed.InstanceID `json:"instance"`
	Guest    *seedbed.Guest     `json:"guest"`
}

// add checks and packs one record.
func (p *parcel) add(c guestChange) error {
	u, ok := parseUUID(c.Instance)
	if !ok {
		return fmt.Errorf("feed: %.80q is not an instance's ID", c.Instance)
	}
	if c.Guest == nil {
		p.changes = append(p.changes, change{id: u, gone: true})
		return nil
	}
	if err := checkGuest(c); err != nil {
		return err
	}
	own, text, err := pack(*c.Guest)
	if err != nil {
		return fmt.Errorf("feed: instance %s: %w", c.Instance, err)
	}
	t, ok := p.templates[text]
	if !ok {
		if t, err = newTemplate(text); err != nil {
			return fmt.Errorf("feed: instance %s: %w", c.Instance, err)
		}
		if p.templates == nil {
			p.templates = map[string]*template{}
		}
		p.templates[text] = t
	}
	p.changes = append(p.changes, change{id: u, guest: packed{own, t}})
	return nil
}

func checkGuest(c guestChange) error {
	if c.Guest.ID != c.Instance {
		return fmt.Errorf("feed: the record of instance %s is of %s", c.Instance, c.Guest.ID)
	}
	for _, b := range []*seedbed.Blob{c.Guest.UserData, c.Guest.VendorData} {
		// The digest becomes a file name, so check its form.
		if b != nil && (!sha256Form.MatchString(b.SHA256) || b.Size < 0 || b.Size > maxBlob) {
			return fmt.Errorf("feed: instance %s names the document %.80q of %d bytes", c.Instance, b.SHA256, b.Size)
		}
	}
	return nil
}
