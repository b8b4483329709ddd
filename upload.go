package seedbed

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
}

// Upload is a file that a worker has received.
type Upload struct {
	Pool string `json:"pool"`
	ID   string `json:"id"`
	// Node is the node whose worker received it. Only that node has the file.
	Node   string `json:"node,omitempty"`
	Size   Bytes  `json:"size"`
	SHA256 string `json:"sha256"`
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
