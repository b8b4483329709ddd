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

// OptionFlags are the flags for the metadata options of an instance or profile.
type OptionFlags struct{ seedbed.MetadataOptions }

// Add adds the flags to c.
func (o *OptionFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Endpoint, "http-endpoint", "", "`STATE`: enabled, or disabled (every request gets 403)")
	f.StringVar(&o.Tokens, "http-tokens", "", "`MODE`: optional, or required (a request without a session token gets 401)")
	f.IntVar(&o.HopLimit, "http-put-response-hop-limit", 0, "time to live of answers that carry a token: `HOPS` from 1 to 64")
	f.StringVar(&o.Tags, "instance-metadata-tags", "", "`STATE`: enabled, or disabled (no tags/instance)")
}

// addForm adds the flag that can only be set at creation.
func (o *OptionFlags) addForm(c *cobra.Command) {
	c.Flags().StringVar(&o.InstanceID, "instance-id", "", "`FORM` of the instance-id: ec2, or uuid as in PVC")
}

// Said reports whether any of the flags was given.
func (o *OptionFlags) Said() bool { return o.MetadataOptions != seedbed.MetadataOptions{} }

// ServedFlags are the flags for what a guest is served, of a profile or of one instance.
type ServedFlags struct {
	UserData, vendorData string
	VendorInUser         bool
	Datasource           string
	Tags                 []string
	Options              OptionFlags
}

// Add adds the flags to c.
func (s *ServedFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.UserData, "user-data", "", "`FILE` to serve to the guest unchanged, or - for standard input")
	f.StringVar(&s.vendorData, "vendor-data", "", "`FILE` to serve as vendor-data, or - for standard input")
	f.BoolVar(&s.VendorInUser, "vendor-data-in-user-data", false, "serve vendor-data as parts of the user-data, since EC2's datasource reads no vendor-data")
	f.StringVar(&s.Datasource, "datasource", "", "cloud-init `DATASOURCE` that the instance announces: ec2, openstack, nocloud or none")
	f.StringArrayVar(&s.Tags, "tag", nil, "tag as `KEY=VALUE` (repeatable)")
	s.Options.Add(c)
	s.Options.addForm(c)
}

// Documents reads the two files. It returns nil for a flag that was not given.
func (s *ServedFlags) Documents(a *cli.App) (user, vendor []byte, err error) {
	if s.UserData == "-" && s.vendorData == "-" {
		return nil, nil, cli.Usagef("--user-data and --vendor-data cannot both be standard input")
	}
	if s.UserData != "" {
		if user, err = a.ReadArg(s.UserData, seedbed.MaxDocument); err != nil {
			return nil, nil, err
		}
	}
	if s.vendorData != "" {
		vendor, err = a.ReadArg(s.vendorData, seedbed.MaxDocument)
	}
	return user, vendor, err
}

// Params adds the given flags to the parameters of a request.
func (s *ServedFlags) Params(a *cli.App, c *cobra.Command, params map[string]any) error {
	user, vendor, err := s.Documents(a)
	if err != nil {
		return err
	}
	given := map[string]any{}
	if s.UserData != "" {
		setDocument(given, "user_data", user)
	}
	if s.vendorData != "" {
		setDocument(given, "vendor_data", vendor)
	}
	if c.Flags().Changed("vendor-data-in-user-data") {
		given["vendor_data_in_user_data"] = s.VendorInUser
	}
	tags, err := ParseTags(s.Tags)
	if err != nil {
		return err
	}
	if len(tags) > 0 {
		given["tags"] = tags
	}
	for name, value := range map[string]string{
		"datasource": s.Datasource, "http_endpoint": s.Options.Endpoint, "http_tokens": s.Options.Tokens,
		"instance_metadata_tags": s.Options.Tags, "instance_id": s.Options.InstanceID,
	} {
		if value != "" {
			given[name] = value
		}
	}
	if s.Options.HopLimit != 0 {
		given["http_put_response_hop_limit"] = s.Options.HopLimit
	}
	for name, value := range given {
		if _, twice := params[name]; twice {
			return cli.Usagef("--param %s and --%s set the same: want one of them", name, strings.ReplaceAll(strings.TrimSuffix(name, "_base64"), "_", "-"))
		}
		params[name] = value
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

// ParseTags parses tags given as KEY=VALUE.
func ParseTags(args []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, arg := range args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return nil, cli.Usagef("--tag %q: want key=value", arg)
		}
		if _, twice := tags[k]; twice {
			return nil, cli.Usagef("--tag %s is given twice", k)
		}
		tags[k] = v
	}
	return tags, nil
}

// OptionPairs returns every option, with its default if it is not set.
func OptionPairs(o seedbed.MetadataOptions) [][2]string {
	o = o.WithDefaults(seedbed.MetadataOptions{})
	return [][2]string{
		{"http-endpoint", o.Endpoint}, {"http-tokens", o.Tokens}, {"http-put-response-hop-limit", strconv.Itoa(o.HopLimit)},
		{"instance-metadata-tags", o.Tags}, {"instance-id", o.InstanceID},
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
	var all []string
	for _, p := range TagPairs(tags) {
		all = append(all, p[0]+"="+p[1])
	}
	return strings.Join(all, "\n")
}

// TagPairs returns tags in the order of their keys.
func TagPairs(tags map[string]string) (pairs [][2]string) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, [2]string{k, tags[k]})
	}
	return pairs
}
