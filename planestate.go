package seedbed

import "iter"

// GuestPlaneState is everything that a node's guest plane serves at one revision of the feed. The
// feed's client hands it over as a whole; it stays usable and unchanged for as long as a receiver
// keeps it.
type GuestPlaneState struct {
	// Guests are the records of the node's instances, and Guest finds one of them. Each record is
	// unpacked when it is read; what it points to is shared and must not be changed.
	Guests   iter.Seq2[InstanceID, Guest]
	Guest    func(InstanceID) (Guest, bool)
	Networks []Network
	// TokenKey is the installation's 32-byte key for session tokens. Without it no token is issued
	// or accepted.
	TokenKey []byte
	// Blob finds a document by its lower-case SHA-256. Every document that Guests name is there.
	// The bytes must not be changed.
	Blob     func(sha256 string) ([]byte, bool)
	Revision int64
	// InSync is true once everything that the server had at the last contact is included.
	InSync bool
	Site   Site
	// Maintenance are the events of the node itself, which every guest is told.
	Maintenance []Maintenance
	// Since and Changed say what is new: a receiver that serves the state of revision Since has
	// every record but those of Changed, which were added, changed or removed. Since is -1 if
	// everything may be new.
	Since   int64
	Changed []InstanceID
}
