// Package flags has the flags that commands of several packages share.
package flags

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

// OptionFlags are the flags for the metadata options of an instance or profile. prefix is that of
// the fields.
func OptionFlags(prefix string) []cli.Flag {
	return []cli.Flag{
		{Field: prefix + "http_endpoint", Usage: "`STATE`: enabled, or disabled (every request gets 403)"},
		{Field: prefix + "http_tokens", Usage: "`MODE`: optional, or required (a request without a session token gets 401)"},
		{Field: prefix + "http_put_response_hop_limit", Usage: "time to live of answers that carry a token: `HOPS` from 1 to 64"},
		{Field: prefix + "instance_metadata_tags", Usage: "`STATE`: enabled, or disabled (no tags/instance)"},
		{
			Field: prefix + "target_lifecycle_state",
			Usage: "`STATE` at autoscaling/target-lifecycle-state: none, InService, Standby, Terminated, Detached or Warmed:…",
		},
	}
}

// ServedFlags are the flags for what a guest is served, of a profile or of one instance. prefix is
// that of the fields with the metadata options.
func ServedFlags(a *cli.App, prefix string) []cli.Flag {
	document := func(file string) (any, error) {
		if file == "" {
			return []byte(nil), nil
		}
		return a.ReadArg(file, seedbed.MaxDocument)
	}
	return append(OptionFlags(prefix),
		cli.Flag{Field: "user_data", Usage: "`FILE` to serve to the guest unchanged, or - for standard input", Parse: document},
		cli.Flag{Field: "vendor_data", Usage: "`FILE` to serve as vendor-data, or - for standard input", Parse: document},
		cli.Flag{
			Field: "vendor_data_in_user_data",
			Usage: "serve vendor-data as parts of the user-data, since EC2's datasource reads no vendor-data",
		},
		cli.Flag{Field: "datasource", Usage: "cloud-init `DATASOURCE` that the instance announces: ec2, openstack, nocloud or none"},
		cli.Flag{Field: "tags", Name: "tag", Each: true, Usage: "tag as `KEY=VALUE` (repeatable)"},
		cli.Flag{Field: prefix + "metadata_by", Name: "metadata", Usage: "`WAY` in which the guest gets its metadata: service, or " +
			"cdrom (default: by CD-ROM if its first NIC does not reach the service)"},
		cli.Flag{Field: prefix + "instance_id", Usage: "`FORM` of the instance-id: ec2, or uuid as in PVC"},
	)
}

// served holds the parameters of a request that say what a guest is served.
type served struct {
	UserData   []byte            `json:"user_data"`
	VendorData []byte            `json:"vendor_data"`
	InUserData bool              `json:"vendor_data_in_user_data"`
	Datasource string            `json:"datasource"`
	KeyValues  map[string]string `json:"tags"`
	seedbed.MetadataOptions
}

// ServedParams are the flags that set parameters of a request.
type ServedParams struct {
	to    served
	bound *cli.Bound
}

// Add adds the flags to c.
func (s *ServedParams) Add(a *cli.App, c *cobra.Command) {
	s.bound = cli.Bind(a, c, &s.to, ServedFlags(a, "")...)
}

// Given returns the names of the given flags.
func (s *ServedParams) Given() []string { return s.bound.GivenNames() }

// Set adds what the given flags say to the parameters of a request.
func (s *ServedParams) Set(params map[string]any) error {
	if err := OneStdin(s.bound); err != nil {
		return err
	}
	given, err := s.bound.Values()
	if err != nil {
		return err
	}
	for name, value := range given {
		document, isDocument := value.([]byte)
		switch {
		case value == "" || value == 0 || isDocument && document == nil: // such a value asks for nothing
			continue
		case isDocument && utf8.Valid(document):
			value = string(document)
		case isDocument:
			name += "_base64"
		}
		if _, twice := params[name]; twice {
			flag := strings.ReplaceAll(strings.TrimSuffix(name, "_base64"), "_", "-")
			return cli.Usagef("--param %s and --%s set the same: give only one", name, flag)
		}
		params[name] = value
	}
	return nil
}

// OneStdin refuses that two documents are read from standard input.
func OneStdin(b *cli.Bound) error {
	if b.Text("user-data") == "-" && b.Text("vendor-data") == "-" {
		return cli.Usagef("--user-data and --vendor-data cannot both be standard input")
	}
	return nil
}

// setDocument adds a document to the parameters, in base64 if it is not UTF-8.
func setDocument(params map[string]any, name string, doc []byte) {
	if utf8.Valid(doc) {
		params[name] = string(doc)
		return
	}
	params[name+"_base64"] = doc // encoding/json encodes bytes in base64
}

// OptionPairs returns every option, with its default if it is not set.
func OptionPairs(o seedbed.MetadataOptions) [][2]string {
	o = o.WithDefaults(seedbed.MetadataOptions{})
	return [][2]string{
		{"http-endpoint", o.Endpoint}, {"http-tokens", o.Tokens}, {"http-put-response-hop-limit", strconv.Itoa(o.HopLimit)},
		{"instance-metadata-tags", o.Tags}, {"instance-id", o.InstanceID},
		{"target-lifecycle-state", o.TargetState}, {"metadata", o.By},
	}
}

// OptionLine returns the options that differ from the defaults, on one line.
func OptionLine(o seedbed.MetadataOptions) string {
	def := OptionPairs(seedbed.MetadataOptions{})
	var said []string
	for i, p := range OptionPairs(o) {
		if p[1] != def[i][1] {
			said = append(said, p[0]+"="+p[1])
		}
	}
	return strings.Join(said, " ")
}

// TagLine returns tags on one line, as KEY=VALUE.
func TagLine(tags map[string]string) string {
	return strings.Join(cli.Each(TagPairs(tags), func(p [2]string) string { return p[0] + "=" + p[1] }), "\n")
}

// TagPairs returns tags in the order of their keys.
func TagPairs(tags map[string]string) [][2]string {
	return cli.Each(slices.Sorted(maps.Keys(tags)), func(k string) [2]string { return [2]string{k, tags[k]} })
}
