package main

import (
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/command"
	"seedbed/internal/config"
	"seedbed/internal/feedtest"
	"seedbed/internal/identity"
	"seedbed/provision/placement"
	"seedbed/provision/record"
	"seedbed/store"
)

func openStore(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "seedbed.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func guestInstance() seedbed.Instance {
	return seedbed.Instance{
		ID: "ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab", Name: "web1", Profile: "web", Image: "debian", Node: "hv1", State: seedbed.InstanceRunning,
		VCPUs: 1, Memory: seedbed.GiB, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		NICs: []seedbed.NIC{{ID: 1, MAC: seedbed.MAC{0x52, 0x54, 0, 1, 2, 3}, Network: "default", Addr: netip.MustParseAddr("10.9.0.7")}},
	}
}

// TestIdentity verifies with openssl what a guest is served, against the certificate that its
// callers get.
func TestIdentity(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openStore(t)
	c := config.Default()
	c.Metadata.Domain, c.Metadata.Partition = "example.org", "here"
	serving, err := openServing(ctx, db, c)
	if err != nil {
		t.Fatal(err)
	}
	get := served(db, serving.Renderer)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	leaf := func(name string) []byte {
		t.Helper()
		body, _, ok, err := get(ctx, guestInstance(), "/latest/dynamic/instance-identity/"+name)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		return body
	}
	document := leaf("document")
	if !strings.Contains(string(document), `"availabilityZone": "seedbed-local"`) || !strings.Contains(string(document),
		`"privateIp": "10.9.0.7"`) {
		t.Errorf("document %s", document)
	}
	site, err := db.Site(ctx)
	if err != nil {
		t.Fatal(err)
	}
	certificate := file("certificate.pem", identity.Encode(site.Certificate))
	openssl := func(args ...string) string {
		t.Helper()
		out, err := command.Run(ctx, command.Command{Name: "openssl", Args: args, Dir: dir, Timeout: time.Minute})
		if err != nil {
			t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out.Stderr)
		}
		return string(out.Stdout)
	}
	public := file("public.pem", []byte(openssl("x509", "-in", certificate, "-noout", "-pubkey")))
	signature, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(leaf("signature")), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	openssl("dgst", "-sha256", "-verify", public, "-signature", file("signature", signature), file("document", document))
	for _, name := range []string{"pkcs7", "rsa2048"} {
		der, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(leaf(name)), "\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		signed := file(name, pem.EncodeToMemory(&pem.Block{Type: "PKCS7", Bytes: der}))
		for _, tool := range []string{"smime", "cms"} {
			got := openssl(tool, "-verify", "-in", signed, "-inform", "PEM", "-certfile", certificate, "-noverify", "-nointern", "-binary")
			if d := cmp.Diff(string(document), got); d != "" {
				t.Errorf("%s of %s: %s", tool, name, d)
			}
		}
	}

	// The key pair is kept, and a signature of another installation is refused.
	again, err := openServing(ctx, db, c)
	if err != nil || !again.Renderer.Key.Equal(serving.Renderer.Key) {
		t.Errorf("at the second start: %v", err)
	}
	tampered := file("tampered", []byte(strings.Replace(string(document), "10.9.0.7", "10.9.0.8", 1)))
	if _, err := command.Run(ctx, command.Command{Name: "openssl", Args: []string{"dgst", "-sha256", "-verify", public,
		"-signature", filepath.Join(dir, "signature"), tampered}, Timeout: time.Minute}); err == nil {
		t.Error("a document that was changed is verified")
	}
}

// TestServing checks how the configuration changes what is served.
func TestServing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openStore(t)
	c := config.Default()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c.Metadata.VendorData = write("vendor", "#cloud-config\na: 1\n")
	pair, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	c.Identity = config.Identity{Key: write("key.pem", string(pair)), Certificate: write("certificate.pem",
		string(pair[strings.Index(string(pair), "-----BEGIN CERT"):]))}
	s, err := openServing(ctx, db, c)
	if err != nil {
		t.Fatal(err)
	}
	want, err := identity.Parse(pair)
	if err != nil {
		t.Fatal(err)
	}
	if string(s.VendorData) != "#cloud-config\na: 1\n" || !s.Renderer.Key.Equal(want.Key) || s.Renderer.Zone != "seedbed-local" {
		t.Errorf("serving %q, zone %s", s.VendorData, s.Renderer.Zone)
	}
	if s.Placement != (placement.Config{Selector: seedbed.SelectMem, MemoryOvercommit: 1}) {
		t.Errorf("placement %+v", s.Placement)
	}
	if site, err := db.Site(ctx); err != nil || string(site.Certificate) != string(want.Certificate.Raw) {
		t.Errorf("site %+v, %v", site, err)
	}
	for name, text := range map[string]string{"template": "## template: seedbed\n${HOME}\n", "large": strings.Repeat("x", 1<<20+1)} {
		c.Metadata.VendorData = write(name, text)
		if _, err := openServing(ctx, db, c); err == nil || !strings.Contains(err.Error(), c.Metadata.VendorData) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Metadata.VendorData = filepath.Join(dir, "none")
	if _, err := openServing(ctx, db, c); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestRefreshRecords checks that a record published with another configuration is published again.
func TestRefreshRecords(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openStore(t)
	inst := guestInstance()
	inst.NICs = nil
	_, err := db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate}, Instance: &seedbed.Instance{
		ID: inst.ID, Name: inst.Name, Node: "hv1", VCPUs: 1, Memory: seedbed.GiB}})
	if err != nil {
		t.Fatal(err)
	}
	job, err := db.ClaimJob(ctx, "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Publish(ctx, job.Ref(), "hv1", record.Renderer{Region: "old"}.Of(inst, seedbed.Guest{}),
		seedbed.Documents{UserData: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	record.Renderer{Region: "new"}.Refresh(ctx, db, slog.New(slog.DiscardHandler))
	page, err := db.FeedPage(ctx, "hv1", 0, "")
	if err != nil || len(page.Changes) != 1 || feedtest.Changes(t, page)[0].Guest.Region != "new" || feedtest.Changes(t,
		page)[0].Guest.UserData == nil {
		t.Errorf("feed %+v, %v", page.Changes, err)
	}
}
