package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"seedbed"
)

// Spool is a directory of root's own where uploaded files wait for their import:
//
//	<id>.part  a file that still comes; removed when it does not come to its end
//	<id>       a whole one
type Spool struct {
	dir  string
	need func(seedbed.Bytes) error
	log  *slog.Logger
}

// uploadKept is how long a file waits for its import to begin, which jobs do within seconds.
const uploadKept = 24 * time.Hour

const partSuffix = ".part"

// OpenSpool makes the directory ready and removes what an earlier process left
// unfinished, or nobody has imported for a day. need refuses with ErrFull what
// there is no room for. ErrConflict for a directory that others can write to.
func OpenSpool(dir string, need func(seedbed.Bytes) error, log *slog.Logger) (*Spool, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok || int(owner.Uid) != os.Geteuid() || st.Mode().Perm()&0o077 != 0 {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "%s is not a directory that only the worker's own user can look into: remove it", dir)
	}
	s := &Spool{dir: dir, need: need, log: log}
	return s, s.sweep(true)
}

var uploadID = regexp.MustCompile(`^[A-Za-z0-9]{16,64}$`)

func checkUpload(id string) error {
	if !uploadID.MatchString(id) {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not the ID of an upload: want 16 to 64 letters and digits", seedbed.Clip(id))
	}
	return nil
}

func (s *Spool) path(id string) string { return filepath.Join(s.dir, id) }

// Receive writes what body gives into a file of the spool, without keeping more
// than a block of it in memory, and tells what it is. When it fails, nothing of it stays. Errors:
// ErrInvalid for an ID or digest that is not usable, and for a file that has another size or
// digest than spec says, cannot be an image, or is an OVA that cannot be used;
// ErrExists for an ID that is taken; ErrFull without room; else body's own.
func (s *Spool) Receive(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (up seedbed.Upload, err error) {
	if err := errors.Join(checkUpload(spec.ID), checkDigest(spec.SHA256)); err != nil {
		return up, err
	}
	if err := s.sweep(false); err != nil {
		return up, err
	}
	if err := s.need(spec.Size); err != nil {
		return up, err
	}
	if _, err := os.Lstat(s.path(spec.ID)); !errors.Is(err, fs.ErrNotExist) {
		return up, seedbed.Errorf(seedbed.ErrExists, "upload %s exists already", spec.ID)
	}
	part := s.path(spec.ID) + partSuffix
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return up, seedbed.Errorf(seedbed.ErrExists, "upload %s is under way", spec.ID)
	}
	if err != nil {
		return up, noRoom(err)
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = noRoom(e)
		}
		if err == nil {
			err = s.keep(part, spec.ID)
		}
		if err != nil {
			s.remove(part)
		}
	}()
	up = seedbed.Upload{Pool: spec.Pool, ID: spec.ID}
	if up.Size, up.SHA256, err = s.fill(ctx, f, body); err != nil {
		return up, err
	}
	switch {
	case spec.Size > 0 && up.Size != spec.Size:
		return up, seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has %d bytes and was announced with %d: it did not come whole", up.Size, spec.Size)
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, up.SHA256):
		return up, seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has the SHA-256 digest %s: want %s", up.SHA256, strings.ToLower(spec.SHA256))
	}
	if up.Appliance, err = identify(f, up.Size); err != nil {
		return up, fmt.Errorf("the uploaded file %w", err) // the text is a predicate
	}
	return up, noRoom(f.Sync())
}

// identify refuses what cannot be imported, and reads the descriptor of an OVA.
func identify(f *os.File, size seedbed.Bytes) (*seedbed.Appliance, error) {
	src := Source{file: f, Size: size, total: size}
	head, err := src.head()
	if err != nil {
		return nil, err
	}
	if !isTar(head) {
		_, err := Sniff(head, size)
		return nil, err
	}
	a, err := ReadOVA(f, size)
	if err != nil {
		return nil, err
	}
	return &a.Appliance, nil
}

// roomEvery is after how many bytes it is looked again whether the pool's reserve is left.
const roomEvery = 64 * seedbed.MiB

// fill copies body to its end, leaving out blocks of zeros.
func (s *Spool) fill(ctx context.Context, dst *os.File, body io.Reader) (seedbed.Bytes, string, error) {
	var (
		digest = sha256.New()
		buf    = make([]byte, block)
		zeros  = make([]byte, block)
		done   seedbed.Bytes
	)
	for {
		if err := ctx.Err(); err != nil {
			return done, "", err
		}
		n, err := readBlock(body, buf)
		ended := err == io.EOF // as it is: any other, also io.ErrUnexpectedEOF, is a body that broke
		if err != nil && !ended {
			return done, "", err
		}
		digest.Write(buf[:n])
		if string(buf[:n]) != string(zeros[:n]) {
			if _, err := dst.WriteAt(buf[:n], int64(done)); err != nil {
				return done, "", noRoom(err)
			}
		}
		before := done
		done += seedbed.Bytes(n)
		if before/roomEvery != done/roomEvery {
			if err := s.need(0); err != nil {
				return done, "", err
			}
		}
		if ended {
			return done, hex.EncodeToString(digest.Sum(nil)), noRoom(dst.Truncate(int64(done)))
		}
	}
}

// readBlock fills buf, or returns the body's error with what came before it.
func readBlock(body io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = body.Read(buf[n:])
		n += more
	}
	return n, err
}

// keep gives a whole file its name.
func (s *Spool) keep(part, id string) error {
	if err := os.Rename(part, s.path(id)); err != nil {
		return err
	}
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Drop removes an uploaded file; one that is absent is removed already.
func (s *Spool) Drop(id string) error {
	if err := checkUpload(id); err != nil {
		return err
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Spool) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("unfinished upload stays until the pool is opened again", "path", path, "err", err)
	}
}

// sweep removes files that nobody has imported and, at the start, those that did not come whole.
func (s *Spool) sweep(start bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, part := strings.CutSuffix(e.Name(), partSuffix)
		if !e.Type().IsRegular() || checkUpload(id) != nil {
			continue
		}
		st, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if part && start || !part && time.Since(st.ModTime()) > uploadKept {
			s.log.Info("uploaded file that was not imported is removed", "file", e.Name(), "size", st.Size())
			s.remove(filepath.Join(s.dir, e.Name()))
		}
	}
	return nil
}

// noRoom makes ErrFull of an error that means a full file system.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return seedbed.Errorf(seedbed.ErrFull, "there is no room for the uploaded file: %v", err)
	}
	return err
}
