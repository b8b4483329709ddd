package feed

import (
	"fmt"
	"iter"
	"maps"

	"seedbed"
)

// shards holds the guests of a state, split by the last byte of their ID, so that a changed copy
// shares most shards.
type shards struct {
	shard [256]map[uuid]packed
	size  int
}

func (s *shards) find(u uuid) (packed, bool) {
	p, ok := s.shard[u[15]][u]
	return p, ok
}

func (s *shards) all() iter.Seq2[uuid, packed] {
	return func(yield func(uuid, packed) bool) {
		for _, part := range s.shard {
			for u, p := range part {
				if !yield(u, p) {
					return
				}
			}
		}
	}
}

// each returns the records, as unpack makes them.
func (s *shards) each(unpack unpacker) iter.Seq2[seedbed.InstanceID, seedbed.Guest] {
	return func(yield func(seedbed.InstanceID, seedbed.Guest) bool) {
		for u, packed := range s.all() {
			if g, ok := unpack(u, packed); ok && !yield(g.ID, g) {
				return
			}
		}
	}
}

// one returns a function that finds a record.
func (s *shards) one(unpack unpacker) func(seedbed.InstanceID) (seedbed.Guest, bool) {
	return func(id seedbed.InstanceID) (seedbed.Guest, bool) {
		u, ok := parseUUID(id)
		if !ok {
			return seedbed.Guest{}, false
		}
		packed, ok := s.find(u)
		if !ok {
			return seedbed.Guest{}, false
		}
		return unpack(u, packed)
	}
}

// unpacker returns a record as it is served; ok is false if it cannot be.
type unpacker = func(uuid, packed) (g seedbed.Guest, ok bool)

// records are packed records with the templates that they share. They do not change once they are made.
type records struct {
	guests    *shards
	templates map[string]templateUse // by the template's text
}

func newRecords() records { return records{&shards{}, map[string]templateUse{}} }

// after returns the records with changes. If all is set, the changes are all there is.
func (r records) after(all bool, changes []change) records {
	b := r.builder(all)
	for _, c := range changes {
		if c.gone {
			b.remove(c.id)
		} else {
			b.put(c.id, c.guest)
		}
	}
	return b.records
}

// templateUse is a template and the number of guests that have it.
type templateUse struct {
	template *template
	guests   int
}

// builder is a copy of the shards and their templates that is being changed. The original does not change.
type builder struct {
	records
	copied [256]bool // shards that are copies already
}

// builder begins a change of r, or of nothing if empty is set.
func (r records) builder(empty bool) *builder {
	if empty {
		return &builder{records: newRecords()}
	}
	guests := *r.guests
	return &builder{records: records{&guests, maps.Clone(r.templates)}}
}

func (b *builder) shard(u uuid) map[uuid]packed {
	i := u[15]
	if !b.copied[i] {
		b.copied[i] = true
		b.guests.shard[i] = maps.Clone(b.guests.shard[i])
		if b.guests.shard[i] == nil {
			b.guests.shard[i] = map[uuid]packed{}
		}
	}
	return b.guests.shard[i]
}

// put adds a guest, or replaces it.
func (b *builder) put(u uuid, p packed) {
	b.remove(u)
	s, ok := b.templates[p.template.text]
	if !ok {
		s.template = p.template
	}
	s.guests++
	b.templates[s.template.text] = s
	b.shard(u)[u] = packed{p.data, s.template}
	b.guests.size++
}

func (b *builder) remove(u uuid) {
	part := b.shard(u)
	old, ok := part[u]
	if !ok {
		return
	}
	s := b.templates[old.template.text]
	if s.guests--; s.guests == 0 {
		delete(b.templates, old.template.text)
	} else {
		b.templates[old.template.text] = s
	}
	delete(part, u)
	b.guests.size--
}

// change is one packed record of a page; gone is true if it is no longer served.
type change struct {
	id    uuid
	guest packed
	gone  bool
}

// packedPage is a seedbed.FeedPage with its changes packed.
type packedPage struct {
	seedbed.FeedPage // without Changes
	changes, peers   []change
	templates        map[string]*template
}

// guestChange is a seedbed.FeedChange with its record decoded.
type guestChange struct {
	Instance seedbed.InstanceID `json:"instance"`
	Guest    *seedbed.Guest     `json:"guest"`
}

// pack checks and packs one record.
func (p *packedPage) pack(c guestChange) (change, error) {
	u, ok := parseUUID(c.Instance)
	if !ok {
		return change{}, fmt.Errorf("feed: %.80q is not an instance's ID", c.Instance)
	}
	if c.Guest == nil {
		return change{id: u, gone: true}, nil
	}
	if err := checkGuest(c); err != nil {
		return change{}, err
	}
	data, text, err := pack(*c.Guest)
	if err != nil {
		return change{}, fmt.Errorf("feed: instance %s: %w", c.Instance, err)
	}
	t, ok := p.templates[text]
	if !ok {
		if t, err = newTemplate(text); err != nil {
			return change{}, fmt.Errorf("feed: instance %s: %w", c.Instance, err)
		}
		if p.templates == nil {
			p.templates = map[string]*template{}
		}
		p.templates[text] = t
	}
	return change{id: u, guest: packed{data, t}}, nil
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
