package metadata

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// tree is a guest's metadata by path.
type tree map[string]string

func (t tree) fetch(_ context.Context, path string) ([]byte, bool, error) {
	body, ok := t[path]
	return []byte(body), ok, nil
}

func goodTree() tree {
	return tree{
		"/2021-03-23/meta-data/":                                   "instance-id\nlocal-hostname\npublic-keys/\nnetwork/\nplacement/",
		"/2021-03-23/meta-data/instance-id":                        "i-0123456789abcdef0",
		"/2021-03-23/meta-data/local-hostname":                     "web1",
		"/2021-03-23/meta-data/public-keys/":                       "0=me",
		"/2021-03-23/meta-data/public-keys/0/openssh-key":          "ssh-ed25519 AAAA me",
		"/2021-03-23/meta-data/placement/":                         "availability-zone\n",
		"/2021-03-23/meta-data/placement/availability-zone":        "seedbed-local",
		"/2021-03-23/meta-data/network/":                           "macs/",
		"/2021-03-23/meta-data/network/macs/":                      "52:54:00:01:02:ff/",
		"/2021-03-23/meta-data/network/macs/52:54:00:01:02:ff/":    "mac\n",
		"/2021-03-23/meta-data/network/macs/52:54:00:01:02:ff/mac": "52:54:00:01:02:ff",
		"/2021-03-23/dynamic/instance-identity/":                   "document",
		"/2021-03-23/dynamic/instance-identity/document":           `{"a":1}`,
		"/2021-03-23/user-data":                                    "#cloud-config\npackages: [a]\n",
		"/openstack":                                               "latest",
		"/openstack/latest/meta_data.json":                         `{"uuid":"x"}`,
		"/openstack/latest/vendor_data.json":                       `{"cloud-init":"#cloud-config\na: 1\n"}`,
		"/nocloud/meta-data":                                       "instance-id: x\n",
		"/nocloud/user-data":                                       "",
		"/nocloud/vendor-data":                                     "",
		"/nocloud/network-config":                                  "",
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	const meta, user = "/2021-03-23/meta-data/", "/2021-03-23/user-data"
	zipped := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return b.String()
	}
	mixed := func(part string) string {
		return "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n\n--b\n" + part + "\n--b--\n"
	}
	tests := []struct {
		name, dialectOf, path, body string // "-" removes the path
		at, want                    string // empty for no finding
	}{
		{"good", "ec2", "", "", "", ""},
		{"good OpenStack", "openstack", "", "", "", ""},
		{"good NoCloud", "nocloud", "", "", "", ""},
		{"listed leaf without answer", "ec2", meta + "local-hostname", "-", meta + "local-hostname", "is listed but answers 404"},
		{"listed directory without answer", "ec2", meta + "placement/", "-", meta + "placement/", "is listed but answers 404"},
		{"key without answer", "ec2", meta + "public-keys/0/openssh-key", "-", meta + "public-keys/0/openssh-key", "is listed but answers 404"},
		{"empty instance-id", "ec2", meta + "instance-id", "", meta + "instance-id", "is missing or empty"},
		{"line break", "ec2", meta + "local-hostname", "web1\n", meta + "local-hostname", "ends with a line break"},
		{"not UTF-8", "ec2", meta + "local-hostname", "\xff", meta + "local-hostname", "is not UTF-8"},
		{"listing that is not UTF-8", "ec2", meta + "placement/", "\xff", meta + "placement/", "which is not UTF-8"},
		{"listed twice", "ec2", meta + "public-keys/", "0=me\n0=me", meta + "public-keys/", "twice"},
		{"key name with =", "ec2", meta + "public-keys/", "0=me=you", meta + "public-keys/", `lists the key "me=you"`},
		{"key name with /", "ec2", meta + "public-keys/", "0=me/", meta + "public-keys/", `lists the key "me/"`},
		{"zone of Amazon's", "ec2", meta + "placement/availability-zone", "eu-west-1a",
			meta + "placement/availability-zone", "looks like Amazon's"},
		{"large MAC", "ec2", meta + "network/macs/52:54:00:01:02:ff/mac", "52:54:00:01:02:FF",
			meta + "network/macs/52:54:00:01:02:ff/mac", "in lower case"},
		{"address for a name", "ec2", meta + "local-hostname", "10.0.0.1", meta + "local-hostname", "ip-10-0-0-1"},
		{"half JSON", "ec2", "/2021-03-23/dynamic/instance-identity/document", "{a}",
			"/2021-03-23/dynamic/instance-identity/document", "looks like JSON"},
		{"no user-data", "ec2", user, "-", "", ""},
		{"empty user-data", "ec2", user, "", "", ""},
		{"script", "ec2", user, "#!/bin/sh\n", "", ""},
		{"jinja", "ec2", user, "## template: jinja\n#cloud-config\n{% if a %}\n", "", ""},
		{"wrong first line", "ec2", user, "packages: [a]\n", user, `begins with "packages: [a]"`},
		{"template that is not the first line", "ec2", user, "\n## template: seedbed\n", user, "was not rendered"},
		{"binary", "ec2", user, "\x7fELF\xff", user, "is binary"},
		{"base64", "ec2", user, base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")), user, "is only base64"},
		{"one word", "ec2", user, "test", user, "is only base64"},
		{"large", "ec2", user, "#!/bin/sh\n" + strings.Repeat("#\n", 1<<19), user, "less than 1MiB"},
		{"no YAML", "ec2", user, "#cloud-config\na: [1\n", user, "is not YAML"},
		{"no YAML, by the line", "ec2", user, "#cloud-config\na: 1\nb: [1\n", user, "is not YAML: line 3: did not find expected"},
		{"no YAML within a line", "ec2", user, "#cloud-config\na: 1\nb: c: d\n", user, "is not YAML: line 3: mapping values are not allowed"},
		{"unknown alias", "ec2", user, "#cloud-config\na: *b\n", user, "unknown anchor"},
		{"no mapping", "ec2", user, "#cloud-config\n- a\n", user, "not a YAML mapping"},
		{"only comments", "ec2", user, "#cloud-config\n# nothing\n", "", ""},
		{"schema", "ec2", user, "#cloud-config\nbad: 1\n", user, "cloud-init schema: bad"},
		{"gzip", "ec2", user, zipped("#cloud-config\na: 1\n"), "", ""},
		{"gzip of a bad one", "ec2", user, zipped("#cloud-config\nbad: 1\n"), user, "cloud-init schema: bad"},
		{"gzip that is cut", "ec2", user, zipped("#cloud-config\na: 1\n")[:20], user, "cannot be unpacked"},
		{"multipart", "ec2", user, mixed("Content-Type: text/cloud-config\n\na: 1"), "", ""},
		{"bad part", "ec2", user,
			mixed("Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString([]byte("bad: 1"))),
			user, "cloud-init schema: bad"},
		{"part of no encoding", "ec2", user, mixed("Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64\n\n%%%"),
			user, "is not valid"},
		{"no parts", "ec2", user, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b--", user, "without parts"},
		{"no OpenStack", "openstack", "/openstack", "-", "/openstack", "is missing or empty"},
		{"no meta_data.json", "openstack", "/openstack/latest/meta_data.json", "-", "/openstack/latest/meta_data.json", "is missing"},
		{"no uuid", "openstack", "/openstack/latest/meta_data.json", "{}", "/openstack/latest/meta_data.json", "has no uuid"},
		{"no JSON", "openstack", "/openstack/latest/network_data.json", "x", "/openstack/latest/network_data.json", "is not a JSON"},
		{"bad vendor-data", "openstack", "/openstack/latest/vendor_data.json", `{"cloud-init":"#cloud-config\nbad: 1\n"}`,
			"/openstack/latest/vendor_data.json", "cloud-init schema: bad"},
		{"OpenStack user-data", "openstack", "/openstack/latest/user_data", "x y", "/openstack/latest/user_data", "begins with"},
		{"no NoCloud meta-data", "nocloud", "/nocloud/meta-data", "-", "/nocloud/meta-data", "is missing"},
		{"no instance-id", "nocloud", "/nocloud/meta-data", "a: 1\n", "/nocloud/meta-data", "has no instance-id"},
		{"no vendor-data", "nocloud", "/nocloud/vendor-data", "-", "/nocloud/vendor-data", "costs the guest 10 s"},
		{"no network-config", "nocloud", "/nocloud/network-config", "-", "/nocloud/network-config", "costs the guest 10 s"},
		{"network-config", "nocloud", "/nocloud/network-config", "version: 2\nethernets: {}\n", "", ""},
		{"network-config without a version", "nocloud", "/nocloud/network-config", "a: 1\n", "/nocloud/network-config", "expected 1 or 2"},
		{"bad network-config", "nocloud", "/nocloud/network-config", "[", "/nocloud/network-config", "is not a YAML"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served := maps.Clone(goodTree())
			if served[tt.path] = tt.body; tt.body == "-" || tt.path == "" {
				delete(served, tt.path)
			}
			l := linter{fetch: served.fetch, schema: func(_ context.Context, config []byte) ([]string, error) {
				if bytes.Contains(config, []byte("bad")) {
					return []string{"cloud-init schema: bad"}, nil
				}
				return nil, nil
			}}
			if err := l.lint(t.Context(), tt.dialectOf); err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "" && len(l.findings) > 0:
				t.Errorf("found %+v", l.findings)
			case tt.want != "" && (len(l.findings) == 0 || l.findings[0].Path != tt.at || !strings.Contains(l.findings[0].Problem, tt.want)):
				t.Errorf("found %+v; want %s at %s", l.findings, tt.want, tt.at)
			}
		})
	}
}

func TestLintOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options   seedbed.MetadataOptions
		dialectOf string
		want      int
	}{
		{seedbed.MetadataOptions{}, "nocloud", 0},
		{seedbed.MetadataOptions{Tokens: "required"}, "ec2", 0},
		{seedbed.MetadataOptions{Tokens: "required"}, "openstack", 1},
		{seedbed.MetadataOptions{Endpoint: "disabled"}, "ec2", 1},
		{seedbed.MetadataOptions{Endpoint: "disabled", Tokens: "required"}, "nocloud", 2},
	} {
		var l linter
		if l.options(tt.options, tt.dialectOf); len(l.findings) != tt.want {
			t.Errorf("%+v, %s: %+v", tt.options, tt.dialectOf, l.findings)
		}
	}
}

// TestLintIdentity names the instances whose UUID is taken for EC2's although they have another
// datasource, for the releases that do so.
func TestLintIdentity(t *testing.T) {
	t.Parallel()
	const (
		old     = "ec2f0123-89ab-8cde-8000-0123456789ab"
		swapped = "45e12aec-dcd1-8213-94ed-012345abcdef"
		other   = "5e010203-d405-8678-9abc-0123456789ab"
	)
	for _, tt := range []struct {
		id         seedbed.InstanceID
		datasource seedbed.Datasource
		version    string
		want       string
	}{
		{old, "ec2", "", ""},
		{other, "openstack", "25.1.4-1+deb13u1", ""},
		{old, "openstack", "", "datasource_list: [ OpenStack ]"},
		{swapped, "nocloud", "24.2", "datasource_list: [ NoCloud ]"},
		{old, "none", "25.3", "datasource_list: [ None ]"},
		{old, "openstack", "24.1.3", ""},
		{old, "openstack", "22.4.2-1+deb12u4", ""},
	} {
		var l linter
		var err error
		if l.release, err = parseRelease(tt.version); err != nil {
			t.Fatal(err)
		}
		l.identity(tt.id, tt.datasource)
		switch {
		case tt.want == "" && len(l.findings) > 0:
			t.Errorf("%+v: found %+v", tt, l.findings)
		case tt.want != "" && (len(l.findings) != 1 || l.findings[0].Releases != "24.2 and later" ||
			!strings.Contains(l.findings[0].Problem, tt.want)):
			t.Errorf("%+v: found %+v", tt, l.findings)
		}
	}
	for _, bad := range []string{"new", "24", "24.", "24.x", "-1.2", "."} {
		if r, err := parseRelease(bad); err == nil {
			t.Errorf("release %q is %s", bad, r)
		}
	}
}

func TestLintEnds(t *testing.T) {
	t.Parallel()
	l := linter{fetch: func(context.Context, string) ([]byte, bool, error) { return []byte("a/"), true, nil }}
	if err := l.lint(t.Context(), "ec2"); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("a tree without an end: %v", err)
	}
	broken := errors.New("no answer")
	l = linter{fetch: func(context.Context, string) ([]byte, bool, error) { return nil, false, broken }}
	for _, dialect := range []string{"ec2", "openstack", "nocloud"} {
		if err := l.lint(t.Context(), dialect); !errors.Is(err, broken) {
			t.Errorf("%s: %v", dialect, err)
		}
	}
}

// TestSchema checks how cloud-init is run, and how its output is read.
func TestSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "cloud-init")
	script := "#!/bin/sh\n[ \"$1 $2\" = 'schema --config-file' ] || exit 9\ngrep -q bad \"$3\" || exit 0\n" +
		"echo \"Error:\" >&2\necho \"Cloud config schema errors: bad: 3 is not of type 'array'\" >&2\necho \"in $3\"\nexit 1\n"
	// A program that another test starts meanwhile would hold the file open for writing for a
	// moment, and the kernel would not run it.
	syscall.ForkLock.RLock()
	err := os.WriteFile(tool, []byte(script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		tool, config string
		want         []string
	}{
		"good":          {tool, "#cloud-config\na: 1\n", nil},
		"not installed": {filepath.Join(dir, "none"), "#cloud-config\nbad: 3\n", nil},
		"bad":           {tool, "bad: 3\n", []string{"cloud-init schema: bad: 3 is not of type 'array'", "cloud-init schema: in the document"}},
	} {
		got, err := schemaBy(tt.tool)(t.Context(), []byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := schemaBy(tool)(ctx, []byte("bad")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
