package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"sync"
	"time"

	"seedbed"
)

// What the installation looks like. The prefix is large enough for all; a
// bridge has room for 1,023 ports, so most guests are only records.
const (
	manyGuests = 100_000
	fewGuests  = 10
	attached   = 1000 // of the many: guests with a namespace
	profiles   = 16
	userData   = 16 << 10
	bridgeName = "bench0"
	nodeName   = "bench"
)

var (
	guestPrefix = netip.MustParsePrefix("10.64.0.0/14")
	gateway     = netip.MustParseAddr("10.64.0.1")
	metadataTCP = netip.MustParseAddrPort("169.254.169.254:80")
	// The filters let guests reach the host's own DNS server, so the constant
	// server has its place: the same bridge, the same rules.
	constantTCP = netip.AddrPortFrom(gateway, 53)
)

func network() seedbed.Network {
	return seedbed.Network{Name: "bench", Bridge: bridgeName, MAC: seedbed.MAC{0x52, 0x54, 0, 0xbe, 0xbe, 1},
		Prefix: guestPrefix, Gateway: gateway, DNS: []netip.Addr{gateway}}
}

// installation is what seedbedd would have; it is the store behind the feed's server.
type installation struct {
	guests []seedbed.Guest
	blobs  map[string][]byte
	page   seedbed.FeedPage

	mu      sync.Mutex
	applied int64
	events  int64
}

// newInstallation has n guests of some profiles, each profile with user-data of
// its own.
func newInstallation(n int) *installation {
	in := &installation{blobs: map[string][]byte{}}
	var documents []*seedbed.Blob
	for p := range profiles {
		data := document(p)
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		in.blobs[name] = data
		documents = append(documents, &seedbed.Blob{SHA256: name, Size: int64(len(data))})
	}
	in.page = seedbed.FeedPage{Snapshot: true, Revision: int64(n), Generation: "bench", Networks: []seedbed.Network{network()},
		TokenKey: make([]byte, 32), Site: seedbed.Site{Domain: "seedbed.example", Partition: "seedbed", Certificate: certificate()}}
	for i := range n {
		g := guest(i, documents[i%profiles])
		in.guests = append(in.guests, g)
		record, err := json.Marshal(g)
		if err != nil {
			panic(err)
		}
		in.page.Changes = append(in.page.Changes, seedbed.FeedChange{Revision: int64(i + 1), Instance: g.ID, Record: record})
	}
	return in
}

// certificate is that of the installation, with which guests are given their
// identity as PKCS #7 as well. Nothing here is signed with its key.
func certificate() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "seedbed"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return der
}

// document is the user-data of a profile.
func document(profile int) []byte {
	text := fmt.Sprintf("#cloud-config\n# profile %d\n", profile)
	for len(text) < userData {
		text += fmt.Sprintf("# %08x of profile %d\n", len(text), profile)
	}
	return []byte(text[:userData])
}

// guest is the i-th instance: everything that an ordinary one has.
func guest(i int, userData *seedbed.Blob) seedbed.Guest {
	sum := sha256.Sum256(fmt.Appendf(nil, "guest %d", i))
	h := hex.EncodeToString(sum[:])
	a := guestPrefix.Addr().As4()
	host := uint32(i + 256)
	a[1] += byte(host >> 16)
	a[2], a[3] = byte(host>>8), byte(host)
	signature := make([]byte, 0, 256)
	for range 8 {
		sum = sha256.Sum256(sum[:])
		signature = append(signature, sum[:]...)
	}
	return seedbed.Guest{
		ID:   seedbed.InstanceID("ec2" + h[:5] + "-" + h[5:9] + "-4" + h[9:12] + "-8" + h[12:15] + "-" + h[15:27]),
		Name: fmt.Sprintf("guest-%d", i), Profile: fmt.Sprintf("profile-%d", i%profiles), Image: "debian-12",
		VCPUs: 2, Memory: 2 << 30, UserData: userData,
		NICs: []seedbed.GuestNIC{{ID: seedbed.NICID(i + 1), Network: "bench", Addr: netip.AddrFrom4(a),
			MAC: seedbed.MAC{0x52, 0x54, 1, byte(i >> 16), byte(i >> 8), byte(i)}}},
		SSHKeys: []string{
			fmt.Sprintf("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO7bQk1zXhvY3y1b5oGmJ5g7u2hX1p8l4Q0s6n9dR2Tf team-%d@example.org", i%profiles),
		},
		Disks:  []seedbed.GuestDisk{{Device: "vda", Size: 20 << 30}},
		Tags:   map[string]string{"role": "web", "owner": fmt.Sprintf("team-%d", i%profiles)},
		Region: "seedbed", Zone: "seedbed-local", Signature: signature,
		ReportToken: h[32:64], Created: time.Date(2026, 9, 1, 12, 0, i%86400, 0, time.UTC), Node: nodeName,
	}
}

// FeedPage implements feed.Source.
func (in *installation) FeedPage(_ context.Context, _ string, since int64, generation string) (seedbed.FeedPage, error) {
	p := in.page
	if generation == p.Generation && since == p.Revision {
		p.Snapshot, p.Changes = false, nil
	}
	return p, nil
}

// Peers implements feed.Source: there is one node.
func (in *installation) Peers(context.Context, string, int64, string) (seedbed.PeerPage, error) {
	return seedbed.PeerPage{}, nil
}

// NodeBlob implements feed.Guests.
func (in *installation) NodeBlob(_ context.Context, _, sum string) ([]byte, error) {
	if b, ok := in.blobs[sum]; ok {
		return b, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "no document %s", sum)
}

// NodeGuests implements feed.Guests: all are of the one node.
func (in *installation) NodeGuests(_ context.Context, _ string, ids []seedbed.InstanceID) ([]seedbed.InstanceID, error) {
	return ids, nil
}

// Hint implements feed.Source: nothing is ever written.
func (in *installation) Hint() <-chan struct{} { return nil }

// FeedHint returns nil: there is nothing to wait for.
func (in *installation) FeedHint() <-chan struct{} { return nil }

// SetApplied implements feed.Sink.
func (in *installation) SetApplied(_ context.Context, _ string, revision int64, _ time.Time) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.applied = revision
	return nil
}

// AddGuestEvents implements feed.Sink.
func (in *installation) AddGuestEvents(_ context.Context, _, _ string, events []seedbed.GuestEvent) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.events += int64(len(events))
	return nil
}

// served is the revision that a daemon says it serves.
func (in *installation) served() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.applied
}
