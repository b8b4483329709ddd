package feed

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"seedbed"
)

// state is what the node knows at one revision. It does not change once it is made.
type state struct {
	generation  string
	revision    int64
	networks    []seedbed.Network
	groups      []seedbed.SecurityGroup
	tokenKey    []byte
	site        seedbed.Site
	maintenance []seedbed.Maintenance
	records     // of the node's guests
	blobs       map[string][]byte

	peers         records
	peersRevision int64
	nodes         map[string]netip.Addr
	tunnels       map[string]seedbed.Tunnel
}

func newState() *state {
	return &state{records: newRecords(), peers: newRecords(), blobs: map[string][]byte{}}
}

func (st *state) position() position { return position{st.generation, st.revision, st.peersRevision} }

// after returns the state that a page makes of p, without new documents, and whether it differs.
func (st *state) after(page packedPage) (next *state, changed bool, err error) {
	if !page.Snapshot && page.Generation != st.generation {
		return nil, false, fmt.Errorf("feed: changes of generation %q without a snapshot, this is %q", page.Generation, st.generation)
	}
	if !page.Snapshot && page.Revision < st.revision {
		return nil, false, fmt.Errorf("feed: revision %d came after %d", page.Revision, st.revision)
	}
	next = &state{generation: page.Generation, revision: page.Revision, networks: page.Networks, groups: page.Groups, tokenKey: page.TokenKey,
		site: page.Site, maintenance: page.Maintenance, nodes: page.Nodes, tunnels: page.Tunnels}
	next.records = st.records.after(page.Snapshot, page.changes)
	if err := st.nextPeers(page, next); err != nil {
		return nil, false, err
	}
	next.blobs = make(map[string][]byte, len(st.blobs))
	for _, s := range next.templates {
		for _, b := range s.template.blobs() {
			if data, ok := st.blobs[b.SHA256]; ok {
				next.blobs[b.SHA256] = data
			}
		}
	}
	changed = page.Snapshot || len(page.changes) > 0 || page.Revision != st.revision || st.touches(page) ||
		!bytes.Equal(page.TokenKey, st.tokenKey) || !reflect.DeepEqual(page.Site, st.site) ||
		!reflect.DeepEqual(page.Maintenance, st.maintenance) || !reflect.DeepEqual(page.Networks, st.networks) ||
		!reflect.DeepEqual(page.Groups, st.groups) || !maps.Equal(page.Nodes, st.nodes) ||
		!maps.Equal(page.Tunnels, st.tunnels)
	return next, changed, nil
}

// touches reports whether a page changes the peers. It names as gone what the node has come to serve itself.
func (st *state) touches(page packedPage) bool {
	return page.Peers != nil && (page.Peers.Snapshot || slices.ContainsFunc(page.peers, func(c change) bool {
		_, known := st.peers.guests.find(c.id)
		return known || !c.gone
	}))
}

// nextPeers sets the peers of the state that a page makes.
func (st *state) nextPeers(page packedPage, next *state) error {
	switch {
	case page.Peers == nil && page.Generation != st.generation: // by a server that does not send any
		next.peers = newRecords()
	case page.Peers == nil:
		next.peers, next.peersRevision = st.peers, st.peersRevision
	case !page.Peers.Snapshot && (page.Generation != st.generation || page.Peers.Revision < st.peersRevision):
		return fmt.Errorf("feed: peers of revision %d came without a snapshot, after %d", page.Peers.Revision, st.peersRevision)
	default:
		next.peers, next.peersRevision = st.peers.after(page.Peers.Snapshot, page.peers), page.Peers.Revision
	}
	return nil
}

// follows reports whether p is a later revision of the same generation as old. A server that sends
// only such pages is asked again without backoff.
func (st *state) follows(old *state) bool {
	return st.generation == old.generation && (st.revision > old.revision || st.peersRevision > old.peersRevision)
}

// missing returns the documents that are named but missing.
func (st *state) missing() []seedbed.Blob {
	var out []seedbed.Blob
	seen := map[string]bool{}
	for _, s := range st.templates {
		for _, b := range s.template.blobs() {
			if _, ok := st.blobs[b.SHA256]; !ok && !seen[b.SHA256] {
				seen[b.SHA256] = true
				out = append(out, b)
			}
		}
	}
	return out
}

// view returns the state for the applier, without guests that lack a document.
func (st *state) view(inSync bool) seedbed.GuestPlaneState {
	blobs := st.blobs
	lacking := map[*template]bool{}
	for _, s := range st.templates {
		for _, b := range s.template.blobs() {
			if _, ok := blobs[b.SHA256]; !ok {
				lacking[s.template] = true
			}
		}
	}
	unpack := func(u uuid, g packed) (seedbed.Guest, bool) {
		if lacking[g.template] {
			return seedbed.Guest{}, false
		}
		guest, err := g.unpack(u)
		return guest, err == nil // what is stored was packed here, or checked when it was loaded
	}
	return seedbed.GuestPlaneState{
		Guests: st.guests.each(unpack), Guest: st.guests.one(unpack), Peers: st.peers.guests.each(unpack), Peer: st.peers.guests.one(unpack),
		Nodes: st.nodes, Tunnels: st.tunnels, Networks: st.networks, Groups: st.groups, TokenKey: st.tokenKey, Site: st.site,
		Maintenance: st.maintenance,
		Blob:        func(sum string) ([]byte, bool) { b, ok := blobs[sum]; return b, ok },
		Revision:    st.revision, InSync: inSync, Since: -1,
	}
}

// viewAfter returns the state for a receiver that serves old, which page changed to p.
func (st *state) viewAfter(old *state, page packedPage) seedbed.GuestPlaneState {
	s := st.view(true)
	if page.Snapshot || page.Peers != nil && page.Peers.Snapshot || len(old.missing()) > 0 {
		return s
	}
	s.Since = old.revision
	for _, c := range page.changes {
		s.Changed = append(s.Changed, c.id.id())
	}
	for _, c := range page.peers {
		s.ChangedPeers = append(s.ChangedPeers, c.id.id())
	}
	return s
}
