package wire

import "seedbed"

// ImageRequest makes an image from a file on a node, or from a volume. In the client it also describes an upload.
type ImageRequest struct {
	Name string `json:"name"`
	// Path is the absolute path of the file.
	Path string `json:"path,omitempty"`
	// From is the volume that it is made from instead: the volume's name, that of an instance for its first disk, INSTANCE:INDEX for a
	// disk, or one of the latter two with @SNAPSHOT. Generalise removes from the image what only one machine may have.
	From       string `json:"from,omitempty"`
	Generalise bool   `json:"generalise,omitempty"`
	// Pool is empty for the default pool. An image of a volume is in the volume's pool.
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
