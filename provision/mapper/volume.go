package mapper

import "seedbed"

// Volume is a volume to be mapped, and for whom. Either RBD or File is set.
type Volume struct {
	Pool     string             `json:"pool"`
	Name     string             `json:"name"`
	Instance seedbed.InstanceID `json:"instance"`
	Job      seedbed.JobID      `json:"job"`
	// RBD is an RBD image.
	RBD *RBD `json:"rbd,omitempty"`
	// File is the absolute path of a qcow2 file. Its header names its backing file.
	File string `json:"file,omitempty"`
	// Images is the absolute directory with the images that File may be a clone of, or "".
	Images string `json:"images,omitempty"`
}

// images returns what is read besides the file.
func (v Volume) images() []string {
	if v.Images == "" {
		return nil
	}
	return []string{v.Images}
}

// RBD is an RBD image with what is needed to reach it.
type RBD struct {
	Pool  string `json:"pool"` // its name in Ceph
	Image string `json:"image"`
	// User is the Ceph user, without "client."; Conf and Keyring are files, absolute.
	User    string `json:"user"`
	Conf    string `json:"conf"`
	Keyring string `json:"keyring"`
}

// key identifies a volume; names of pools have no slash.
func (v Volume) key() string { return key(v.Pool, v.Name) }

func key(pool, name string) string { return pool + "/" + name }
