package mtls

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	a, dir := authority(t)
	other, _ := authority(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := writeText(empty, ""); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*Files)
		role    Role
		node    string
		problem string
	}{
		"another node":     {func(*Files) {}, Worker, "hv2", `is of node "hv1", and this is hv2: issue it for that name, or set node`},
		"another role":     {func(*Files) {}, Control, "hv1", `is of ["seedbed:worker"], expected seedbed:control`},
		"no such file":     {func(f *Files) { f.Key = "/nowhere/key" }, Worker, "hv1", "cluster.worker: stat /nowhere/key: no such file"},
		"empty authority":  {func(f *Files) { f.CA = empty }, Worker, "hv1", "holds no certificate in PEM"},
		"key as authority": {func(f *Files) { f.CA = f.Key }, Worker, "hv1", "holds a PRIVATE KEY: expected only certificates"},
		"another's key":    {func(f *Files) { f.Key = issue(t, a, Worker, "hv1").Key }, Worker, "hv1", "private key does not match"},
		"another's CA":     {func(f *Files) { f.CA = issue(t, other, Worker, "hv1").CA }, Worker, "hv1", "is not trusted by"},
		"readable key":     {func(f *Files) { chmod(t, f.Key, 0o644) }, Worker, "hv1", "has mode 0644"},
		"the authority":    {func(f *Files) { f.Cert, f.Key = dir+"/ca.pem", dir+"/ca.key" }, Worker, "hv1", "expected seedbed:worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := issue(t, a, Worker, "hv1")
			c.change(&files)
			_, err := Open(files, c.role, c.node, quiet)
			if err == nil || !strings.Contains(err.Error(), c.problem) || !strings.HasPrefix(err.Error(), "cluster.worker: ") {
				t.Errorf("got %v; want %q", err, c.problem)
			}
		})
	}
}

func chmod(t *testing.T, name string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// TestOpenTakes checks that a host starts with an expired certificate, and with both authorities
// while one replaces the other.
func TestOpenTakes(t *testing.T) {
	t.Parallel()
	a, dir := authority(t)
	_, next := authority(t)
	files := issue(t, a, Worker, "hv1")
	var both []byte
	for _, d := range []string{next, dir} {
		text, err := os.ReadFile(filepath.Join(d, authorityCert))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	if err := writeText(files.CA, string(both)); err != nil {
		t.Fatal(err)
	}
	i := open(t, files, Worker, "hv1")
	if c := i.Checks(t.Context())[0]; !c.OK || c.Hint == "" { // it expires within the hour
		t.Errorf("check %+v", c)
	}
	pair := forge(t, a, Worker, "hv1", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		files.Key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i = open(t, files, Worker, "hv1")
	if c := i.Checks(t.Context())[0]; c.OK || !strings.Contains(c.Detail, "expired on") || c.Hint == "" {
		t.Errorf("check %+v", c)
	}
	if c := CheckFiles("cluster.worker", files.CA, files.Cert); c.OK || !strings.Contains(c.Detail, "expired on") {
		t.Errorf("check of the files %+v", c)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		left   time.Duration
		ok     bool
		detail string
		hint   bool
	}{
		"long":  {90 * 24 * time.Hour, true, "f is good until 2026-11-30T00:00:00Z", false},
		"soon":  {10*24*time.Hour + time.Hour, true, "f is good until 2026-09-11T01:00:00Z, in 10 days", true},
		"ended": {-time.Hour, false, "f or its issuer's certificate expired on 2026-08-31T23:00:00Z: the other hosts refuse it", true},
	} {
		got := expiry("n", "f", now.Add(c.left), now)
		if got.OK != c.ok || got.Detail != c.detail || (got.Hint != "") != c.hint {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if c := CheckFiles("n", "/nowhere/ca", "/nowhere/cert"); c.OK || c.Hint == "" {
		t.Errorf("no files: %+v", c)
	}
}

// info is a file's information with fields that a test sets.
type info struct {
	fs.FileInfo
	mode fs.FileMode
	uid  uint32
}

func (i info) Mode() fs.FileMode { return i.mode }
func (i info) Sys() any          { return &syscall.Stat_t{Uid: i.uid} }

func TestKeyMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode fs.FileMode
		uid  uint32
		ok   bool
	}{
		{0o600, 0, true}, {0o400, 1000, true}, {0o600, 1000, true},
		{0o640, 0, true}, {0o440, 0, true},
		{0o640, 1000, false}, // the group may have any members
		{0o660, 0, false}, {0o650, 0, false}, {0o644, 0, false}, {0o604, 0, false}, {0o602, 0, false}, {0o601, 1000, false}, {0o777, 0, false},
	} {
		err := checkMode("k", info{mode: c.mode, uid: c.uid})
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "run chmod 600")) {
			t.Errorf("%04o of uid %d: %v", c.mode, c.uid, err)
		}
	}
}

func FuzzCertificates(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := certificates("f", text)
		if err != nil && !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("an error of another kind: %v", err)
		}
		if err == nil && len(all) == 0 {
			t.Error("neither certificates nor an error")
		}
	})
}
