package feed

import (
	"bytes"
	"fmt"
	"reflect"

	"seedbed"
)

// picture is what the node knows at one revision. It does not change once it is made.
type picture struct {
	generation  string
	revision    int64
	networks    []seedbed.Network
	tokenKey    []byte
	site        seedbed.Site
	maintenance []seedbed.Maintenance
	guests      *book
	shared      map[string]sharing
	blobs       map[string][]byte
}

func newPicture() *picture {
	return &picture{guests: &book{}, shared: map[string]sharing{}, blobs: map[string][]byte{}}
}

// after returns the state that a page makes of p, without new documents, and whether it differs.
func (p *picture) after(page parcel) (next *picture, changed bool, err error) {
	if !page.Snapshot && page.Generation != p.generation {
		return nil, false, fmt.Errorf("feed: changes of generation %q without a snapshot, this is %q", page.Generation, p.generation)
	}
	if !page.Snapshot && page.Revision < p.revision {
		return nil, false, fmt.Errorf("feed: revision %d came after %d", page.Revision, p.revision)
	}
	next = &picture{generation: page.Generation, revision: page.Revision, networks: page.Networks, tokenKey: page.TokenKey,
		site: page.Site, maintenance: page.Maintenance}
	d := p.draft(page.Snapshot)
	for _, c := range page.changes {
		if c.gone {
			d.remove(c.id)
		} else {
			d.put(c.id, c.guest)
		}
	}
	next.guests, next.shared = d.guests, d.shared
	next.blobs = make(map[string][]byte, len(p.blobs))
	for _, s := range next.shared {
		for _, b := range s.template.blobs() {
			if data, ok := p.blobs[b.SHA256]; ok {
				next.blobs[b.SHA256] = data
			}
		}
	}
	changed = page.Snapshot || len(page.changes) > 0 || page.Revision != p.revision ||
		!bytes.Equal(page.TokenKey, p.tokenKey) || !reflect.DeepEqual(page.Site, p.site) ||
		!reflect.DeepEqual(page.Maintenance, p.maintenance) || !reflect.DeepEqual(page.Networks, p.networks)
	return next, changed, nil
}

// follows reports whether p is a later revision of the same generation as old. A server that sends
// only such pages is asked again without backoff.
func (p *picture) follows(old *picture) bool {
	return p.generation == old.generation && p.revision > old.revision
}

// missing returns the documents that are named but missing.
func (p *picture) missing() []seedbed.Blob {
	var out []seedbed.Blob
	seen := map[string]bool{}
	for _, s := range p.shared {
		for _, b := range s.template.blobs() {
			if _, ok := p.blobs[b.SHA256]; !ok && !seen[b.SHA256] {
				seen[b.SHA256] = true
				out = append(out, b)
			}
		}
	}
	return out
}

// state returns the state for the applier, without guests that lack a document.
func (p *picture) state(inSync bool) seedbed.GuestPlaneState {
	blobs := p.blobs
	lacking := map[*template]bool{}
	for _, s := range p.shared {
		for _, b := range s.template.blobs() {
			if _, ok := blobs[b.SHA256]; !ok {
				lacking[s.template] = true
			}
		}
	}
	unpack := func(u uuid, g packed) (seedbed.Guest, bool) {
		if lacking[g.shared] {
			return seedbed.Guest{}, false
		}
		guest, err := g.unpack(u)
		return guest, err == nil // what is stored was packed here, or checked when it was loaded
	}
	guests := p.guests
	return seedbed.GuestPlaneState{
		Guests: func(yield func(seedbed.InstanceID, seedbed.Guest) bool) {
			for u, packed := range guests.all() {
				if g, ok := unpack(u, packed); ok && !yield(g.ID, g) {
					return
				}
			}
		},
		Guest: func(id seedbed.InstanceID) (seedbed.Guest, bool) {
			u, ok := parseUUID(id)
			if !ok {
				return seedbed.Guest{}, false
			}
			packed, ok := guests.find(u)
			if !ok {
				return seedbed.Guest{}, false
			}
			return unpack(u, packed)
		},
		Networks: p.networks, TokenKey: p.tokenKey, Site: p.site, Maintenance: p.maintenance,
		Blob:     func(sum string) ([]byte, bool) { b, ok := blobs[sum]; return b, ok },
		Revision: p.revision, InSync: inSync, Since: -1,
	}
}

// stateAfter returns the state for a receiver that serves old, which page changed to p.
func (p *picture) stateAfter(old *picture, page parcel) seedbed.GuestPlaneState {
	s := p.state(true)
	if page.Snapshot || len(old.missing()) > 0 {
		return s
	}
	s.Since = old.revision
	for _, c := range page.changes {
		s.Changed = append(s.Changed, c.id.id())
	}
	return s
}
