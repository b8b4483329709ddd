package effects

import (
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/internal/duplex"
)

// The calls that are connections.
var (
	// OpenConsole is a session at a domain's serial console: the bytes of the guest, and notes about them.
	OpenConsole = Channel[seedbed.ConsoleSession]{"open-console"}
	// OpenScreen is a session at a domain's screen: the bytes of VNC in both directions (RFC 6143). The note of its end is its
	// only text.
	OpenScreen = Channel[DomainRef]{"open-screen"}
	// OpenGuestFile copies a file from a guest or to it, by its agent. Who writes sends the note of the end after the bytes. The
	// note that ends the session says whether all was copied.
	OpenGuestFile = Channel[seedbed.GuestFile]{"open-guest-file"}
	// OpenVolumeFile sends a file that ExportVolume has made, and then the note sent with its digest. A client that has received all
	// sends the note of the end, which removes the file.
	OpenVolumeFile = Channel[seedbed.VolumeFile]{"open-volume-file"}
)

// Opener opens connections to one worker. A fleet's client does so over the wire. It returns ErrUnavailable if the worker
// does not answer.
type Opener interface {
	OpenChannel(ctx context.Context, call string, args json.RawMessage) (*duplex.Conn, error)
}

// Channel is a call that is a connection of messages in both directions. It is not made for a job. GET /v1/<call>?args=<JSON>
// asks for a WebSocket. If the worker ends it, the last message is a text, a seedbed.ConsoleNote that says why.
type Channel[A any] struct{ name string }

// Open opens the connection. What is wrong with the arguments, or with what they name, is said by the first message.
func (l Channel[A]) Open(ctx context.Context, w Opener, args A) (*duplex.Conn, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return w.OpenChannel(ctx, l.name, raw)
}

// Handle makes f serve the connections, each until ctx ends, the client has closed it, or what it is to has ended. f returns
// why it ended. If the client has not closed it, the client is told.
func (l Channel[A]) Handle(h Handlers, f func(ctx context.Context, args A, c *duplex.Conn) error) {
	h[l.name] = Handler{Channel: func(ctx context.Context, raw json.RawMessage, c *duplex.Conn) error {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return seedbed.Errorf(seedbed.ErrInvalid, "arguments of the call: %v", err)
		}
		return f(ctx, args, c)
	}}
}
