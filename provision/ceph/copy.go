//go:build ceph

package ceph

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

const block = 1 * seedbed.MiB

// copyIn copies the source into a file of the scratch directory that has no
// name, and so is gone with its last opening, and returns it with its SHA-256
// digest and its size. What cannot be an image is refused before anything is copied.
func (p *Pool) copyIn(ctx context.Context, src *os.File, progress func(seedbed.Progress)) (_ *os.File, sum string, size seedbed.Bytes, err error) {
	st, err := src.Stat()
	if err != nil {
		return nil, "", 0, err
	}
	size = seedbed.Bytes(st.Size())
	head := make([]byte, min(size, image.HeadSize))
	if _, err := src.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", 0, err
	}
	if _, err := image.Sniff(head, size); err != nil {
		return nil, "", 0, err
	}
	dst, err := os.CreateTemp(p.cfg.Scratch, "seedbed-import-*")
	if err != nil {
		return nil, "", 0, fmt.Errorf("make a private copy: %w", err)
	}
	err = os.Remove(dst.Name())
	if err == nil {
		sum, err = copySparse(ctx, dst, src, size, func(done seedbed.Bytes) {
			progress(seedbed.Progress{Done: done, Total: 2 * size})
		})
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = seedbed.Errorf(seedbed.ErrFull, "no room for a private copy of %s in the scratch directory %s: %v", human(size), p.cfg.Scratch, err)
	}
	if err != nil {
		return nil, "", 0, errors.Join(err, dst.Close())
	}
	return dst, sum, size, nil
}

// procPath is a path at which other processes of root find an open file that has no name (proc_pid_fd(5)).
func procPath(f *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
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
