package wire

import "seedbed"

// ImageRequest asks for an image to be imported from a file on a worker's host.
type ImageRequest struct {
	Name string `json:"name"`
	// Path is the absolute path of the file.
	Path string `json:"path"`
	// Pool is empty for the default pool.
	Pool string `json:"pool,omitempty"`
	// SHA256 is the digest that the file must have, in hexadecimal; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
	// Format is what the file must be, and Firmware what machines with this root disk
	// are started by. Both may be empty; see seedbed.ImportSpec.
	Format   string           `json:"format,omitempty"`
	Firmware seedbed.Firmware `json:"firmware,omitempty"`
	// Node is whose worker imports it; empty leaves that to the placement.
	Node string `json:"node,omitempty"`
}
