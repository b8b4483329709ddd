package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"seedbed"
)

const block = 1 * seedbed.MiB

// copySparse copies exactly size bytes, leaving out blocks of zeros, and returns their SHA-256
// digest. It returns ErrInvalid if the source has another size, because then some process writes to
// it.
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

// hashPart writes the bytes of src between two offsets to h.
func hashPart(ctx context.Context, h io.Writer, src io.ReaderAt, from, to seedbed.Bytes) error {
	buf := make([]byte, block/4)
	for at := from; at < to; at += 64 * block {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(64*block, to-at)
		done, err := io.CopyBuffer(h, io.NewSectionReader(src, int64(at), int64(n)), buf)
		if err != nil {
			return err
		}
		if done != int64(n) {
			return changed(nil, at+seedbed.Bytes(done), to)
		}
	}
	return nil
}

func changed(err error, done, size seedbed.Bytes) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "changed while it was read (%d bytes of %d): no process may write to it", done, size)
}
