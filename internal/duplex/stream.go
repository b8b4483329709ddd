package duplex

import (
	"encoding/json"
	"fmt"
	"io"

	"seedbed"
)

// Stream reads and writes the bytes of a connection. One goroutine at a time may read.
type Stream struct {
	*Conn
	// Note is told of each note, if it is not nil.
	Note func(seedbed.ConsoleNote)
	rest []byte
	end  error
}

// Read implements io.Reader. Once the peer has said that it ends, Read returns io.EOF, or the error that the peer has named.
func (s *Stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.end != nil {
			return 0, s.end
		}
		m, err := s.Receive()
		switch {
		case err != nil:
			s.end = seedbed.Errorf(seedbed.ErrUnavailable, "the connection broke before its end: %v", err)
		case m.Text:
			s.end = s.noted(m.Data)
		default:
			s.rest = m.Data
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// noted returns what ends the stream after a note.
func (s *Stream) noted(text []byte) error {
	var n seedbed.ConsoleNote
	if err := json.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("an unknown note came: %w", err)
	}
	if s.Note != nil {
		s.Note(n)
	}
	if n.Note != seedbed.NoteEnd {
		return nil
	}
	if err := n.Err(); err != nil {
		return err
	}
	return io.EOF
}
