package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
)

// download reads a file, and compares it with the digest that comes after it.
type download struct {
	stream *duplex.Stream
	sum    hash.Hash
	told   bool // the digest has come
	wrong  error
}

// DownloadVolume reads the file that a job has made of a volume. A reader gets io.EOF only after all of the file has come, with the digest
// that it had when it was sent. The file is removed then.
func (c *Client) DownloadVolume(ctx context.Context, job string) (io.ReadCloser, error) {
	t, err := post[wire.Ticket](ctx, c, at("/jobs", job)+"/file", nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.channel(ctx, t)
	if err != nil {
		return nil, err
	}
	d := &download{sum: sha256.New()}
	d.stream = &duplex.Stream{Conn: conn, Note: d.note}
	return d, nil
}

// note is told of the notes between the bytes.
func (d *download) note(n seedbed.ConsoleNote) {
	if n.Note != seedbed.NoteSent {
		return
	}
	d.told = true
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != n.SHA256 {
		d.wrong = seedbed.Errorf(seedbed.ErrUnavailable, "the file that came has the SHA-256 digest %s, and not %s, which was sent: try again",
			got, seedbed.Clip(n.SHA256))
		d.stream.Close()
		return
	}
	_ = EndFile(d.stream) // if the file stays, it is removed after a day
}

// Read implements io.Reader.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.stream.Read(b)
	d.sum.Write(b[:n])
	switch {
	case d.wrong != nil:
		return 0, d.wrong
	case err == io.EOF && !d.told:
		return n, seedbed.Errorf(seedbed.ErrUnavailable, "the connection ended before the file did")
	}
	return n, err
}

// Close implements io.Closer. It ends a download that goes on.
func (d *download) Close() error {
	d.stream.Close()
	return nil
}
