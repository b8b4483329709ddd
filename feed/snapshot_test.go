package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestSnapshotFile: what is stored is loaded.
func TestSnapshotFile(t *testing.T) {
	t.Parallel()
	for name, guests := range map[string][]seedbed.Guest{"none": nil, "one": {fullGuest(1)}, "several": {fullGuest(1),
		fullGuest(2), guest(3), {ID: instance(600)}}} {
		page := seedbed.FeedPage{Snapshot: true, Generation: "g", Revision: 7, TokenKey: bytes.Repeat([]byte{1}, 32),
			Networks: []seedbed.Network{{Name: "default", Bridge: "seedbed0"}}, Site: seedbed.Site{Domain: "d", Certificate: []byte{1}},
			Maintenance: []seedbed.Maintenance{{ID: "instance-event-1", NotBefore: time.Unix(1, 0).UTC()}},
			Groups:      []seedbed.SecurityGroup{{Name: "db", Rules: []seedbed.SecurityRule{{Direction: seedbed.DirectionIn, Group: "web"}}}},
			Nodes:       map[string]netip.Addr{"hv2": netip.MustParseAddr("192.0.2.2")},
			Tunnels:     map[string]seedbed.Tunnel{"hv2": {Key: seedbed.TunnelKey{1}, Port: 51820}}}
		page.Peers = &seedbed.PeerPage{Snapshot: true, Revision: 9}
		for _, g := range guests {
			page.Changes = append(page.Changes, seedbed.FeedChange{Instance: g.ID, Record: recordOf(g)})
			peer := guest(700)
			page.Peers.Changes = append(page.Peers.Changes, seedbed.FeedChange{Instance: peer.ID, Record: recordOf(peer)})
		}
		want := mustAfter(t, newState(), page)
		var b bytes.Buffer
		if err := writeSnapshot(&b, "node1", want); err != nil {
			t.Fatal(err)
		}
		got, node, err := readSnapshot(strings.TrimPrefix(b.String(), snapshotMagic))
		if err != nil || node != "node1" {
			t.Fatalf("%s: node %q, %v", name, node, err)
		}
		if diff := cmp.Diff(all(want.withBlobs().view(false)), all(got.withBlobs().view(false)), comparable); diff != "" {
			t.Errorf("%s: guests (-want +got):\n%s", name, diff)
		}
		same := packedPage{FeedPage: seedbed.FeedPage{Generation: "g", Revision: 7, TokenKey: page.TokenKey, Networks: page.Networks,
			Site: page.Site, Maintenance: page.Maintenance, Groups: page.Groups, Nodes: page.Nodes, Tunnels: page.Tunnels}}
		if _, changed, err := got.after(same); err != nil || changed {
			t.Errorf("%s: the same page is a change, %v", name, err)
		}
		same.Tunnels = nil
		if _, changed, err := got.after(same); err != nil || !changed {
			t.Errorf("%s: a page without a tunnel is no change, %v", name, err)
		}
		if diff := cmp.Diff(peersOf(want.view(false)), peersOf(got.view(false))); diff != "" || got.peersRevision != 9 {
			t.Errorf("%s: peers of revision %d (-want +got):\n%s", name, got.peersRevision, diff)
		}
		if len(got.templates) != len(want.templates) {
			t.Errorf("%s: %d templates, want %d", name, len(got.templates), len(want.templates))
		}
	}
}

// TestFirstForm: a file of the first release is loaded, and written in the new form.
func TestFirstForm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := disk{dir, quiet}
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	document := []byte("#cloud-config\n")
	sum := sha256.Sum256(document)
	g := guest(1)
	g.UserData = &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(document))}
	body, err := json.Marshal(map[string]any{"node": "node1", "generation": "g1", "revision": 5, "token_key": bytes.Repeat([]byte{1}, 32),
		"networks": []seedbed.Network{{Name: "default", Bridge: "seedbed0"}}, "guests": []seedbed.Guest{g, guest(2)}})
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(body)
	for path, data := range map[string][]byte{
		d.snapshotPath():                       append([]byte("seedbed-feed 1 "+hex.EncodeToString(digest[:])+"\n"), body...),
		d.blobPath(hex.EncodeToString(sum[:])): document,
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := d.load("node1")
	if err != nil {
		t.Fatal(err)
	}
	check := func(p *state) {
		t.Helper()
		s := p.view(false)
		if len(all(s)) != 2 || s.Revision != 5 || len(s.TokenKey) != 32 || len(s.Networks) != 1 || userData(t, s,
			instance(1)) != string(document) {
			t.Errorf("state %+v of %d guests", s, len(all(s)))
		}
	}
	check(p)
	if err := d.store("node1", p, nil); err != nil {
		t.Fatal(err)
	}
	if p, err = d.load("node1"); err != nil {
		t.Fatal(err)
	}
	check(p)
	if b, err := os.ReadFile(filepath.Join(dir, "feed.snapshot")); err != nil || !strings.HasPrefix(string(b), snapshotMagic) {
		t.Errorf("the file begins %.20q, %v", b, err)
	}
}

// FuzzSnapshot: no content makes the reader panic, and what it takes it can write and take again.
func FuzzSnapshot(f *testing.F) {
	for _, guests := range [][]seedbed.Guest{nil, {fullGuest(1), guest(2)}} {
		page := seedbed.FeedPage{Snapshot: true, Peers: &seedbed.PeerPage{Snapshot: true}}
		for _, g := range guests {
			page.Changes = append(page.Changes, seedbed.FeedChange{Instance: g.ID, Record: recordOf(g)})
		}
		page.Peers.Changes = page.Changes
		packed, err := packPage(page)
		if err != nil {
			f.Fatal(err)
		}
		p, _, err := newState().after(packed)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := writeSnapshot(&b, "n", p); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String()[len(snapshotMagic) : b.Len()-sha256.Size])
	}
	f.Fuzz(func(t *testing.T, body string) {
		p, node, err := readBody(body)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := writeSnapshot(&b, node, p); err != nil {
			t.Fatal(err)
		}
		again, _, err := readSnapshot(strings.TrimPrefix(b.String(), snapshotMagic))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all(p.withBlobs().view(false)), all(again.withBlobs().view(false)), comparable); diff != "" {
			t.Fatalf("guests (-want +got):\n%s", diff)
		}
	})
}

// FuzzPage: no page makes the reader panic, and each record that it takes is whole.
func FuzzPage(f *testing.F) {
	g := fullGuest(1)
	b, err := json.Marshal(seedbed.FeedPage{Snapshot: true, Revision: 1, Changes: []seedbed.FeedChange{{Instance: g.ID,
		Record: recordOf(g)}, {Instance: instance(2)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"changes":null,"snapshot":true}`))
	f.Add([]byte(`{"changes":[{}]}`))
	f.Add([]byte(`{"changes":[],"peers":{"snapshot":true,"changes":[{}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		page, err := decodePage(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, c := range append(page.changes, page.peers...) {
			if c.gone {
				continue
			}
			if _, err := c.guest.unpack(c.id); err != nil {
				t.Fatal(err)
			}
		}
	})
}
