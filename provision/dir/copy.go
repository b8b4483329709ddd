package dir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

const block = 1 * seedbed.MiB

// copyIn copies the source into building/ and returns the copy's path, its
// SHA-256 digest and its size. The path is set whenever there is a file to discard.
// What cannot be an image is refused before anything is copied.
func (p *Pool) copyIn(ctx context.Context, src *os.File, progress func(seedbed.Progress)) (path, sum string, size seedbed.Bytes, err error) {
	st, err := src.Stat()
	if err != nil {
		return "", "", 0, err
	}
	size = seedbed.Bytes(st.Size())
	head := make([]byte, min(size, image.HeadSize))
	if _, err := src.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", "", 0, err
	}
	if _, err := image.Sniff(head, size); err != nil {
		return "", "", 0, err
	}
	if err := p.need(min(size, allocated(st))); err != nil {
		return "", "", 0, err
	}
	dst, err := p.temp(".part")
	if err != nil {
		return "", "", 0, p.room(err)
	}
	sum, err = copySparse(ctx, dst, src, size, func(done seedbed.Bytes) {
		progress(seedbed.Progress{Done: done, Total: 2 * size})
	})
	err = errors.Join(err, dst.Close())
	return dst.Name(), sum, size, p.room(err)
}

// allocated is the room that a file takes on its own file system.
func allocated(st os.FileInfo) seedbed.Bytes {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return seedbed.Bytes(s.Blocks * 512)
	}
	return seedbed.Bytes(st.Size())
}

// copySparse copies exactly size bytes, leaving out blocks of zeros, and
// returns their SHA-256 digest. A source that has another size is ErrInvalid: somebody writes to it.
func copySparse(ctx context.Context, dst *os.File, src io.Reader, size seedbed.Bytes, report func(done seedbed.Bytes)) (string, error) {
	var (
		digest = sha256.New()
		buf    = make([]byte, block)
		zeros  = make([]byte, block)
		done   seedbed.Bytes
	)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := io.ReadFull(src, buf)
		digest.Write(buf[:n])
		if !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := dst.WriteAt(buf[:n], int64(done)); err != nil {
				return "", err
			}
		}
		done += seedbed.Bytes(n)
		if done > size || err != nil && done != size {
			return "", changed(err, done, size)
		}
		report(done)
		if err != nil || n == 0 {
			break
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), dst.Truncate(int64(size))
}

func changed(err error, done, size seedbed.Bytes) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "changed while it was read (%d bytes of %d): want a file that nobody writes to", done, size)
}
