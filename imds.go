package seedbed

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
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

var (
	// MetadataAddr is where guests find their metadata over IPv4. Every managed bridge has it.
	MetadataAddr = netip.AddrFrom4([4]byte{169, 254, 169, 254})
	// MetadataAddr6 is where they find it over IPv6, at Amazon's address.
	MetadataAddr6 = netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 14: 0x02, 15: 0x54})
	// MetadataAddr6LinkLocal is OpenStack's address of it, which needs no route. It is also that of the node as a router.
	MetadataAddr6LinkLocal = netip.AddrFrom16([16]byte{0xfe, 0x80, 12: 0xa9, 13: 0xfe, 14: 0xa9, 15: 0xfe})
	// ResolverAddr is the address of Seedbed's own resolver, on networks that have it among their DNS. Amazon's has it too.
	ResolverAddr = netip.AddrFrom4([4]byte{169, 254, 169, 253})
	// TimeAddr is the address at which guests reach their node's own time server, on networks that have it among their NTP.
	// Amazon's time service has it too.
	TimeAddr = netip.AddrFrom4([4]byte{169, 254, 169, 123})
	// ResolverAddr6 is what ResolverAddr is over IPv6, in networks with an IPv6 prefix. Amazon's resolver has it too.
	ResolverAddr6 = netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 14: 0x02, 15: 0x53})
	// TimeAddr6 is what TimeAddr is over IPv6, in networks with an IPv6 prefix. Amazon's time service has it too.
	TimeAddr6 = netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 14: 0x01, 15: 0x23})
)

// Gateway6 returns the address of the node in Prefix6: Router6, or the first. It is the zero Addr if there is no prefix, and in a bridged
// network, whose routers are not Seedbed's. Guests learn of the router by its link-local address.
func (n Network) Gateway6() netip.Addr {
	if !n.Prefix6.IsValid() || n.Kind.OnWire() {
		return netip.Addr{}
	}
	if n.Router6.IsValid() {
		return n.Router6
	}
	return n.Prefix6.Addr().Next()
}

// NodeAddr6 returns the address that a node has in Prefix6, with which comes its route to the guests. In a bridged network it
// ends as that of the metadata service, since the first addresses are those of other hosts. There, nobody sees it: answers to
// guests have other addresses.
func (n Network) NodeAddr6() netip.Addr {
	if g := n.Gateway6(); g.IsValid() || !n.Prefix6.IsValid() {
		return g
	}
	a, link := n.Prefix6.Addr().As16(), MetadataAddr6LinkLocal.As16()
	copy(a[8:], link[8:])
	return netip.AddrFrom16(a)
}

// Resolves reports whether the nodes are a resolver of the guests.
func (n Network) Resolves() bool { return n.Addressed() && slices.Contains(n.DNS, ResolverAddr) }

// Resolves6 reports whether they are so over IPv6 as well.
func (n Network) Resolves6() bool { return n.Resolves() && n.Prefix6.IsValid() }

// DNS6 returns the resolvers of the guests that have IPv6 addresses.
func (n Network) DNS6() []netip.Addr {
	all := slices.DeleteFunc(slices.Clone(n.DNS), netip.Addr.Is4)
	if n.Resolves6() {
		all = append([]netip.Addr{ResolverAddr6}, all...)
	}
	return all
}

// DNS4 returns those that have IPv4 addresses.
func (n Network) DNS4() []netip.Addr { return slices.DeleteFunc(slices.Clone(n.DNS), netip.Addr.Is6) }

// ResolvesAtGateway reports whether they are so at the gateway as well, which is the node unless the network is bridged.
func (n Network) ResolvesAtGateway() bool {
	return n.Resolves() && !n.Kind.OnWire() && n.Gateway.IsValid()
}

// KeepsTime reports whether guests reach the time servers of the nodes.
func (n Network) KeepsTime() bool {
	return n.Kind.Served() && slices.Contains(n.NTP, TimeAddr)
}

// KeepsTime6 reports whether they do so over IPv6 as well.
func (n Network) KeepsTime6() bool { return n.KeepsTime() && n.Prefix6.IsValid() }

// NTP6 returns the time servers of the guests that have IPv6 addresses.
func (n Network) NTP6() []netip.Addr {
	all := slices.DeleteFunc(slices.Clone(n.NTP), netip.Addr.Is4)
	if n.KeepsTime6() {
		all = append([]netip.Addr{TimeAddr6}, all...)
	}
	return all
}

// GuestDomain returns the domain of the guests' names: Domain or, where the nodes resolve names, NAME.internal, and
// NAME.PROJECT.internal for the network of another project than the default one. It is empty if there is none.
func (n Network) GuestDomain() string {
	switch project := ProjectOf(n.Name); {
	case n.Domain != "" || !n.Resolves():
		return n.Domain
	case project != DefaultProject:
		return DNSLabel(ShortName(n.Name)) + "." + DNSLabel(project) + ".internal"
	}
	return DNSLabel(n.Name) + ".internal"
}

var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// DNSLabel returns a name as a label of DNS (RFC 1123 2.1): in lower case, with "-" in place of what is neither a letter nor
// a digit.
func DNSLabel(name string) string {
	return strings.Trim(notInLabel.ReplaceAllLiteralString(strings.ToLower(name), "-"), "-")
}

// validDomain reports whether s is a host name of RFC 1123 2.1 in lower case, without a dot at its end.
func validDomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if CheckInstanceName(label) != nil {
			return false
		}
	}
	return true
}

// identityDocument has the fields of Amazon's document in their order. A field that Seedbed cannot
// fill is null.
type identityDocument struct {
	AccountID               *string  `json:"accountId"`
	Architecture            string   `json:"architecture"`
	AvailabilityZone        *string  `json:"availabilityZone"`
	BillingProducts         []string `json:"billingProducts"`
	DevpayProductCodes      []string `json:"devpayProductCodes"`
	MarketplaceProductCodes []string `json:"marketplaceProductCodes"`
	ImageID                 *string  `json:"imageId"`
	InstanceID              string   `json:"instanceId"`
	InstanceType            *string  `json:"instanceType"`
	KernelID                *string  `json:"kernelId"`
	PendingTime             *string  `json:"pendingTime"`
	PrivateIP               *string  `json:"privateIp"`
	RamdiskID               *string  `json:"ramdiskId"`
	Region                  *string  `json:"region"`
	Version                 string   `json:"version"`
}

// IdentityDocument returns the instance identity document of g (EC2 user guide, "Instance identity
// documents"): indented JSON without a final line break. seedbedd signs exactly these bytes and the
// guest plane serves them, so both call this method.
func (g Guest) IdentityDocument() []byte {
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	d := identityDocument{
		AccountID:        orNull(g.Account),
		Architecture:     "x86_64",
		AvailabilityZone: orNull(g.Zone),
		ImageID:          orNull(g.Image),
		InstanceID:       g.ServedID(),
		InstanceType:     orNull(g.Profile),
		Region:           orNull(g.Region),
		Version:          "2017-09-30",
	}
	if nics := g.Shown(); len(nics) > 0 && nics[0].Addr != (netip.Addr{}) {
		d.PrivateIP = orNull(nics[0].Addr.String())
	}
	if !g.Created.IsZero() {
		d.PendingTime = orNull(g.Created.UTC().Format(time.RFC3339))
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}

// ServedID returns the instance-id in the form that MetadataOptions.InstanceID asks for.
func (g Guest) ServedID() string {
	if g.Options.InstanceID == InstanceIDUUID {
		return string(g.ID)
	}
	return g.ID.EC2()
}
