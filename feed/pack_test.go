package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"seedbed"
)

var comparable = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// fullGuest has a value in every field.
func fullGuest(n int) seedbed.Guest {
	g := guest(n)
	at := time.Date(2026, 9, 1, 12, 0, 0, 7, time.UTC)
	g.Account, g.Project = "123456789012", "acme"
	g.Image, g.VCPUs, g.Memory = "debian-12", 2, seedbed.GiB
	g.SSHKeys = []string{"ssh-ed25519 AAAA a"}
	g.UserData = &seedbed.Blob{SHA256: string(bytes.Repeat([]byte("a"), 64)), Size: 1}
	g.VendorData = &seedbed.Blob{SHA256: string(bytes.Repeat([]byte("b"), 64)), Size: 2}
	g.Disks = []seedbed.GuestDisk{{Device: "vda", Size: seedbed.GiB}}
	g.Tags = map[string]string{"Name": "a", "": "empty", "x y": "é"}
	g.Options = seedbed.MetadataOptions{Tokens: seedbed.TokensRequired, HopLimit: 3}
	g.Region, g.Zone, g.Signature = "seedbed", "seedbed-local", bytes.Repeat([]byte{0, 255}, 128)
	g.Action, g.Spot = seedbed.ActionReboot, &seedbed.Spot{Action: "stop", Time: at}
	g.Expiry = &seedbed.Expiry{Time: at, Action: seedbed.ExpiryStop}
	g.Maintenance = []seedbed.Maintenance{{ID: "instance-event-1", Code: "instance-stop", NotBefore: at, State: seedbed.MaintenanceActive}}
	g.Password, g.Created, g.Arriving = "cGFzcw==", at, true
	return g
}

func TestPack(t *testing.T) {
	t.Parallel()
	full := reflect.ValueOf(fullGuest(1))
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Errorf("fullGuest has no %s: set it, so that it is packed and unpacked here", full.Type().Field(i).Name)
		}
	}
	v6 := guest(3)
	v6.NICs = append(v6.NICs, seedbed.GuestNIC{ID: 1<<31 - 1, Network: "other", Addr: netip.MustParseAddr("fd00::1"),
		Groups: []string{"acme/web", "acme/db"}},
		seedbed.GuestNIC{Network: "none"})
	for name, g := range map[string]seedbed.Guest{
		"full": fullGuest(1), "usual": guest(2), "addresses": v6, "nothing": {ID: instance(4)},
	} {
		got := repacked(t, g)
		if diff := cmp.Diff(g, got, comparable); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if a, b := string(g.IdentityDocument()), string(got.IdentityDocument()); a != b {
			t.Errorf("%s: the identity document was %s and is %s", name, a, b)
		}
	}
}

func repacked(t interface{ Fatal(...any) }, g seedbed.Guest) seedbed.Guest {
	data, text, err := pack(g)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := newTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	u, ok := parseUUID(g.ID)
	if !ok {
		t.Fatal("ID")
	}
	got, err := packed{data, shared}.unpack(u)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTemplatesAreShared: what guests of one profile have in common is there once.
func TestTemplatesAreShared(t *testing.T) {
	t.Parallel()
	p := newState()
	var changes []seedbed.FeedChange
	for n := range 300 {
		g := fullGuest(n)
		g.Profile = fmt.Sprint("profile", n%3)
		g.Tags, g.Signature = map[string]string{"n": fmt.Sprint(n)}, []byte{byte(n)}
		changes = append(changes, seedbed.FeedChange{Instance: g.ID, Record: recordOf(g)})
	}
	next := mustAfter(t, p, seedbed.FeedPage{Snapshot: true, Generation: "g", Revision: 1, Changes: changes})
	if len(next.templates) != 3 || next.guests.size != 300 {
		t.Errorf("%d templates of %d guests", len(next.templates), next.guests.size)
	}
	for n := range 300 {
		changes[n].Record = nil
	}
	last := mustAfter(t, next, seedbed.FeedPage{Generation: "g", Revision: 2, Changes: append(changes, changes...)})
	if len(last.templates) != 0 || last.guests.size != 0 || len(all(last.view(true))) != 0 {
		t.Errorf("%d templates of %d guests are left", len(last.templates), last.guests.size)
	}
	if len(next.templates) != 3 || len(all(next.withBlobs().view(true))) != 300 {
		t.Error("the state before was changed")
	}
}

// withBlobs is p with a document for every name.
func (st *state) withBlobs() *state {
	out := *st
	out.blobs = map[string][]byte{}
	for _, b := range st.missing() {
		out.blobs[b.SHA256] = []byte{}
	}
	return &out
}

func mustAfter(t *testing.T, p *state, page seedbed.FeedPage) *state {
	t.Helper()
	packed, err := packPage(page)
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := p.after(packed)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestPages: pages of changes make what a map of the records has.
func TestPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p, want := newState(), map[seedbed.InstanceID]seedbed.Guest{}
		for revision := range int64(8) {
			page := seedbed.FeedPage{Generation: "", Revision: revision, Snapshot: rapid.IntRange(0, 5).Draw(rt, "snapshot") == 0}
			if page.Snapshot {
				want = map[seedbed.InstanceID]seedbed.Guest{}
			}
			for range rapid.IntRange(0, 5).Draw(rt, "changes") {
				g := guest(rapid.IntRange(1, 300).Draw(rt, "instance"))
				g.Profile = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "profile")
				g.Name = fmt.Sprint("r", revision)
				c := seedbed.FeedChange{Revision: revision, Instance: g.ID}
				delete(want, g.ID)
				if rapid.Bool().Draw(rt, "served") {
					c.Record, want[g.ID] = recordOf(g), g
				}
				page.Changes = append(page.Changes, c)
			}
			b, err := json.Marshal(page)
			if err != nil {
				rt.Fatal(err)
			}
			packed, err := decodePage(bytes.NewReader(b))
			if err != nil {
				rt.Fatal(err)
			}
			next, _, err := p.after(packed)
			if err != nil {
				rt.Fatal(err)
			}
			s := next.viewAfter(p, packed)
			if diff := cmp.Diff(want, all(s), comparable); diff != "" {
				rt.Fatalf("guests (-want +got):\n%s", diff)
			}
			if (s.Since == -1) != page.Snapshot || !page.Snapshot && (s.Since != p.revision || len(s.Changed) != len(page.Changes)) {
				rt.Fatalf("since %d, %d changed; page %+v", s.Since, len(s.Changed), page)
			}
			p = next
		}
	})
}

func TestParseUUID(t *testing.T) {
	t.Parallel()
	good := seedbed.NewInstanceID()
	if u, ok := parseUUID(good); !ok || u.id() != good {
		t.Errorf("%s became %s", good, u.id())
	}
	for _, bad := range []seedbed.InstanceID{"", "x", good + "0", good[1:], "EC2A0B1C-2D3E-4F56-8789-0123456789AB",
		"ec2a0b1c02d3e-4f56-8789-0123456789ab", "ec2a0b1c-2d3e-4f56-8789-0123456789ag", "ec2a0b1c-2d3e-4f56-8789-01234567-9ab"} {
		if _, ok := parseUUID(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}
