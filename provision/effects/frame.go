package effects

import (
	"encoding/binary"
	"errors"
	"io"

	"seedbed"
)

// A file is sent in frames: each is a length of four bytes, big-endian, followed by as many bytes;
// the last frame is empty. So an interrupted upload never looks like a complete one, which HTTP's
// own chunks, as the library reads them, would.

// maxFrame limits a frame, in bytes.
const maxFrame = 1 << 20

// Frames writes a file in frames.
type Frames struct{ to io.Writer }

// NewFrames returns a writer of frames to w.
func NewFrames(w io.Writer) Frames { return Frames{w} }

// Write implements io.Writer. It writes one frame, which must not be empty or longer than maxFrame.
func (f Frames) Write(b []byte) (int, error) {
	if _, err := f.to.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b)))); err != nil {
		return 0, err
	}
	return f.to.Write(b)
}

// End writes the last frame.
func (f Frames) End() error {
	_, err := f.to.Write(make([]byte, 4))
	return err
}

// Unframed reads a file that is sent in frames.
type Unframed struct {
	from io.Reader
	left uint32 // bytes left of the current frame
	err  error
}

// NewUnframed returns a reader of the file whose frames come from r.
func NewUnframed(r io.Reader) *Unframed { return &Unframed{from: r} }

// Read implements io.Reader. It returns io.EOF only at the end of the file.
func (u *Unframed) Read(b []byte) (int, error) {
	if u.err == nil && u.left == 0 {
		u.next()
	}
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.from.Read(b[:min(len(b), int(u.left))])
	u.left -= uint32(n)
	if err != nil && !(errors.Is(err, io.EOF) && u.left == 0) {
		u.err = brokeOff(err)
	}
	return n, u.err
}

// next reads the head of a frame.
func (u *Unframed) next() {
	var head [4]byte
	if _, err := io.ReadFull(u.from, head[:]); err != nil {
		u.err = brokeOff(err)
		return
	}
	switch u.left = binary.BigEndian.Uint32(head[:]); {
	case u.left == 0:
		u.err = io.EOF
	case u.left > maxFrame:
		u.err = seedbed.Errorf(seedbed.ErrInvalid, "the upload has a frame of %d bytes: expected at most %d", u.left, maxFrame)
	}
}

func brokeOff(err error) error {
	return seedbed.Errorf(seedbed.ErrUnavailable, "the upload broke off: %v", err)
}
