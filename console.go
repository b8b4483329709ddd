package seedbed

import (
	"encoding/json"
	"errors"
)

// ConsoleSession asks for a session at an instance's serial console. Every session sees what the guest writes; one at a time
// may type.
type ConsoleSession struct {
	ID InstanceID `json:"id"`
	// Write asks to type. The first session that does may, and the next one when that ends. Take takes the typing over from
	// the session that has it, and the console from what has opened it outside Seedbed.
	Write bool `json:"write,omitempty"`
	Take  bool `json:"take,omitempty"`
	// Tail is how many bytes of the earlier output the session begins with, at most MaxConsoleTail.
	Tail Bytes `json:"tail,omitempty"`
	// Who is told to the other sessions.
	Who string `json:"who"`
}

// MaxScreenshot limits the picture of a screen, as a PNG.
const MaxScreenshot = 32 * MiB

// MaxConsoleTail limits the earlier output that a session begins with.
const MaxConsoleTail = MiB

// Check returns ErrInvalid if there cannot be such a session.
func (c ConsoleSession) Check() error {
	if _, err := ParseInstanceID(string(c.ID)); err != nil {
		return err
	}
	if c.Tail < 0 || c.Tail > MaxConsoleTail {
		return Errorf(ErrInvalid, "tail: %d bytes of the earlier output are asked for: expected 0 to %s", c.Tail, MaxConsoleTail)
	}
	if c.Take && !c.Write {
		return Errorf(ErrInvalid, "take takes the typing over, but the session is not to write: expected write as well")
	}
	return nil
}

// ConsoleNote is what a session is told about its console. It is sent as JSON between the bytes of the guest.
type ConsoleNote struct {
	// Note is one of the Note constants.
	Note string `json:"note"`
	// Writing is true if this session may type. It is in the notes begin and writer. By is who may type otherwise; empty if
	// nobody may.
	Writing bool   `json:"writing,omitempty"`
	By      string `json:"by,omitempty"`
	// Bytes is how many bytes of output were lost, because this session has not read them in time. It is in the note lost.
	Bytes int64 `json:"bytes,omitempty"`
	// Reason is why the session ends. Kind is the kind of error that ends it; empty if it is not an error. They are in the note
	// end.
	Reason string `json:"reason,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// EndNote returns the note of a session that err ends. A domain that has stopped is not an error: see ErrConsoleEnded.
func EndNote(err error) ConsoleNote {
	n := ConsoleNote{Note: NoteEnd, Reason: err.Error()}
	if !errors.Is(err, ErrConsoleEnded) {
		n.Kind = KindName(err)
	}
	return n
}

// Err returns the error that ends a session; nil if the session ends without one.
func (n ConsoleNote) Err() error {
	if n.Kind == "" {
		return nil
	}
	return KindError(n.Kind, n.Reason)
}

// ErrConsoleEnded is why a session ends in the ordinary way.
var ErrConsoleEnded = errors.New("the instance has stopped")

// The notes of a session.
const (
	// NoteBegin is the first message of a session.
	NoteBegin = "begin"
	// NoteWriter says that another session may type now.
	NoteWriter = "writer"
	NoteLost   = "lost"
	// NoteEnd is the last message of a session that its caller does not end.
	NoteEnd = "end"
)

// JSON returns the note as it is sent.
func (n ConsoleNote) JSON() []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}
