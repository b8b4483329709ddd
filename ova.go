package seedbed

import (
	"slices"
	"strings"
)

// OVA is an OVA image: the disks of an appliance, each an image of a pool. The system template and
// the profile of its name make instances from it.
type OVA struct {
	ObjectMeta
	Name string
	// State is the state of its images.
	State ImageState
	// Volumes are its disks, in the order of the appliance's hardware.
	Volumes []OVAVolume
}

// OVAVolume is one disk of an OVA image.
type OVAVolume struct {
	// Disk is the name of the disk in an instance: "sda", "sdb", …
	Disk string `json:"disk"`
	// Pool and Image say where it is stored.
	Pool  string `json:"pool"`
	Image string `json:"image"`
	// File is the name of the disk's file in the OVA. Format is its format, by its extension.
	File   string `json:"file"`
	Format string `json:"format"`
	// Size is the capacity of the disk, or the size of its file if the OVA does not state a
	// capacity.
	Size Bytes `json:"size"`
}

// OVAJob is the input of a job that makes or removes an OVA image.
type OVAJob struct {
	// Upload is the file, and SHA256 its digest; both are empty for a removal.
	Upload  string      `json:"upload,omitempty"`
	SHA256  string      `json:"sha256,omitempty"`
	Volumes []OVAVolume `json:"volumes"`
	// Import is the job that made the image, and Was the state that the image had; both for a
	// removal.
	Import JobID      `json:"import,omitempty"`
	Was    ImageState `json:"was,omitempty"`
}

// NewOVA is an OVA image with everything that is created with it.
type NewOVA struct {
	OVA     OVA
	Images  []Image
	System  SystemTemplate
	Profile Profile
}

// MaxOVADisks is how many disks an OVA may have: sda to sdz.
const MaxOVADisks = 26

// DiskName returns the name of disk n of an instance: "sda" for 0.
func DiskName(n int) string { return "sd" + string(rune('a'+n)) }

const ovaPrefix, maxOVAName = "ova_", 63 - len("ova__sda")

// OVAImage returns the qualified name of the image that holds a disk of an OVA (PVC's volume name).
func OVAImage(ova, disk string) string {
	return Qualified(ProjectOf(ova), ovaPrefix+ShortName(ova)+"_"+disk)
}

// Has reports whether an image holds a disk of the OVA. A nil OVA has none.
func (o *OVA) Has(image string) bool {
	return o != nil && slices.ContainsFunc(o.Volumes, func(v OVAVolume) bool { return v.Image == image })
}

// OVAScripts are the names that the default script of OVA images may have. The first that exists
// becomes the script of the profile of a new OVA image.
func OVAScripts() []string { return []string{"ova", "default_ova"} }

// CheckOVAName returns ErrInvalid unless name can be the qualified name of an OVA image. The names of its disks'
// images are made from it, so it is shorter than other names.
func CheckOVAName(name string) error {
	if err := CheckQualifiedName("OVA image", name); err != nil {
		return err
	}
	if short := ShortName(name); len(short) > maxOVAName {
		return Errorf(ErrInvalid, "OVA image name %q has %d characters: expected at most %d, since the names of its disks' images contain it",
			Clip(short), len(short), maxOVAName)
	}
	return nil
}

// Firmware is what starts an instance.
type Firmware string

// The kinds of firmware.
const (
	FirmwareBIOS Firmware = "bios" // the default
	FirmwareUEFI Firmware = "uefi"
	// FirmwareSecure is UEFI with secure boot: it has Microsoft's keys, and starts only what these have signed.
	FirmwareSecure Firmware = "uefi-secure"
)

// ParseFirmware parses "bios", "uefi" (also "efi") or "uefi-secure", in any case. Empty stays empty, which means what
// the source of an image states. Any other text is ErrInvalid.
func ParseFirmware(s string) (Firmware, error) {
	switch f := Firmware(strings.ToLower(s)); f {
	case "", FirmwareBIOS, FirmwareUEFI, FirmwareSecure:
		return f, nil
	case "efi":
		return FirmwareUEFI, nil
	}
	return "", Errorf(ErrInvalid, "firmware %q is unknown: expected bios, uefi or uefi-secure", Clip(s))
}

// UploadSpec asks a worker to receive a file for a later import.
type UploadSpec struct {
	Pool string `json:"pool"`
	// Node is the node that receives it; empty means any that has the pool.
	Node string `json:"node,omitempty"`
	// ID names the file until it is imported. It consists of letters and digits and is not
	// guessable.
	ID string `json:"id"`
	// Size is the size of the file; 0 if it is not known in advance.
	Size Bytes `json:"size,omitempty"`
	// SHA256 is the digest that the file must have; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
	// Disk is true for the file of a volume: a usable disk in qcow2 or raw format, whose size is to be known. Format is the one of the two
	// that it must have; empty means either.
	Disk   bool   `json:"disk,omitempty"`
	Format string `json:"format,omitempty"`
}

// Upload is a file that a worker has received.
type Upload struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
	// Node is the node whose worker received it. Only that node has the file.
	Node   string `json:"node,omitempty"`
	Size   Bytes  `json:"size"`
	SHA256 string `json:"sha256"`
	// Disk is the size of the disk in it, if UploadSpec asked for that.
	Disk Bytes `json:"disk,omitempty"`
	// Appliance is the content of an OVA; nil for another file.
	Appliance *Appliance `json:"appliance,omitempty"`
}

// Appliance is the virtual machine that an OVA describes (DMTF DSP0243).
type Appliance struct {
	VCPUs  int   `json:"vcpus"`
	Memory Bytes `json:"memory"`
	// Screen is true if it has a graphics controller.
	Screen   bool            `json:"screen"`
	Firmware Firmware        `json:"firmware"`
	Disks    []ApplianceDisk `json:"disks"`
}

// ApplianceDisk is one disk of an Appliance.
type ApplianceDisk struct {
	// File is the name of the disk's file in the OVA, and Size the size of that file.
	File string `json:"file"`
	Size Bytes  `json:"size"`
	// Capacity is the size of the disk; 0 if the OVA does not state it.
	Capacity Bytes `json:"capacity"`
}

// ImportSpec is the input of an import job.
type ImportSpec struct {
	// Path is a file on the worker's host; empty with Upload, the ID of a file that was uploaded to
	// the pool.
	Path   string `json:"path,omitempty"`
	Upload string `json:"upload,omitempty"`
	// From is the volume that the image is made from instead; nil for none. Generalised is the working copy of it that is generalised
	// first; nil for none.
	From        *VolumeSource `json:"from,omitempty"`
	Generalised *VolumeSource `json:"generalised,omitempty"`
	// Size is what the volume had when the request was accepted.
	Size Bytes `json:"size,omitempty"`
	// SHA256 is the digest that the file must have; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
	// Format is what the file must be; empty means any that can be imported.
	Format string `json:"format,omitempty"`
	// Firmware is that of the image; empty means what the file states, if anything.
	Firmware Firmware `json:"firmware,omitempty"`
	// Node is the node whose worker makes it; empty leaves the choice to the placement.
	Node string `json:"-"`
}

// VolumeDownload asks for a file with what a volume has. Format is FileQCOW2 or FileRaw; empty means the former.
type VolumeDownload struct {
	Format string `json:"format,omitempty"`
}

// The formats of files that volumes are downloaded as.
const (
	FileQCOW2 = "qcow2"
	FileRaw   = "raw"
)

// Check returns ErrInvalid for an unknown format.
func (d VolumeDownload) Check() error {
	switch d.Format {
	case "", FileQCOW2, FileRaw:
		return nil
	}
	return Errorf(ErrInvalid, "format %q: expected %s or %s", Clip(d.Format), FileQCOW2, FileRaw)
}

// VolumeFile is the file that a volume_download job has made, in the spool of a pool.
type VolumeFile struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
}

// FileOf returns the file that the volume_download job with that ID makes of a volume in a pool. The first half of its ID stands for the
// volume, which has one file at a time.
func FileOf(pool, volume string, id JobID) VolumeFile {
	return VolumeFile{Pool: pool, ID: strings.ReplaceAll(volume+string(id), "-", "")}
}
