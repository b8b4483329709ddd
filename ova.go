package seedbed

import "strings"

// OVA is an OVA image: the disks of an appliance, each an image of a pool, from
// which the system template and the profile of its name make machines.
type OVA struct {
	Stored
	Name string
	// State is that of its images.
	State ImageState
	// Volumes are its disks, in the order of its hardware.
	Volumes []OVAVolume
}

// OVAVolume is one disk of an OVA image.
type OVAVolume struct {
	// Disk is what the disk is called in a machine: "sda", "sdb", …
	Disk string `json:"disk"`
	// Pool and Image are where it is kept.
	Pool  string `json:"pool"`
	Image string `json:"image"`
	// File is the name of the disk's file in the OVA, and Format that of the file by its extension.
	File   string `json:"file"`
	Format string `json:"format"`
	// Size is the capacity of the disk, or that of its file where the OVA gives none.
	Size Bytes `json:"size"`
}

// OVAJob is the input of a job that makes an OVA image, or removes one.
type OVAJob struct {
	// Upload is the file, and SHA256 its digest; both are empty for a removal.
	Upload  string      `json:"upload,omitempty"`
	SHA256  string      `json:"sha256,omitempty"`
	Volumes []OVAVolume `json:"volumes"`
	// Import is the job that made the image, and Was the image's state; for a removal.
	Import JobID      `json:"import,omitempty"`
	Was    ImageState `json:"was,omitempty"`
}

// NewOVA is an OVA image with everything that comes to be with it.
type NewOVA struct {
	OVA     OVA
	Images  []Image
	System  SystemTemplate
	Profile Profile
}

// MaxOVADisks is how many disks an OVA may have: sda to sdz.
const MaxOVADisks = 26

// DiskName is what the disk at that place of a machine is called: "sda" for 0.
func DiskName(n int) string { return "sd" + string(rune('a'+n)) }

const ovaPrefix, maxOVAName = "ova_", 63 - len("ova__sda")

// OVAImage is the name of the image that holds a disk of an OVA (PVC's volume name).
func OVAImage(ova, disk string) string { return ovaPrefix + ova + "_" + disk }

// CheckOVAName accepts the name of an OVA image: one of which the names of its disks' images can be made.
func CheckOVAName(name string) error {
	if err := CheckName("OVA image", name); err != nil {
		return err
	}
	if len(name) > maxOVAName {
		return Errorf(ErrInvalid, "OVA image name %q has %d characters: want at most %d, since those of its disks are made of it", Clip(name), len(name), maxOVAName)
	}
	return nil
}

// Firmware is what starts a machine.
type Firmware string

// The kinds of firmware.
const (
	FirmwareBIOS Firmware = "bios" // the default
	FirmwareUEFI Firmware = "uefi"
)

// ParseFirmware reads "bios", or "uefi" (or "efi"); empty stays empty, for what the source of an image says.
func ParseFirmware(s string) (Firmware, error) {
	switch f := Firmware(strings.ToLower(s)); f {
	case "", FirmwareBIOS, FirmwareUEFI:
		return f, nil
	case "efi":
		return FirmwareUEFI, nil
	}
	return "", Errorf(ErrInvalid, "firmware %q is unknown: want bios or uefi", Clip(s))
}
