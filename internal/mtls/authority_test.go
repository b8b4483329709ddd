package mtls

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestIssue(t *testing.T) {
	t.Parallel()
	a, dir := authority(t)
	out := filepath.Join(t.TempDir(), "hv1")
	for _, role := range Roles() {
		made, err := a.Issue(out, "hv1", role, []string{"hv1.example", "10.0.0.1", "2001:db8::1", "hv1"}, 24*time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		i := open(t, Files{"f", filepath.Join(out, authorityCert), made.Cert, made.Key}, role, "hv1")
		leaf := i.held.Now().pair.Leaf
		if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve.Params().BitSize != 256 {
			t.Errorf("%s: key %T", role, leaf.PublicKey)
		}
		var want []string
		if role != Metadata {
			want = []string{"hv1", "hv1.example", "10.0.0.1", "2001:db8::1"}
		}
		if d := cmp.Diff(want, made.Hosts); d != "" {
			t.Errorf("%s: hosts %s", role, d)
		}
		if leaf.IsCA || leaf.NotAfter.After(a.cert.NotAfter) || leaf.NotBefore.Before(a.cert.NotBefore) || !made.Expires.Equal(leaf.NotAfter) ||
			leaf.SerialNumber.BitLen() < 64 {
			t.Errorf("%s: %s to %s, serial %s", role, leaf.NotBefore, leaf.NotAfter, leaf.SerialNumber)
		}
		client := slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		server := slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		if client != (role != Worker) || server != (role != Metadata) {
			t.Errorf("%s: usages %v", role, leaf.ExtKeyUsage)
		}
		for name, mode := range map[string]os.FileMode{made.Key: 0o600, made.Cert: 0o644} {
			if st, err := os.Stat(name); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", name, st.Mode(), err)
			}
		}
	}
	if st, err := os.Stat(out); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", st.Mode(), err)
	}
	if _, err := NewAuthority(dir, time.Hour); !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("a second authority: %v", err)
	}
	plane := filepath.Join(t.TempDir(), "plane")
	if _, err := a.Issue(plane, "hv_1", Metadata, nil, time.Hour, false); err != nil {
		t.Errorf("a guest plane, which nobody connects to: %v", err)
	}
	before, err := os.ReadFile(filepath.Join(out, "worker.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issue(out, "hv1", Worker, nil, time.Hour, false); !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("again: %v", err)
	}
	if _, err := a.Issue(out, "hv1", Worker, nil, time.Hour, true); err != nil {
		t.Errorf("anew: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(out, "worker.pem")); err != nil || string(after) == string(before) {
		t.Errorf("the same certificate (%v)", err)
	}
	if made, err := a.Issue(t.TempDir(), "hv_1", Control, []string{"10.0.0.9"}, time.Hour, false); err != nil || len(made.Hosts) != 1 {
		t.Errorf("a node whose name is none of DNS: %v, %v", made.Hosts, err)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".new-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	old := &Authority{cert: new(*a.cert), key: a.key}
	old.cert.NotAfter = time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		by      *Authority
		node    string
		role    Role
		host    string
		problem string
	}{
		"node":      {a, "a b", Worker, "", "node name"},
		"role":      {a, "hv1", "admin", "", "does not exist"},
		"port":      {a, "hv1", Worker, "hv1:7375", "neither a host name nor an IP address"},
		"URL":       {a, "hv1", Worker, "https://hv1", "neither a host name nor an IP address"},
		"wildcard":  {a, "hv1", Worker, "*.example", "neither a host name nor an IP address"},
		"empty":     {a, "hv1", Worker, " ", "neither a host name nor an IP address"},
		"no host":   {a, "hv_1", Worker, "", "with --host"},
		"authority": {old, "hv1", Worker, "", "the authority has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			var hosts []string
			if c.host != "" {
				hosts = []string{c.host}
			}
			_, err := c.by.Issue(out, c.node, c.role, hosts, time.Hour, false)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want %q", err, c.problem)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestOpenAuthorityRefuses(t *testing.T) {
	t.Parallel()
	a, dir := authority(t)
	w := issue(t, a, Worker, "hv1")
	for name, c := range map[string]struct {
		spoil   func(dir string) error
		kind    error
		problem string
	}{
		"none":          {os.RemoveAll, seedbed.ErrNotFound, "no authority exists in"},
		"open key":      {func(d string) error { return os.Chmod(d+"/ca.key", 0o604) }, seedbed.ErrInvalid, "has mode 0604"},
		"another's key": {func(d string) error { return copyFile(d+"/ca.key", w.Key) }, seedbed.ErrInvalid, "is not the key of an authority"},
		"no key":        {func(d string) error { return writeText(d+"/ca.key", "x") }, seedbed.ErrInvalid, "holds no private key"},
		"no authority": {func(d string) error { return errors.Join(copyFile(d+"/ca.key", w.Key), copyFile(d+"/ca.pem", w.Cert)) },
			seedbed.ErrInvalid, "is not the key of an authority"},
		"no PEM": {func(d string) error { return writeText(d+"/ca.pem", "x") }, seedbed.ErrInvalid, "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := t.TempDir()
			if err := errors.Join(copyFile(at+"/ca.pem", dir+"/ca.pem"), copyFile(at+"/ca.key", dir+"/ca.key"), c.spoil(at)); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenAuthority(at); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want %q", err, c.problem)
			}
		})
	}
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
