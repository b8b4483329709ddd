package instance

import (
	"net/netip"
	"strings"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
	"seedbed/internal/config"
)

// definition is the file of create --file: the fields of the API's request for a new instance, and the
// project.
type definition struct {
	Project   string         `yaml:"project"`
	Name      string         `yaml:"name"`
	Profile   string         `yaml:"profile"`
	Image     string         `yaml:"image"`
	Params    map[string]any `yaml:"params"`
	Node      string         `yaml:"node"`
	Network   string         `yaml:"network"`
	NICs      []nic          `yaml:"nics"`
	Groups    []string       `yaml:"security_groups"`
	Ready     string         `yaml:"ready"`
	Hold      *bool          `yaml:"hold"`
	Protected *bool          `yaml:"protected"`
	Expires   string         `yaml:"expires"`
	AtExpiry  string         `yaml:"at_expiry"`
}

// nic is a NIC in a definition.
type nic struct {
	Network string     `yaml:"network"`
	Addr    netip.Addr `yaml:"addr"`

	Secondary       []netip.Addr `yaml:"secondary"`
	SecondaryCount  int          `yaml:"secondary_count"`
	SecondaryCount6 int          `yaml:"secondary_count6"`

	MAC    seedbed.MAC `yaml:"mac"`
	Groups []string    `yaml:"security_groups"`

	BandwidthIn  seedbed.BitRate `yaml:"bandwidth_in"`
	BandwidthOut seedbed.BitRate `yaml:"bandwidth_out"`
}

// readDefinition reads a file, or standard input for "-". It returns an empty definition if path is
// empty, and ErrInvalid, with the line, for a file that is not a definition.
func readDefinition(a *cli.App, path string) (d definition, err error) {
	d.Params = map[string]any{}
	if path == "" {
		return d, nil
	}
	text, err := a.ReadArg(path, seedbed.MiB)
	if err != nil {
		return d, err
	}
	name := path
	if path == "-" {
		name = "standard input"
	}
	if err := config.DecodePrivate(name, text, &d); err != nil {
		return d, seedbed.Errorf(seedbed.ErrInvalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if d.Profile != "" && d.Image != "" {
		return d, seedbed.Errorf(seedbed.ErrInvalid, "%s: both profile and image are given: give only one, since the profile has its image", name)
	}
	if d.Project != "" {
		if err := seedbed.CheckProjectName(d.Project); err != nil {
			return d, seedbed.Errorf(seedbed.ErrInvalid, "%s: %s", name, err)
		}
	}
	if d.Params == nil { // the key has no value
		d.Params = map[string]any{}
	}
	if err := flags.FromYAML(d.Params); err != nil {
		return d, seedbed.Errorf(seedbed.ErrInvalid, "%s: params: %s", name, err)
	}
	return d, nil
}

// complete sets the fields of a request that the command line did not set.
func (d definition) complete(req *seedbed.Request) {
	if req.Profile == "" && req.Image == "" {
		req.Profile, req.Image = d.Profile, d.Image
	}
	for _, field := range []struct{ to, from *string }{
		{&req.Name, &d.Name}, {&req.Node, &d.Node}, {&req.Network, &d.Network}, {(*string)(&req.Ready), &d.Ready},
		{&req.Expires, &d.Expires}, {&req.AtExpiry, &d.AtExpiry},
	} {
		if *field.to == "" {
			*field.to = *field.from
		}
	}
	if req.NICs == nil && req.Network == "" {
		for _, n := range d.NICs {
			req.NICs = append(req.NICs, seedbed.NICRequest(n))
		}
	}
	if req.SecurityGroups == nil {
		req.SecurityGroups = d.Groups
	}
	if req.Hold == nil {
		req.Hold = d.Hold
	}
	if req.Protected == nil {
		req.Protected = d.Protected
	}
}
