package wire

import "seedbed"

// ImageRequest imports an image from a file on a node. In the client it also describes an upload.
type ImageRequest struct {
	Name string `json:"name"`
	// Path is the absolute path of the file.
	Path string `json:"path"`
	// Pool is empty for the default pool.
	Pool string `json:"pool,omitempty"`
	// SHA256 is the digest that the file must have, in hexadecimal. If it is empty, the digest is
	// not checked.
	SHA256 string `json:"sha256,omitempty"`
	// Format is the format that the file must have. Firmware starts instances with this root disk.
	// Both may be empty; see seedbed.ImportSpec.
	Format   string           `json:"format,omitempty"`
	Firmware seedbed.Firmware `json:"firmware,omitempty"`
	// Node is the node whose worker imports the file. If it is empty, the placement chooses one.
	Node string `json:"node,omitempty"`
}
