package metadata

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var goldenPaths = []string{
	"/", "/latest", "/latest/", "/latest/meta-data", "/latest/meta-data/",
	"/latest/meta-data/hostname", "/latest/meta-data/instance-id", "/latest/meta-data/local-hostname",
	"/latest/meta-data/local-ipv4", "/latest/meta-data/mac", "/latest/meta-data/instance-id/",
	"/latest/meta-data/public-keys", "/latest/meta-data/public-keys/",
	"/latest/meta-data/public-keys/0", "/latest/meta-data/public-keys/0/",
	"/latest/meta-data/public-keys/0/openssh-key", "/latest/meta-data/public-keys/1/openssh-key",
	"/latest/meta-data/public-keys/2", "/latest/meta-data/public-keys/0=admin@example.org",
	"/latest/user-data", "/latest/user-data/", "/latest/dynamic", "/latest/dynamic/",
	"/latest/dynamic/instance-identity", "/latest/dynamic/instance-identity/",
	"/latest/dynamic/instance-identity/document",
	"/1.0/meta-data/instance-id", "/2009-04-04/meta-data/instance-id", "/2099-12-31/meta-data/instance-id",
	"//latest//meta-data//instance-id", "/latest/meta-data/instance-id?x=y",
	"/Latest/meta-data/instance-id", "/latest/Meta-Data/", "/2009-4-4/meta-data/", "/1.1/", "/2009-04-04x/",
	"/latest/meta-data/../user-data", "/latest/meta-data/%69nstance-id", "/latest/api", "/latest/meta-data/ami-id",
	"/latest/meta-data/network/", "/favicon.ico", "/seedbed/", "/seedbed/report/report-token-of-a",
}

// TestGoldenTree fixes every answer, byte for byte.
func TestGoldenTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		guest seedbed.Guest
		data  map[seedbed.InstanceID][]byte
	}{
		{"full", guestA(), map[seedbed.InstanceID][]byte{idA: []byte("#!/bin/sh\r\necho \x00\xff\n")}},
		{"bare", guestB(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(tt.data, tt.guest))
			c := l.client(tt.guest.NICs[0].Addr)
			var b strings.Builder
			for _, path := range goldenPaths {
				r := l.do(c, "GET", path)
				fmt.Fprintf(&b, "GET %s\n%d %s\n%q\n\n", path, r.status, r.header.Get("Content-Type"), r.body)
				checkShape(t, path, r)
				head := l.do(c, "HEAD", path)
				if head.status != r.status || head.length != r.length || head.body != "" {
					t.Errorf("HEAD %s: %d with length %d, GET: %d with %d", path, head.status, head.length, r.status, r.length)
				}
			}
			golden(t, filepath.Join("testdata", tt.name+".golden"), b.String())
		})
	}
}

func checkShape(t *testing.T, path string, r reply) {
	t.Helper()
	if r.length != int64(len(r.body)) {
		t.Errorf("%s: Content-Length %d for %d bytes", path, r.length, len(r.body))
	}
	if got := r.header.Get("Server"); got != "EC2ws" {
		t.Errorf("%s: Server %q", path, got)
	}
	if r.header.Get("Content-Encoding") != "" || r.header.Get("Location") != "" {
		t.Errorf("%s: headers %v", path, r.header)
	}
	if r.status == http.StatusOK && !strings.HasSuffix(strings.TrimRight(path, "/"), "user-data") && strings.HasSuffix(r.body, "\n") {
		t.Errorf("%s: value ends in a line feed", path)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestUserDataBytes serves awkward documents as they are.
func TestUserDataBytes(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, doc := range map[string][]byte{
		"empty": {}, "nul": {0}, "gzip": {0x1f, 0x8b, 8, 0, 0}, "base64": []byte("dGVzdA=="),
		"crlf": []byte("a\r\n\r\nb\n\n"), "big": big, "html": []byte("<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: doc}, guestA()))
			r := l.want(l.client(addrA), 200, "GET", "/latest/user-data", "Accept-Encoding", "gzip, deflate")
			if r.body != string(doc) {
				t.Errorf("%d bytes came as %d others", len(doc), len(r.body))
			}
			if got := r.header.Get("Content-Type"); got != typeData {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
}

func TestKeyNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, want string }{
		{keyA, "admin@example.org"},
		{"ssh-rsa AAAAB3", ""},
		{"ssh-rsa AAAAB3 my key", "my-key"},
		{"ssh-rsa AAAAB3 a=b/", "a-b-"},
		{`command="echo ssh-rsa x",no-pty ssh-rsa AAAAB3 who`, "who"},
		{"sk-ssh-ed25519@openssh.com AAAAG yubi", "yubi"},
		{"ssh-rsa AAAAB3 käse", "k--se"},
		{"ssh-rsa AAAAB3 " + strings.Repeat("x", 100), strings.Repeat("x", maxKeyName)},
		{"nonsense", ""},
	} {
		if got := keyName(tt.key); got != tt.want {
			t.Errorf("keyName(%q) = %q, want %q", tt.key, got, tt.want)
		}
	}
	r := &record{guest: seedbed.Guest{SSHKeys: []string{
		"ssh-rsa AAAA1 same\nssh-rsa AAAA2 same", "# comment", "", "ssh-rsa AAAA3\r\n"}}}
	got := string(get(r, "/latest/meta-data/public-keys/").body)
	if want := "0=same\n1=same-1\n2=key-2"; got != want {
		t.Errorf("listing %q, want %q", got, want)
	}
}

// FuzzPath: no path panics, and what a listing names is there.
func FuzzPath(f *testing.F) {
	for _, p := range goldenPaths {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		body, mediaType, ok := Render(guestA(), []byte("x"), path)
		if ok == (mediaType == "") {
			t.Fatalf("%q: ok %v with type %q", path, ok, mediaType)
		}
		a := get(&record{guest: guestA(), userData: []byte("x")}, path)
		if !a.listing {
			return
		}
		for _, line := range strings.Split(string(body), "\n") {
			name, _, _ := strings.Cut(line, "=")
			if _, _, ok := Render(guestA(), []byte("x"), path+"/"+name); !ok {
				t.Fatalf("%q lists %q, which is not there", path, line)
			}
		}
	})
}
