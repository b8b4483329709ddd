package metadata

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/userdata"
)

func metadataLint(a *cli.App) *cobra.Command {
	var dialect, version string
	c := &cobra.Command{
		Use: "lint VM", Short: "Check what an instance would get, as cloud-init reads it",
		Long: `Read what an instance would get from 169.254.169.254 as cloud-init does, and report what
would make it fail. If cloud-init is installed here, cloud-config is also checked with
its schema. The exit status is 1 if there is a finding.

A finding that only concerns some releases of cloud-init says which. With --cloud-init, those of
other releases are left out.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			of, err := dialectOf(ctx, a, api, args[0], dialect)
			if err != nil {
				return err
			}
			i, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			guest, err := parseRelease(version)
			if err != nil {
				return err
			}
			l := linter{release: guest, schema: schemaBy("cloud-init"), fetch: func(ctx context.Context, path string) ([]byte, bool, error) {
				return fetchMetadata(ctx, api, args[0], path)
			}}
			l.identity(i.ID, i.Datasource)
			l.options(i.Metadata, of)
			if err := l.lint(ctx, of); err != nil {
				return err
			}
			return printFindings(a, args[0], l.findings)
		}),
	}
	c.Flags().StringVar(&dialect, "dialect", "", "`DIALECT`: ec2, openstack or nocloud (default: the instance's datasource)")
	c.Flags().StringVar(&version, "cloud-init", "", "`VERSION` of the guest's cloud-init, such as 25.1 (default: any)")
	return c
}

// fetchMetadata returns what the instance would get. ok is false if it would get 404.
func fetchMetadata(ctx context.Context, api *client.Client, vm, path string) (body []byte, ok bool, err error) {
	body, err = api.Metadata(ctx, vm, path)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, false, nil
	}
	return body, err == nil, err
}

func printFindings(a *cli.App, vm string, findings []finding) error {
	rows := cli.Each(findings, func(f finding) []string { return []string{f.Path, cmp.Or(f.Releases, "any"), f.Problem} })
	err := a.ShowTable(append([]finding{}, findings...), []string{"path", "cloud-init", "problem"}, rows, vm+": no problems found")
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("%s: %d finding(s)", vm, len(findings))
	}
	return err
}

// finding is a problem that a guest would have with its metadata.
type finding struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
	// Releases are those of cloud-init that have the problem; empty means all of them.
	Releases string `json:"releases,omitempty"`
}

// linter reads a guest's metadata as cloud-init does.
type linter struct {
	fetch func(ctx context.Context, path string) (body []byte, ok bool, err error)
	// schema returns the errors of a cloud-config according to cloud-init's own schema. It is nil
	// if cloud-init is not installed.
	schema   func(ctx context.Context, config []byte) ([]string, error)
	release  release // the guest's; the zero value is any
	findings []finding
	visited  int
}

func (l *linter) find(path, format string, args ...any) {
	l.findings = append(l.findings, finding{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// options finds the options with which cloud-init's datasource gets nothing. They have no effect on a CD-ROM.
func (l *linter) options(o seedbed.MetadataOptions, dialect string) {
	o = o.WithDefaults(seedbed.MetadataOptions{})
	if o.By == seedbed.MetadataCDROM {
		return
	}
	if o.Endpoint == seedbed.MetadataDisabled {
		l.find("/", "answers 403 to everything: http_endpoint is disabled")
	}
	if o.Tokens == seedbed.TokensRequired && dialect != string(seedbed.DatasourceEC2) {
		l.find("/"+dialect, "answers 401: http_tokens is required, and cloud-init's datasource for %s sends no token", dialect)
	}
}

func (l *linter) lint(ctx context.Context, dialect string) error {
	switch dialect {
	case "openstack":
		return l.openStack(ctx)
	case "nocloud":
		return l.noCloud(ctx)
	}
	return l.ec2(ctx)
}

// ec2Root is the version that cloud-init prefers (DataSourceEc2.extended_metadata_versions).
const ec2Root = "/2021-03-23/"

func (l *linter) ec2(ctx context.Context) error {
	for _, root := range []string{ec2Root + "meta-data/", ec2Root + "dynamic/instance-identity/"} {
		if err := l.crawl(ctx, root, 0); err != nil {
			return err
		}
	}
	if id, ok, err := l.fetch(ctx, ec2Root+"meta-data/instance-id"); err != nil {
		return err
	} else if !ok || len(id) == 0 {
		l.find(ec2Root+"meta-data/instance-id", "is missing or empty: no guest would recognise this as its datasource")
	}
	return l.document(ctx, ec2Root+"user-data", false)
}

// crawl walks a listing as cloudinit/sources/helpers/ec2.py does. A line that ends in a slash is a
// directory, "N=text" is the directory of a key, and any other line is a leaf.
func (l *linter) crawl(ctx context.Context, dir string, depth int) error {
	if l.visited++; depth > maxDepth || l.visited > maxLeaves {
		return fmt.Errorf("the metadata does not end at %s", dir)
	}
	listing, ok, err := l.fetch(ctx, dir)
	if err != nil {
		return err
	}
	if !ok {
		l.find(dir, "is listed but answers 404: cloud-init gives up the whole tree after 5 s")
		return nil
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(listing)) {
		entry := strings.TrimSpace(line)
		switch {
		case entry == "":
			continue
		case seen[entry]:
			l.find(dir, "lists %q twice", entry)
			continue
		}
		seen[entry] = true
		if !utf8.ValidString(entry) {
			l.find(dir, "lists %q, which is not UTF-8", entry)
			continue
		}
		if strings.HasSuffix(dir, "/macs/") && entry != strings.ToLower(entry) {
			l.find(dir, "lists %q: cloud-init expects the MAC in lower case", entry)
		}
		if number, key, isKey := strings.Cut(entry, "="); isKey && strings.HasSuffix(dir, "/public-keys/") {
			if strings.ContainsAny(key, "=/") {
				l.find(dir, "lists the key %q: afterburn and cloudbase-init fail on '=' and '/' in its name", key)
			}
			if err := l.leaf(ctx, dir+number+"/openssh-key"); err != nil {
				return err
			}
			continue
		}
		if strings.HasSuffix(entry, "/") {
			err = l.crawl(ctx, dir+entry, depth+1)
		} else if !strings.HasSuffix(entry, "security-credentials") { // cloud-init never asks for it
			err = l.leaf(ctx, dir+entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// amazonZone matches the zones by which Debian's and Ubuntu's mirrors are chosen
// (cloudinit/distros, _get_package_mirror_info).
var amazonZone = regexp.MustCompile(`^[a-z][a-z]-(?:[a-z]+-)+[0-9][a-z]$`)

func (l *linter) leaf(ctx context.Context, at string) error {
	l.visited++
	body, ok, err := l.fetch(ctx, at)
	if err != nil {
		return err
	}
	text := string(body)
	switch name := path.Base(at); {
	case !ok:
		l.find(at, "is listed but answers 404: cloud-init gives up the whole tree after 5 s")
	case !utf8.Valid(body):
		l.find(at, "is not UTF-8: cloud-init keeps it as bytes")
	case strings.HasSuffix(text, "\n"):
		l.find(at, "ends with a line break: cloud-init makes a list of it")
	case name == "availability-zone" && amazonZone.MatchString(text):
		l.find(at, "is %q, which looks like Amazon's: the guest would use Amazon's package mirrors", text)
	case name == "local-hostname" && isAddress(text):
		l.find(at, "is an address: cloud-init names the guest %q", "ip-"+strings.ReplaceAll(text, ".", "-"))
	case name == "mac" && text != strings.ToLower(text):
		l.find(at, "is %q: cloud-init expects the MAC in lower case", text)
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && !json.Valid(body):
		l.find(at, "looks like JSON but is not valid JSON")
	}
	return nil
}

func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

// openStack reads what DataSourceOpenStack reads, in its newest version.
func (l *linter) openStack(ctx context.Context) error {
	const root = "/openstack/latest/"
	if listing, ok, err := l.fetch(ctx, "/openstack"); err != nil {
		return err
	} else if !ok || len(listing) == 0 {
		l.find("/openstack", "is missing or empty: no guest would recognise this as its datasource")
		return nil
	}
	for name, needed := range map[string]bool{
		"meta_data.json": true, "network_data.json": false, "vendor_data.json": false, "vendor_data2.json": false,
	} {
		body, ok, err := l.fetch(ctx, root+name)
		if err != nil {
			return err
		}
		var any map[string]any
		switch {
		case !ok && needed:
			l.find(root+name, "is missing: cloud-init gives up the datasource")
		case ok && json.Unmarshal(body, &any) != nil:
			l.find(root+name, "is not a JSON object: cloud-init gives up the datasource")
		case ok && needed && (any["uuid"] == nil || any["uuid"] == ""):
			l.find(root+name, "has no uuid: cloud-init gives up the datasource")
		}
		if text, isText := any["cloud-init"].(string); isText {
			if err := l.content(ctx, root+name, []byte(text)); err != nil {
				return err
			}
		}
	}
	return l.document(ctx, root+"user_data", false)
}

// document checks user-data or vendor-data. If needed is set, 404 is a finding.
func (l *linter) document(ctx context.Context, at string, needed bool) error {
	body, ok, err := l.fetch(ctx, at)
	if err != nil {
		return err
	}
	if !ok && needed {
		l.find(at, "answers 404, which costs the guest 10 s: expected 200 with an empty body")
	}
	if len(body) > int(maxCommon) {
		l.find(at, "has %d bytes: Windows and other agents accept less than %s", len(body), maxCommon)
	}
	return l.content(ctx, at, body)
}

// maxCommon bounds a document for any agent.
const maxCommon = seedbed.MiB

// content checks a document of any kind.
func (l *linter) content(ctx context.Context, at string, body []byte) error {
	problems, err := userdata.Checker{Schema: l.schema}.Check(ctx, body)
	for _, p := range problems {
		l.find(at, "%s", p)
	}
	return err
}

// noCloud reads what DataSourceNoCloudNet reads. A 404 costs the guest 10 s, so each file must
// exist.
func (l *linter) noCloud(ctx context.Context) error {
	const root = "/nocloud/"
	body, ok, err := l.fetch(ctx, root+"meta-data")
	if err != nil {
		return err
	}
	var meta map[string]any
	switch {
	case !ok:
		l.find(root+"meta-data", "is missing: cloud-init gives up the datasource")
	case yaml.Unmarshal(body, &meta) != nil:
		l.find(root+"meta-data", "is not a YAML mapping")
	case meta["instance-id"] == nil:
		l.find(root+"meta-data", "has no instance-id: the guest would treat every boot as its first")
	}
	if body, ok, err = l.fetch(ctx, root+"network-config"); err != nil {
		return err
	}
	var network map[string]any
	if !ok {
		l.find(root+"network-config", "answers 404, which costs the guest 10 s: expected 200")
	} else if len(body) > 0 && yaml.Unmarshal(body, &network) != nil {
		l.find(root+"network-config", "is not a YAML mapping")
	} else if version := network["version"]; len(body) > 0 && version != uint64(1) && version != uint64(2) {
		l.find(root+"network-config", "has version %v: expected 1 or 2", version)
	}
	for _, name := range []string{"user-data", "vendor-data"} {
		if err := l.document(ctx, root+name, true); err != nil {
			return err
		}
	}
	return nil
}
