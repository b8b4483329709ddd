package seedbed

import (
	"slices"
	"strings"
)

// Datasource is the cloud-init datasource that an instance's SMBIOS values announce.
type Datasource string

// The datasources.
const (
	// DatasourceEC2: UUID and serial begin with "ec2", which no other datasource has. The default.
	DatasourceEC2 Datasource = "ec2"
	// DatasourceOpenStack: the product is "OpenStack Nova".
	DatasourceOpenStack Datasource = "openstack"
	// DatasourceNoCloud: the serial names the NoCloud tree of the metadata service.
	DatasourceNoCloud Datasource = "nocloud"
	// DatasourceNone: nothing is announced, and cloud-init stays off.
	DatasourceNone Datasource = "none"
)

// ParseDatasource parses a datasource; the empty string is DatasourceEC2. An unknown name is
// ErrInvalid.
func ParseDatasource(s string) (Datasource, error) {
	switch d := Datasource(s); d {
	case "":
		return DatasourceEC2, nil
	case DatasourceEC2, DatasourceOpenStack, DatasourceNoCloud, DatasourceNone:
		return d, nil
	}
	return "", Errorf(ErrInvalid, "datasource %q is unknown: expected ec2, openstack, nocloud or none", Clip(s))
}

// MaxHopLimit is the highest hop limit of a token answer.
const MaxHopLimit = 64

// MetadataOptions say how an instance may use the metadata service, with the names and values of
// EC2's ModifyInstanceMetadataOptions. The zero value of a field means its default.
type MetadataOptions struct {
	// Endpoint is "enabled" (the default) or "disabled": every request gets 403.
	Endpoint string `json:"http_endpoint,omitempty"`
	// Tokens is "optional" (the default) or "required": a GET without a session token gets 401.
	Tokens string `json:"http_tokens,omitempty"`
	// HopLimit is the time to live of the token answer, 1 (the default) to MaxHopLimit.
	HopLimit int `json:"http_put_response_hop_limit,omitempty"`
	// Tags is "enabled" (the default; Amazon's default is "disabled") or "disabled": no
	// tags/instance.
	Tags string `json:"instance_metadata_tags,omitempty"`
	// InstanceID is the form of instance-id: "ec2" (the default, i- and 17 digits) or "uuid", as
	// PVC serves it.
	InstanceID string `json:"instance_id,omitempty"`
	// TargetState is served as autoscaling/target-lifecycle-state: "none" (the default), for which
	// nothing is served, or one of TargetStates.
	TargetState string `json:"target_lifecycle_state,omitempty"`
	// By is how the instance gets its metadata: by the metadata service ("service"), or by a CD-ROM with a NoCloud seed
	// ("cdrom"). In a profile and a request, the empty value leaves the choice to the plan; an instance has the result, which
	// does not change.
	By string `json:"metadata_by,omitempty"`
}

// The values of MetadataOptions.
const (
	MetadataEnabled  = "enabled"
	MetadataDisabled = "disabled"
	TokensOptional   = "optional"
	TokensRequired   = "required"
	InstanceIDEC2    = "ec2"
	InstanceIDUUID   = "uuid"
	TargetNone       = "none"
	MetadataService  = "service"
	MetadataCDROM    = "cdrom"
)

// TargetStates returns the states that the controller of a group of instances may announce, with the
// names of EC2 Auto Scaling ("Retrieve the target lifecycle state through instance metadata").
func TargetStates() []string {
	return []string{"Detached", "InService", "Standby", "Terminated", "Warmed:Hibernated", "Warmed:Running", "Warmed:Stopped",
		"Warmed:Terminated"}
}

// WithDefaults returns o with every field set: to its own value, else to that of base, else to the
// default.
func (o MetadataOptions) WithDefaults(base MetadataOptions) MetadataOptions {
	or := func(v *string, values ...string) {
		for _, w := range values {
			if *v == "" {
				*v = w
			}
		}
	}
	or(&o.Endpoint, base.Endpoint, MetadataEnabled)
	or(&o.Tokens, base.Tokens, TokensOptional)
	or(&o.Tags, base.Tags, MetadataEnabled)
	or(&o.InstanceID, base.InstanceID, InstanceIDEC2)
	or(&o.TargetState, base.TargetState, TargetNone)
	or(&o.By, base.By, MetadataService)
	if o.HopLimit == 0 {
		o.HopLimit = max(1, base.HopLimit)
	}
	return o
}

// Check returns ErrInvalid if a field is set to an unknown value.
func (o MetadataOptions) Check() error {
	for _, f := range []struct{ name, value, a, b string }{
		{"http_endpoint", o.Endpoint, MetadataEnabled, MetadataDisabled},
		{"http_tokens", o.Tokens, TokensOptional, TokensRequired},
		{"instance_metadata_tags", o.Tags, MetadataEnabled, MetadataDisabled},
		{"instance_id", o.InstanceID, InstanceIDEC2, InstanceIDUUID},
		{"metadata_by", o.By, MetadataService, MetadataCDROM},
	} {
		if f.value != "" && f.value != f.a && f.value != f.b {
			return Errorf(ErrInvalid, "%s is %q: expected %s or %s", f.name, Clip(f.value), f.a, f.b)
		}
	}
	if o.TargetState != "" && o.TargetState != TargetNone && !slices.Contains(TargetStates(), o.TargetState) {
		return Errorf(ErrInvalid, "target_lifecycle_state is %q: expected none, %s", Clip(o.TargetState), strings.Join(TargetStates(), ", "))
	}
	if o.HopLimit < 0 || o.HopLimit > MaxHopLimit {
		return Errorf(ErrInvalid, "http_put_response_hop_limit is %d: expected 1 to %d", o.HopLimit, MaxHopLimit)
	}
	return nil
}
