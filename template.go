package seedbed

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// ObjectMeta holds what the database records of every object that a profile refers to.
type ObjectMeta struct {
	// ID numbers the objects of one kind, from 1. It is never reused.
	ID int64
	// Revision grows by one with each change of the object or its parts.
	Revision         int64
	Created, Changed time.Time
	// Published says which other projects may use it; nil for who may not learn that.
	Published *Publication
}

// Meta returns m. It is a method of all that m is embedded in.
func (m *ObjectMeta) Meta() *ObjectMeta { return m }

// SystemTemplate is the virtual hardware of an instance (PVC's system template).
type SystemTemplate struct {
	ObjectMeta
	Name   string
	VCPUs  int
	Memory Bytes
	// Serial and VNC ask for a serial console and a VNC screen; VNCBind is the address of the
	// screen.
	Serial, VNC bool
	VNCBind     string
	// NodeLimit are the nodes that may run it; empty means all.
	NodeLimit []string
	// NodeSelector says how one of them is chosen: mem, memprov, vcpus, vms or load; empty means
	// the installation's selector.
	NodeSelector string
	// NodeAutostart, MigrationMethod (none, live or shutdown; may be empty) and
	// MigrationDowntime say how it follows its node.
	NodeAutostart     bool
	MigrationMethod   string
	MigrationDowntime time.Duration
	// DiskBus is the bus of its disks, BusVirtio or BusSCSI; empty means BusVirtio. DiskCopy makes
	// them full copies of their images instead of clones.
	DiskBus  string
	DiskCopy bool
	// OVA and OVAID are the name and ID of the OVA image that it came with; else empty and 0.
	OVA   string
	OVAID int64
}

// NetworkTemplate is the NICs of an instance (PVC's network template).
type NetworkTemplate struct {
	ObjectMeta
	Name string
	// MAC makes the MAC addresses; empty means random ones.
	MAC MACTemplate
	// Networks are the networks of the NICs, in their order.
	Networks []TemplateNetwork
}

// TemplateNetwork is one NIC of a network template.
type TemplateNetwork struct {
	ID int64
	// Template is the ID of the network template.
	Template int64
	// VNI is the name of a network.
	VNI string
}

// AddNetwork adds a NIC after the others. A second NIC in the same network is ErrExists unless again is
// set. More than MaxNICs are ErrInvalid.
func (t *NetworkTemplate) AddNetwork(vni string, again bool) error {
	if n := len(t.Networks); n >= MaxNICs {
		return Errorf(ErrInvalid, "the network template %q has %d networks already, the maximum for an instance", t.Name, n)
	}
	if !again && slices.ContainsFunc(t.Networks, inNetwork(vni)) {
		return Errorf(ErrExists, "the VNI %q in network template %q already exists", Clip(vni), t.Name)
	}
	t.Networks = append(t.Networks, TemplateNetwork{Template: t.ID, VNI: vni})
	return nil
}

// RemoveNetwork removes every NIC in a network. It returns ErrNotFound if there is none.
func (t *NetworkTemplate) RemoveNetwork(vni string) error {
	n := len(t.Networks)
	if t.Networks = slices.DeleteFunc(t.Networks, inNetwork(vni)); len(t.Networks) == n {
		return Errorf(ErrNotFound, "the VNI %q in network template %q does not exist", Clip(vni), t.Name)
	}
	return nil
}

func inNetwork(vni string) func(TemplateNetwork) bool {
	return func(n TemplateNetwork) bool { return n.VNI == vni }
}

// FirstNetwork returns the network of the first NIC that the profile itself has; empty if it has none.
func (p Profile) FirstNetwork() string {
	if len(p.NICs) > 0 {
		return p.NICs[0].Network
	}
	return p.Network
}

// CheckNICs returns ErrInvalid for NICs that a profile cannot have.
func (p Profile) CheckNICs() error {
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "profile %q: nics: "+format, append([]any{p.Name}, args...)...)
	}
	switch {
	case len(p.NICs) == 0:
		return nil
	case len(p.NICs) > MaxNICs:
		return bad("there are %d: expected at most %d", len(p.NICs), MaxNICs)
	case p.Network+p.Expressions["network"] != "":
		return bad("the network %s is given as well, which is short for one NIC: expected only one of them",
			Clip(p.Network+p.Expressions["network"]))
	case p.NetworkTemplate+p.Expressions["network_template"] != "":
		return bad("the network template %s is given as well: expected only one of them, since nics are all NICs of an instance",
			Clip(p.NetworkTemplate+p.Expressions["network_template"]))
	case p.Script != "":
		return bad("the script %s makes those of a network template: expected none", Clip(p.Script))
	}
	for i, n := range p.NICs {
		own := func(what, key string) error {
			return bad("NIC %d has %s, which all instances would have: expected it with the instance, as seedbed create --nic network=%s,%s",
				i, what, cmp.Or(Clip(n.Network), "NETWORK"), key)
		}
		switch {
		case n.MAC != (MAC{}):
			return own("the MAC address "+n.MAC.String(), "mac="+n.MAC.String())
		case n.Addr.IsValid():
			return own("the address "+n.Addr.String(), "ip="+n.Addr.String())
		case len(n.Secondary) > 0:
			return own("the secondary address "+n.Secondary[0].String(), "secondary="+n.Secondary[0].String())
		case n.Network == "":
			return bad("NIC %d names no network: expected one", i)
		}
		if err := cmp.Or(n.Check(i), CheckGroupNames(n.Groups)); err != nil {
			return Errorf(ErrInvalid, "profile %q: %v", p.Name, err)
		}
	}
	return nil
}

// StorageTemplate is the disks of an instance (PVC's storage template).
type StorageTemplate struct {
	ObjectMeta
	Name string
	// Disks are in the order of their names, as in the instance. The first is its root disk.
	Disks []TemplateDisk
}

// TemplateDisk is one disk of a storage template: a clone of an image, or blank.
type TemplateDisk struct {
	ID int64
	// Template is the ID of the storage template.
	Template int64
	// Name is the name of the disk, such as "sda". Pool is the pool that it is in.
	Name, Pool string
	// Source is the image of the same pool that it is a clone of; empty means blank.
	Source string
	// Size is the size of a blank disk; 0 for a clone, which has the size of its image.
	Size Bytes
	// Filesystem is the filesystem to make on a blank disk, and FilesystemArgs the arguments of
	// mkfs. Mountpoint is where a script finds the disk. Empty means not to format or not to mount.
	Filesystem     string
	FilesystemArgs []string
	Mountpoint     string
}

// AddDisk adds a disk. A second one of its name is ErrExists. More than MaxVolumes are ErrInvalid.
func (t *StorageTemplate) AddDisk(d TemplateDisk) error {
	if n := len(t.Disks); n >= MaxVolumes {
		return Errorf(ErrInvalid, "the storage template %q has %d disks already, the maximum for an instance", t.Name, n)
	}
	if slices.ContainsFunc(t.Disks, hasName(d.Name)) {
		return Errorf(ErrExists, "the disk %q in storage template %q already exists", Clip(d.Name), t.Name)
	}
	d.ID, d.Template = 0, t.ID
	t.Disks = append(t.Disks, d)
	return nil
}

// RemoveDisk removes the disk of that name. It returns ErrNotFound if there is none.
func (t *StorageTemplate) RemoveDisk(name string) error {
	n := len(t.Disks)
	if t.Disks = slices.DeleteFunc(t.Disks, hasName(name)); len(t.Disks) == n {
		return Errorf(ErrNotFound, "the disk %q in storage template %q does not exist", Clip(name), t.Name)
	}
	return nil
}

func hasName(name string) func(TemplateDisk) bool {
	return func(d TemplateDisk) bool { return d.Name == name }
}

// Empty is the name of the user-data document and of the script that always exist and are empty.
const Empty = "empty"

// UserDataDocument is user-data that profiles share, served byte for byte.
type UserDataDocument struct {
	ObjectMeta
	Name string
	Data string
}

// Script is a provisioning script.
type Script struct {
	ObjectMeta
	Name    string
	Text    string
	Options ScriptOptions
}

// ScriptedSpec is the input of a create job whose instance was made from a profile with a script.
type ScriptedSpec struct {
	Profile string `json:"profile"`
	// Revision is the revision of the profile that it was made from.
	Revision int64 `json:"revision"`
	// Start is true if the instance is started once it is defined.
	Start bool `json:"start"`
	// Scripted is true if the profile's script makes it.
	Scripted bool `json:"scripted,omitempty"`
	// Skipped says why the profile's script was skipped; empty if it was not.
	Skipped string `json:"skipped,omitempty"`
	// Undefined is true if only its disks are made.
	Undefined bool `json:"undefined,omitempty"`
}

// NameMatch selects names. The zero value selects all.
type NameMatch struct {
	// Text is in the name: at its start if Start, at its end if End.
	Text       string
	Start, End bool
	// Project is the project of which only the own objects match, by their names without it; empty for the
	// objects of all projects, by their qualified names.
	Project string
}

// ExactName returns a NameMatch for only that name.
func ExactName(name string) NameMatch { return NameMatch{Text: name, Start: true, End: true} }

// ParseNameMatch parses a pattern as PVC takes it: text anywhere in the name, at its start after
// '^', and at its end before '$'.
func ParseNameMatch(s string) NameMatch {
	var m NameMatch
	m.Text, m.Start = strings.CutPrefix(s, "^")
	m.Text, m.End = strings.CutSuffix(m.Text, "$")
	return m
}

// PlacementGroup is a named set of instances of a project, and how the placement treats them. Name is qualified.
type PlacementGroup struct {
	Name   string          `json:"name"`
	Policy PlacementPolicy `json:"policy"`
	// Description is one line for people.
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	// Instances are the full names of its members, sorted.
	Instances []string `json:"instances"`
}

// MaxPlacementGroups is how many placement groups a project has at most.
const MaxPlacementGroups = 500

// Check returns ErrInvalid for a group that cannot be made.
func (g PlacementGroup) Check() error {
	switch {
	case !slices.Contains(PlacementPolicies(), g.Policy):
		return Errorf(ErrInvalid, "policy %q of placement group %q is unknown: expected %s", Clip(string(g.Policy)), Clip(g.Name),
			strings.Join(words(PlacementPolicies()), ", "))
	case !line(g.Description):
		return Errorf(ErrInvalid, "the description of placement group %q is not one line of at most %d bytes", g.Name, maxDescription)
	}
	return CheckQualifiedName("placement group", g.Name)
}

// PlacementPolicy says on which nodes the instances of a placement group are, relative to each other.
type PlacementPolicy string

// The policies of placement groups. A soft one is kept if it can be, and never refuses a node.
const (
	Affinity         PlacementPolicy = "affinity"      // all on one node
	AntiAffinity     PlacementPolicy = "anti-affinity" // each on a node of its own
	SoftAffinity     PlacementPolicy = "soft-affinity"
	SoftAntiAffinity PlacementPolicy = "soft-anti-affinity"
)

// PlacementPolicies returns all policies.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity}
}

// GroupMember is an instance of a placement group on one node. One that is on its way from a node to another is on both.
type GroupMember struct {
	Group    string
	Instance InstanceID
	Node     string
}

func words[T ~string](all []T) []string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return texts
}
