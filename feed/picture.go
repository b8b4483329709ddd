package feed

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"

	"seedbed"
)

// State is everything that a node serves, handed over as a whole.
type State struct {
	// Guests are the instances of this node. The map belongs to the receiver;
	// what the records point to is shared and must not be changed.
	Guests   map[seedbed.InstanceID]seedbed.Guest
	Networks []seedbed.Network
	// TokenKey is the installation's 32-byte key for session tokens.
	TokenKey []byte
	// Blob finds a document by its lower-case SHA-256; every document that
	// Guests names is there, and what it returns must not be changed.
	Blob     func(sha256 string) ([]byte, bool)
	Revision int64
	// InSync is true once everything that the server had at the last contact is in here.
	InSync bool
}

// picture is what the node knows at one revision. It never changes once it is made.
type picture struct {
	generation string
	revision   int64
	networks   []seedbed.Network
	tokenKey   []byte
	guests     map[seedbed.InstanceID]seedbed.Guest
	blobs      map[string][]byte
}

func newPicture() *picture {
	return &picture{guests: map[seedbed.InstanceID]seedbed.Guest{}, blobs: map[string][]byte{}}
}

// after is the picture that a page makes of p, without new documents, and
// whether it is another.
func (p *picture) after(page seedbed.FeedPage) (next *picture, changed bool, err error) {
	if !page.Snapshot && page.Generation != p.generation {
		return nil, false, fmt.Errorf("feed: changes of generation %q without a snapshot, this is %q", page.Generation, p.generation)
	}
	if !page.Snapshot && page.Revision < p.revision {
		return nil, false, fmt.Errorf("feed: revision %d came after %d", page.Revision, p.revision)
	}
	next = &picture{generation: page.Generation, revision: page.Revision, networks: page.Networks, tokenKey: page.TokenKey}
	if page.Snapshot {
		next.guests = make(map[seedbed.InstanceID]seedbed.Guest, len(page.Changes))
	} else {
		next.guests = maps.Clone(p.guests)
	}
	for _, c := range page.Changes {
		if c.Guest == nil {
			delete(next.guests, c.Instance)
			continue
		}
		if err := checkGuest(c); err != nil {
			return nil, false, err
		}
		next.guests[c.Instance] = *c.Guest
	}
	next.blobs = make(map[string][]byte, len(p.blobs))
	for _, g := range next.guests {
		if g.UserData != nil {
			if data, ok := p.blobs[g.UserData.SHA256]; ok {
				next.blobs[g.UserData.SHA256] = data
			}
		}
	}
	changed = page.Snapshot || len(page.Changes) > 0 || page.Revision != p.revision ||
		!bytes.Equal(page.TokenKey, p.tokenKey) || !reflect.DeepEqual(page.Networks, p.networks)
	return next, changed, nil
}

func checkGuest(c seedbed.FeedChange) error {
	if c.Guest.ID != c.Instance {
		return fmt.Errorf("feed: the record of instance %s is of %s", c.Instance, c.Guest.ID)
	}
	// The digest becomes a file name.
	if b := c.Guest.UserData; b != nil && (!sha256Form.MatchString(b.SHA256) || b.Size < 0 || b.Size > maxBlob) {
		return fmt.Errorf("feed: instance %s names the document %.80q of %d bytes", c.Instance, b.SHA256, b.Size)
	}
	return nil
}

// missing are the documents that are named and not there.
func (p *picture) missing() []seedbed.Blob {
	var out []seedbed.Blob
	seen := map[string]bool{}
	for _, g := range p.guests {
		if b := g.UserData; b != nil && !seen[b.SHA256] {
			if _, ok := p.blobs[b.SHA256]; !ok {
				seen[b.SHA256] = true
				out = append(out, *b)
			}
		}
	}
	return out
}

// state is what the applier gets: without the guests whose document is not there.
func (p *picture) state(inSync bool) State {
	blobs := p.blobs
	s := State{Guests: make(map[seedbed.InstanceID]seedbed.Guest, len(p.guests)), Networks: p.networks, TokenKey: p.tokenKey,
		Blob: func(sum string) ([]byte, bool) { b, ok := blobs[sum]; return b, ok }, Revision: p.revision, InSync: inSync}
	for id, g := range p.guests {
		if g.UserData != nil {
			if _, ok := blobs[g.UserData.SHA256]; !ok {
				continue
			}
		}
		s.Guests[id] = g
	}
	return s
}
