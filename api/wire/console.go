package wire

import (
	"time"

	"seedbed"
)

// ConsoleRequest asks for a ticket to an instance's serial console.
type ConsoleRequest struct {
	// ReadOnly never types. Otherwise the first session may type. Take takes the typing over from another session.
	ReadOnly bool `json:"read_only,omitempty"`
	Take     bool `json:"take,omitempty"`
	// Tail is how much of the earlier output is sent first.
	Tail seedbed.Bytes `json:"tail,omitempty"`
}

// FileRequest asks for a ticket to copy a file from an instance's guest, or to it.
type FileRequest struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"`
}

// Ticket lets its holder open one connection, once.
type Ticket struct {
	Ticket string `json:"ticket"`
	// Path is the path of the WebSocket, with the ticket.
	Path    string    `json:"path"`
	Expires time.Time `json:"expires"`
}
