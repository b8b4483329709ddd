package seedbed

import (
	"cmp"
	"context"
	"time"
)

// Catalogue is what machines are composed from, as it goes from one installation
// to another: without numbers, revisions and times, without images, networks and
// OVA images, which are named. Secret params have no value in it: they have none in a profile.
type Catalogue struct {
	System   []CatalogueSystem   `json:"system_templates"`
	Network  []CatalogueNetwork  `json:"network_templates"`
	Storage  []CatalogueStorage  `json:"storage_templates"`
	UserData []CatalogueDocument `json:"userdata"`
	Scripts  []CatalogueScript   `json:"scripts"`
	Profiles []Profile           `json:"profiles"`
	// Provisioner are the profiles with a script in a catalogue of a release before 0.2.0.
	Provisioner []CatalogueProvisioner `json:"provisioner_profiles,omitempty"`
}

// CatalogueSystem is a system template; the downtime is in milliseconds.
type CatalogueSystem struct {
	Name              string   `json:"name"`
	VCPUs             int      `json:"vcpus"`
	Memory            Bytes    `json:"memory"`
	Serial            bool     `json:"serial,omitempty"`
	VNC               bool     `json:"vnc,omitempty"`
	VNCBind           string   `json:"vnc_bind,omitempty"`
	NodeLimit         []string `json:"node_limit,omitempty"`
	NodeSelector      string   `json:"node_selector,omitempty"`
	NodeAutostart     bool     `json:"node_autostart,omitempty"`
	MigrationMethod   string   `json:"migration_method,omitempty"`
	MigrationDowntime int64    `json:"migration_max_downtime,omitempty"`
	DiskBus           string   `json:"disk_bus,omitempty"`
	DiskCopy          bool     `json:"disk_copy,omitempty"`
}

// CatalogueNetwork is a network template; the VNIs are in the order of the NICs.
type CatalogueNetwork struct {
	Name string      `json:"name"`
	MAC  MACTemplate `json:"mac_template,omitempty"`
	VNIs []string    `json:"vnis"`
}

// CatalogueStorage is a storage template.
type CatalogueStorage struct {
	Name  string          `json:"name"`
	Disks []CatalogueDisk `json:"disks"`
}

// CatalogueDisk is a disk of a storage template.
type CatalogueDisk struct {
	Name           string   `json:"name"`
	Pool           string   `json:"pool"`
	Source         string   `json:"source_volume,omitempty"`
	Size           Bytes    `json:"size,omitempty"`
	Filesystem     string   `json:"filesystem,omitempty"`
	FilesystemArgs []string `json:"filesystem_args,omitempty"`
	Mountpoint     string   `json:"mountpoint,omitempty"`
}

// CatalogueDocument is a userdata document.
type CatalogueDocument struct {
	Name string `json:"name"`
	Data string `json:"data"`
}

// CatalogueScript is a provisioning script.
type CatalogueScript struct {
	Name    string        `json:"name"`
	Text    string        `json:"text"`
	Options ScriptOptions `json:"options,omitzero"`
}

// CatalogueProvisioner is a profile with a script in a catalogue of a release before 0.2.0.
type CatalogueProvisioner struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	System    string   `json:"system_template"`
	Network   string   `json:"network_template,omitempty"`
	Storage   string   `json:"storage_template,omitempty"`
	UserData  string   `json:"userdata,omitempty"`
	Script    string   `json:"script"`
	OVA       string   `json:"ova,omitempty"`
	Arguments []string `json:"arguments,omitempty"`
	Params    []Param  `json:"params,omitempty"`
	Follow    Follow   `json:"follow,omitempty"`
	Protected bool     `json:"protected,omitempty"`
	Hold      bool     `json:"hold,omitempty"`
}

// Objects is how many objects there are.
func (c Catalogue) Objects() int {
	return len(c.System) + len(c.Network) + len(c.Storage) + len(c.UserData) + len(c.Scripts) + len(c.Provisioner) + len(c.Profiles)
}

// SystemOfCatalogue is a system template as a catalogue has it.
func SystemOfCatalogue(t SystemTemplate) CatalogueSystem {
	return CatalogueSystem{t.Name, t.VCPUs, t.Memory, t.Serial, t.VNC, t.VNCBind, t.NodeLimit, t.NodeSelector, t.NodeAutostart, t.MigrationMethod, t.MigrationDowntime.Milliseconds(), t.DiskBus, t.DiskCopy}
}

// Template is the system template that c describes.
func (c CatalogueSystem) Template() SystemTemplate {
	// What is too long for a duration is refused all the same.
	const most = int64(24 * 366 * time.Hour / time.Millisecond)
	return SystemTemplate{Name: c.Name, VCPUs: c.VCPUs, Memory: c.Memory, Serial: c.Serial, VNC: c.VNC, VNCBind: c.VNCBind, NodeLimit: c.NodeLimit,
		NodeSelector: c.NodeSelector, NodeAutostart: c.NodeAutostart, MigrationMethod: c.MigrationMethod, DiskBus: c.DiskBus, DiskCopy: c.DiskCopy,
		MigrationDowntime: time.Duration(max(-1, min(c.MigrationDowntime, most))) * time.Millisecond}
}

// NetworkOfCatalogue is a network template as a catalogue has it.
func NetworkOfCatalogue(t NetworkTemplate) CatalogueNetwork {
	c := CatalogueNetwork{t.Name, t.MAC, []string{}}
	for _, n := range t.Networks {
		c.VNIs = append(c.VNIs, n.VNI)
	}
	return c
}

// StorageOfCatalogue is a storage template as a catalogue has it.
func StorageOfCatalogue(t StorageTemplate) CatalogueStorage {
	c := CatalogueStorage{t.Name, []CatalogueDisk{}}
	for _, d := range t.Disks {
		c.Disks = append(c.Disks, CatalogueDisk{d.Name, d.Pool, d.Source, d.Size, d.Filesystem, d.FilesystemArgs, d.Mountpoint})
	}
	return c
}

// Disk is the disk of a template that c describes.
func (c CatalogueDisk) Disk() TemplateDisk {
	return TemplateDisk{Name: c.Name, Pool: c.Pool, Source: c.Source, Size: c.Size, Filesystem: c.Filesystem, FilesystemArgs: c.FilesystemArgs, Mountpoint: c.Mountpoint}
}

// Profile is the profile that c describes.
func (c CatalogueProvisioner) Profile() Profile {
	p := NewScripted(c.Name, c.Script)
	p.System, p.NetworkTemplate, p.Storage, p.Document, p.OVA = c.System, c.Network, c.Storage, c.UserData, c.OVA
	p.Arguments, p.Params, p.Protected, p.Hold = c.Arguments, c.Params, c.Protected, c.Hold
	p.Follow = cmp.Or(c.Follow, p.Follow)
	return p
}

// ProfileOfCatalogue is a profile as a catalogue has it.
func ProfileOfCatalogue(p Profile) Profile {
	p.ID, p.Revision, p.Created, p.Changed = 0, 0, time.Time{}, time.Time{}
	return p
}

// What becomes of an object of a catalogue that is taken over.
const (
	CatalogueMade     = "made"
	CatalogueChanged  = "changed"
	CatalogueKept     = "kept"
	CatalogueConflict = "conflict"
)

// CatalogueChange is what becomes of one object.
type CatalogueChange struct {
	// Kind is what it is, such as "system template"; Action is one of the constants.
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"`
	// Detail says why, of a conflict.
	Detail string `json:"detail,omitempty"`
}

// CatalogueReport is what became of a catalogue that was taken over, or would.
type CatalogueReport struct {
	// Applied tells whether it was: not when that was only tried, nor with a conflict.
	Applied bool              `json:"applied"`
	Changes []CatalogueChange `json:"changes"`
}

// Conflicts is how many objects are in the way.
func (r CatalogueReport) Conflicts() (n int) {
	for _, c := range r.Changes {
		if c.Action == CatalogueConflict {
			n++
		}
	}
	return n
}

// TakeOver is how a catalogue is taken over.
type TakeOver struct {
	// Try writes nothing, and says what would be written.
	Try bool
	// Keep leaves what is there as it is, instead of changing it.
	Keep bool
	// Check refuses, with ErrInvalid, what the database cannot judge of a profile. It is
	// called with a context in which what came before it is there. nil is none.
	Check func(context.Context, Profile) error
	// CheckDisk is the same for a disk of a storage template.
	CheckDisk func(TemplateDisk) error
}
