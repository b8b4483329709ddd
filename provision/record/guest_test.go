package record

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestRenderer(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	inst := seedbed.Instance{
		ID: "ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab", Project: "acme", Account: "123456789012", Name: "web1", Profile: "web", Image: "debian",
		Node:  "hv1",
		State: seedbed.InstanceRunning,
		VCPUs: 2, Memory: seedbed.GiB, UserData: []byte("x"), VendorData: []byte("y"), SSHKeys: []string{"k"}, ReportToken: "t", Password: "p",
		Metadata: seedbed.MetadataOptions{Tokens: "required"}.WithDefaults(seedbed.MetadataOptions{}), Tags: map[string]string{"a": "b"},
		Spot: &seedbed.Spot{Action: "stop"}, Expiry: &seedbed.Expiry{Action: seedbed.ExpiryStop},
		Created: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC),
		NICs:    []seedbed.NIC{{ID: 7, MAC: seedbed.MAC{0x52}, Network: "default", Addr: netip.MustParseAddr("10.9.0.7")}},
		Volumes: []seedbed.Volume{{Size: seedbed.GiB}, {Index: 1, Size: seedbed.MiB}},
	}
	r := Renderer{Region: "seedbed", Zone: "seedbed-local", Key: key}
	got := r.Of(inst, seedbed.Guest{})
	sum := sha256.Sum256(got.IdentityDocument())
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], got.Signature); err != nil {
		t.Error(err)
	}
	want := seedbed.Guest{
		ID: inst.ID, Account: "123456789012", Name: "web1", Project: "acme", Profile: "web", Image: "debian", VCPUs: 2, Memory: seedbed.GiB,
		SSHKeys: []string{"k"},
		NICs:    []seedbed.GuestNIC{{ID: 7, MAC: seedbed.MAC{0x52}, Network: "default", Addr: netip.MustParseAddr("10.9.0.7")}},
		Disks:   []seedbed.GuestDisk{{Device: "vda", Size: seedbed.GiB}, {Device: "vdb", Size: seedbed.MiB}},
		Options: seedbed.MetadataOptions{Tokens: "required"}, Tags: map[string]string{"a": "b"}, Region: "seedbed", Zone: "seedbed-local",
		Spot: &seedbed.Spot{Action: "stop"}, Expiry: &seedbed.Expiry{Action: seedbed.ExpiryStop},
		Password: "p", ReportToken: "t", Node: "hv1", Signature: got.Signature,
		Created: inst.Created,
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	record := reflect.ValueOf(got)
	for i := range record.NumField() {
		name := record.Type().Field(i).Name
		if record.Field(i).IsZero() && !slices.Contains([]string{"UserData", "VendorData", "Maintenance", "Action", "Arriving"}, name) {
			t.Errorf("the record has no %s: Of fills it in, and the instance of this test needs a value for it", name)
		}
	}

	// A signature is kept while it is this key's signature of the same document.
	old := got
	old.Signature = nil
	if again := r.Of(inst, old); cmp.Diff(got.Signature, again.Signature) != "" {
		t.Error("another signature of the same document")
	}
	inst.State = seedbed.InstanceRemoving
	if g := r.Of(inst, got); g.Action != seedbed.ActionShutdown {
		t.Errorf("action %q", g.Action)
	}
	moved := Renderer{Region: "r2", Zone: "r2-a", Key: key}.Of(inst, got)
	if cmp.Diff(got.Signature, moved.Signature) == "" {
		t.Error("the signature is that of another document")
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r.Key = other
	renewed := r.Of(inst, got)
	sum = sha256.Sum256(renewed.IdentityDocument())
	if err := rsa.VerifyPKCS1v15(&other.PublicKey, crypto.SHA256, sum[:], renewed.Signature); err != nil {
		t.Errorf("after the key was changed: %v", err)
	}
	if g := (Renderer{}).Of(inst, got); g.Signature != nil {
		t.Error("signed without a key")
	}
}
