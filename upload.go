package seedbed

// UploadSpec asks a worker to take in a file, for an import to come.
type UploadSpec struct {
	Pool string `json:"pool"`
	// Node is where it is to be taken in; empty for any that has the pool.
	Node string `json:"node,omitempty"`
	// ID names the file until it is imported: letters and digits that nobody guesses.
	ID string `json:"id"`
	// Size is the file's; 0 when it is not known before its end.
	Size Bytes `json:"size,omitempty"`
	// SHA256 is the digest that the file must have; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
}

// Upload is a file that a worker has taken in.
type Upload struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
	// Node is whose worker it was, which alone has the file.
	Node   string `json:"node,omitempty"`
	Size   Bytes  `json:"size"`
	SHA256 string `json:"sha256"`
	// Appliance is what is in an OVA; nil for another file.
	Appliance *Appliance `json:"appliance,omitempty"`
}

// Appliance is the virtual machine that an OVA describes (DMTF DSP0243).
type Appliance struct {
	VCPUs  int   `json:"vcpus"`
	Memory Bytes `json:"memory"`
	// Screen tells whether it has a graphics controller.
	Screen   bool            `json:"screen"`
	Firmware Firmware        `json:"firmware"`
	Disks    []ApplianceDisk `json:"disks"`
}

// ApplianceDisk is one of its disks.
type ApplianceDisk struct {
	// File is the name of the disk's file in the OVA, and Size how long that is.
	File string `json:"file"`
	Size Bytes  `json:"size"`
	// Capacity is the size of the disk; 0 where the OVA does not say.
	Capacity Bytes `json:"capacity"`
}
