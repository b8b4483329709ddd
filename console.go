package seedbed

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
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
	// SHA256 is the digest of all that was sent, in hexadecimal. It is in the note sent.
	SHA256 string `json:"sha256,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// EndNote returns the note of a session that err ends. ErrConsoleEnded and ErrCopied are not errors.
func EndNote(err error) ConsoleNote {
	n := ConsoleNote{Note: NoteEnd, Reason: err.Error()}
	if !errors.Is(err, ErrConsoleEnded) && !errors.Is(err, ErrCopied) {
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

// ErrConsoleEnded is why a session ends in the ordinary way, and ErrCopied is so for the copy of a file.
var (
	ErrConsoleEnded = errors.New("the instance has stopped")
	ErrCopied       = errors.New("the file was copied")
)

// The notes of a session.
const (
	// NoteBegin is the first message of a session.
	NoteBegin = "begin"
	// NoteWriter says that another session may type now.
	NoteWriter = "writer"
	NoteLost   = "lost"
	// NoteSent comes after the last byte of the file of a volume.
	NoteSent = "sent"
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

// GuestCommand is a program for the guest agent to run. It runs as the agent's user, which is root or the like.
type GuestCommand struct {
	// Path is the program: a path, or a name that the agent finds in its own PATH.
	Path      string   `json:"path"`
	Arguments []string `json:"arguments,omitempty"`
	// Data is the program's input.
	Data []byte `json:"data,omitempty"`
}

// The limits of what a guest agent is asked for.
const (
	MaxGuestInput     = 64 * KiB
	MaxGuestArguments = 64 * KiB
	MaxGuestPath      = 4 * KiB
	MaxGuestFile      = GiB
)

// Check returns ErrInvalid if the command cannot be run.
func (g GuestCommand) Check() error {
	size := Bytes(0)
	for _, a := range g.Arguments {
		size += Bytes(len(a)) + 1
		if strings.ContainsRune(a, 0) || !utf8.ValidString(a) {
			return Errorf(ErrInvalid, "arguments: %q has a zero byte or is not UTF-8, which the guest agent does not take", Clip(a))
		}
	}
	switch {
	case size > MaxGuestArguments:
		return Errorf(ErrInvalid, "arguments: they have %s: expected at most %s", size, MaxGuestArguments)
	case Bytes(len(g.Data)) > MaxGuestInput:
		return Errorf(ErrInvalid, "data: the input has %s: expected at most %s", Bytes(len(g.Data)), MaxGuestInput)
	}
	return checkGuestPath(g.Path)
}

func checkGuestPath(path string) error {
	if path == "" || Bytes(len(path)) > MaxGuestPath || strings.ContainsRune(path, 0) || !utf8.ValidString(path) {
		return Errorf(ErrInvalid, "path: %q: expected 1 to %d bytes of UTF-8 without a zero byte", Clip(path), MaxGuestPath)
	}
	return nil
}

// GuestProcess is a program that a guest agent runs or has run.
type GuestProcess struct {
	// ID is the agent's number of the process.
	ID     int64 `json:"id"`
	Exited bool  `json:"exited"`
	// ExitCode is the program's, if it has exited without a signal. Signal is the signal that has ended it, or Windows' exception.
	ExitCode int   `json:"exit_code"`
	Signal   int64 `json:"signal,omitempty"`
	// Stdout and Stderr are what an exited program has printed. Truncated is set if the agent has not kept all of it.
	Stdout    []byte `json:"stdout,omitempty"`
	Stderr    []byte `json:"stderr,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// The kinds of error of guest agents, which are conflicts. An agent does not give an answer that is too large again.
var (
	ErrAgentRefuses   = Errorf(ErrConflict, "the guest agent refuses")
	ErrTooLargeAnswer = Errorf(ErrConflict, "the answer of the guest agent is too large")
)

// GuestFile is a file in a guest, to be read, or to be written in place of an existing one.
type GuestFile struct {
	ID    InstanceID `json:"id"`
	Path  string     `json:"path"`
	Write bool       `json:"write,omitempty"`
}

// Check returns ErrInvalid if there cannot be such a file.
func (f GuestFile) Check() error {
	if _, err := ParseInstanceID(string(f.ID)); err != nil {
		return err
	}
	return checkGuestPath(f.Path)
}

// HostKeyField is the field of a report that has the public Ed25519 key of the guest's SSH server, as cloud-init names it.
const HostKeyField = "pub_key_ed25519"

// HostKey returns a public Ed25519 key of an SSH server without its comment, as a known_hosts file has it (RFC 8709). It is empty
// if text is no such key.
func HostKey(text string) string {
	const kind, size = "ssh-ed25519", 4 + 11 + 4 + 32 // lengths, name and key
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != kind {
		return ""
	}
	key, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil || len(key) != size || string(key[4:4+len(kind)]) != kind {
		return ""
	}
	return kind + " " + words[1]
}
