package seedbed

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Catalogue is what instances are made from, in the form that one installation exports and another
// imports. It has no IDs, revisions or times. Images, networks and OVA images are only named.
// Secret parameters have no value here, as in a profile.
type Catalogue struct {
	System   []CatalogueSystem   `json:"system_templates"`
	Network  []CatalogueNetwork  `json:"network_templates"`
	Storage  []CatalogueStorage  `json:"storage_templates"`
	UserData []CatalogueDocument `json:"userdata"`
	Scripts  []CatalogueScript   `json:"scripts"`
	Profiles []Profile           `json:"profiles"`
	// Provisioner holds the profiles with a script of a catalogue that a release before 0.2.0
	// wrote.
	Provisioner []CatalogueProvisioner `json:"provisioner_profiles,omitempty"`
}

// CatalogueSystem is a system template. MigrationDowntime is in milliseconds.
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

// CatalogueNetwork is a network template. VNIs are in the order of the NICs.
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

// CatalogueDocument is a user-data document.
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

// CatalogueProvisioner is a profile with a script, as a release before 0.2.0 wrote it.
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

// Objects returns the number of objects in c.
func (c Catalogue) Objects() int {
	return len(c.System) + len(c.Network) + len(c.Storage) + len(c.UserData) + len(c.Scripts) + len(c.Provisioner) + len(c.Profiles)
}

// SystemOfCatalogue returns t in the form of a catalogue.
func SystemOfCatalogue(t SystemTemplate) CatalogueSystem {
	return CatalogueSystem{t.Name, t.VCPUs, t.Memory, t.Serial, t.VNC, t.VNCBind, t.NodeLimit, t.NodeSelector,
		t.NodeAutostart, t.MigrationMethod, t.MigrationDowntime.Milliseconds(), t.DiskBus, t.DiskCopy}
}

// Template returns the system template that c describes.
func (c CatalogueSystem) Template() SystemTemplate {
	// A value beyond a Duration is clamped to one that the checks refuse as well.
	const most = int64(24 * 366 * time.Hour / time.Millisecond)
	return SystemTemplate{Name: c.Name, VCPUs: c.VCPUs, Memory: c.Memory, Serial: c.Serial, VNC: c.VNC, VNCBind: c.VNCBind,
		NodeLimit: c.NodeLimit, NodeSelector: c.NodeSelector, NodeAutostart: c.NodeAutostart,
		MigrationMethod: c.MigrationMethod, DiskBus: c.DiskBus, DiskCopy: c.DiskCopy,
		MigrationDowntime: time.Duration(max(-1, min(c.MigrationDowntime, most))) * time.Millisecond}
}

// NetworkOfCatalogue returns t in the form of a catalogue.
func NetworkOfCatalogue(t NetworkTemplate) CatalogueNetwork {
	c := CatalogueNetwork{t.Name, t.MAC, []string{}}
	for _, n := range t.Networks {
		c.VNIs = append(c.VNIs, n.VNI)
	}
	return c
}

// StorageOfCatalogue returns t in the form of a catalogue.
func StorageOfCatalogue(t StorageTemplate) CatalogueStorage {
	c := CatalogueStorage{t.Name, []CatalogueDisk{}}
	for _, d := range t.Disks {
		c.Disks = append(c.Disks, CatalogueDisk{d.Name, d.Pool, d.Source, d.Size, d.Filesystem, d.FilesystemArgs, d.Mountpoint})
	}
	return c
}

// Disk returns the template disk that c describes.
func (c CatalogueDisk) Disk() TemplateDisk {
	return TemplateDisk{Name: c.Name, Pool: c.Pool, Source: c.Source, Size: c.Size,
		Filesystem: c.Filesystem, FilesystemArgs: c.FilesystemArgs, Mountpoint: c.Mountpoint}
}

// Profile returns the profile that c describes.
func (c CatalogueProvisioner) Profile() Profile {
	p := NewScripted(c.Name, c.Script)
	p.System, p.NetworkTemplate, p.Storage, p.Document, p.OVA = c.System, c.Network, c.Storage, c.UserData, c.OVA
	p.Arguments, p.Params, p.Protected, p.Hold = c.Arguments, c.Params, c.Protected, c.Hold
	p.Follow = cmp.Or(c.Follow, p.Follow)
	return p
}

// ProfileOfCatalogue returns p in the form of a catalogue.
func ProfileOfCatalogue(p Profile) Profile {
	p.ID, p.Revision, p.Created, p.Changed, p.Published = 0, 0, time.Time{}, time.Time{}, nil
	return p
}

// What importing a catalogue does to an object.
const (
	CatalogueMade     = "made"
	CatalogueChanged  = "changed"
	CatalogueKept     = "kept"
	CatalogueConflict = "conflict"
)

// CatalogueChange is what importing a catalogue does to one object.
type CatalogueChange struct {
	// Kind is the kind of object, such as "system template". Action is CatalogueMade,
	// CatalogueChanged, CatalogueKept or CatalogueConflict.
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"`
	// Detail is the reason for a conflict.
	Detail string `json:"detail,omitempty"`
}

// CatalogueReport is what an import of a catalogue did, or would do.
type CatalogueReport struct {
	// Applied reports whether the catalogue was imported. It is false for a trial and for an import
	// with a conflict.
	Applied bool              `json:"applied"`
	Changes []CatalogueChange `json:"changes"`
}

// Conflicts returns the number of objects in conflict.
func (r CatalogueReport) Conflicts() (n int) {
	for _, c := range r.Changes {
		if c.Action == CatalogueConflict {
			n++
		}
	}
	return n
}

// CatalogueImport says how to import a catalogue.
type CatalogueImport struct {
	// Project is whose the objects become; empty for the default project.
	Project string
	// DryRun only reports what an import would do.
	DryRun bool
	// Keep leaves existing objects unchanged.
	Keep bool
	// Check returns ErrInvalid for a profile with a fault that the database cannot detect. The
	// PartReader sees the objects that were imported before. Nil checks nothing.
	Check func(context.Context, PartReader, Profile) error
	// CheckDisk is like Check, for a disk of a storage template.
	CheckDisk func(TemplateDisk) error
}

// PublishedKind is a kind of object of which a project can publish its own to others.
type PublishedKind string

// The kinds of objects that can be published.
const (
	PublishedImage           PublishedKind = "image"
	PublishedNetwork         PublishedKind = "network"
	PublishedProfile         PublishedKind = "profile"
	PublishedSystemTemplate  PublishedKind = "system-template"
	PublishedNetworkTemplate PublishedKind = "network-template"
	PublishedStorageTemplate PublishedKind = "storage-template"
	PublishedUserData        PublishedKind = "userdata"
	PublishedScript          PublishedKind = "script"
	PublishedOVA             PublishedKind = "ova"
)

// nouns are the words of messages for the kinds that are not words themselves.
var nouns = map[PublishedKind]string{
	PublishedSystemTemplate: "system template", PublishedNetworkTemplate: "network template",
	PublishedStorageTemplate: "storage template", PublishedUserData: "userdata document", PublishedOVA: "OVA image",
}

// Noun returns the word of messages for one object of the kind.
func (k PublishedKind) Noun() string { return cmp.Or(nouns[k], string(k)) }

// PublishedKinds returns the kinds of objects that can be published.
func PublishedKinds() []PublishedKind {
	return []PublishedKind{PublishedImage, PublishedNetwork, PublishedProfile, PublishedSystemTemplate, PublishedNetworkTemplate,
		PublishedStorageTemplate, PublishedUserData, PublishedScript, PublishedOVA}
}

// ParsePublishedKind parses a kind of object that can be published. An unknown one is ErrInvalid.
func ParsePublishedKind(s string) (PublishedKind, error) {
	if !slices.Contains(PublishedKinds(), PublishedKind(s)) {
		words := make([]string, 0, len(PublishedKinds()))
		for _, k := range PublishedKinds() {
			words = append(words, string(k))
		}
		return "", Errorf(ErrInvalid, "kind %q cannot be published: expected %s", Clip(s), strings.Join(words, ", "))
	}
	return PublishedKind(s), nil
}

// Missing returns the error for an object of the kind that does not exist, or that is not published to
// who asks. The two do not differ.
func (k PublishedKind) Missing(kind error, name string) error {
	return Errorf(kind, "%s %q does not exist", k.Noun(), Clip(name))
}

// Publication says which other projects may use an object. The zero Publication is that of a draft,
// which only its own project uses.
type Publication struct {
	// All is set if all projects may use it, those of the future included.
	All bool `json:"all"`
	// Projects names the projects that may use it. They need not exist.
	Projects []string `json:"projects"`
}

// maxPublished is the largest number of projects to which an object is published by name.
const maxPublished = 1000

// Check returns ErrInvalid for a publication that an object of a project cannot have. It sorts the
// projects, and leaves out that one.
func (p *Publication) Check(project string) error {
	if p.All && len(p.Projects) > 0 {
		return Errorf(ErrInvalid, "it is published to all projects and to %d named ones: expected only one of them", len(p.Projects))
	}
	if len(p.Projects) > maxPublished {
		return Errorf(ErrInvalid, "it is published to %d projects: expected at most %d, or all", len(p.Projects), maxPublished)
	}
	for _, name := range p.Projects {
		if err := CheckProjectName(name); err != nil {
			return err
		}
	}
	named := slices.Compact(slices.Sorted(slices.Values(p.Projects)))
	p.Projects = slices.DeleteFunc(named, func(name string) bool { return name == project })
	if p.Projects == nil {
		p.Projects = []string{}
	}
	return nil
}

// Lets reports whether a project may use the object with a qualified name and this publication: one of
// its own, or one that is published to it.
func (p Publication) Lets(project, qualified string) bool {
	return project == ProjectOf(qualified) || p.All || slices.Contains(p.Projects, project)
}

// String returns the publication in words.
func (p Publication) String() string {
	if p.All {
		return "all projects"
	}
	return cmp.Or(strings.Join(p.Projects, ", "), "draft")
}

// Explicit returns a name in requests that stands for the object with a qualified name, whoever asks: with
// its project, also if that is the default one.
func Explicit(qualified string) string {
	if strings.Contains(qualified, "/") {
		return qualified
	}
	return DefaultProject + "/" + qualified
}

// Meant returns the qualified names that a name in a request of a project may stand for, in the order in
// which they are looked for. One with a project, "acme/debian", is that of this project. One without is
// that of the request's own project or, if it has none, of the default one. A name that is not usable is
// ErrInvalid.
func Meant(kind PublishedKind, project, name string) ([]string, error) {
	of, short, with := strings.Cut(name, "/")
	if !with {
		short = name
	}
	if err := CheckName(kind.Noun(), short); err != nil {
		return nil, err
	}
	if with {
		if CheckProjectName(of) != nil {
			return nil, CheckName(kind.Noun(), name) // which has a slash
		}
		return []string{Qualified(of, short)}, nil
	}
	return slices.Compact([]string{Qualified(project, short), Qualified(DefaultProject, short)}), nil
}

// VolumeUpload is a file that was uploaded to the pool of a volume. Format is what the file must be; empty means qcow2 or raw.
type VolumeUpload struct {
	ID     string `json:"id"`
	Format string `json:"format,omitempty"`
}

// VolumeMove asks for a volume to be taken to another pool. Node is the node that is to have it there; empty leaves the choice.
type VolumeMove struct {
	Pool string `json:"pool"`
	Node string `json:"node,omitempty"`
}

// VolumePlace is where a volume is.
type VolumePlace struct {
	Pool string `json:"pool"`
	Node string `json:"node,omitempty"`
}

// Place returns where the volume is.
func (v ProjectVolume) Place() VolumePlace {
	return VolumePlace{Pool: v.Pool, Node: v.Node}
}

// CheckMove returns ErrInvalid for a pool that the volume is in already, and ErrConflict while its instance, which is i if it has one, may
// use it.
func (v ProjectVolume) CheckMove(pool string, i Instance) error {
	switch {
	case pool == v.Pool:
		return Errorf(ErrInvalid, "volume %q is in pool %q already: expected another pool", v.Name, pool)
	case v.Instance != "" && i.State != InstanceStopped:
		return Errorf(ErrConflict, "volume %q is attached to instance %q, which is %s: a volume is moved while its instance is stopped "+
			"(seedbed vm stop %s), or detached (seedbed volume detach %s)", v.Name, v.Holder, i.State, v.Holder, v.Name)
	}
	return nil
}

// CheckCopy returns ErrInvalid if no volume of that size in that pool can be a copy of the volume, and ErrInUse if a job works on it. Zero
// means the size of the volume.
func (v ProjectVolume) CheckCopy(pool string, size Bytes) error {
	switch {
	case v.State != VolumeFree && v.State != VolumeAttached:
		return Errorf(ErrInUse, "volume %q is %s: only one that is free or attached is copied", v.Name, v.State)
	case v.Pool != pool:
		return Errorf(ErrInvalid, "volume %q is in pool %q and cannot be copied to pool %q", v.Name, v.Pool, pool)
	case size != 0 && size < v.Size:
		return Errorf(ErrInvalid, "size is %s, but volume %q has %s: expected at least that", size, v.Name, v.Size)
	}
	return nil
}

// CheckClone returns ErrInvalid if no volume of that size in that pool can be a clone of the image. Zero means the image's size.
func (i Image) CheckClone(pool string, size Bytes) error {
	switch {
	case i.State != ImageActive:
		return Errorf(ErrInvalid, "image %q is %s: wait for its import to end", i.Name, i.State)
	case i.Pool != pool:
		return Errorf(ErrInvalid, "image %q is in pool %q and cannot be cloned in pool %q", i.Name, i.Pool, pool)
	case size != 0 && size < i.Size:
		return Errorf(ErrInvalid, "size is %s, but image %q has %s: expected at least that", size, i.Name, i.Size)
	}
	return nil
}
