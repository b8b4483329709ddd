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

// Spool is a directory of root's in which uploaded files wait for their import:
//
//	<id>.part  a file that is being received; removed if it stays incomplete
//	<id>       a complete file
type Spool struct {
	dir  string
	need func(seedbed.Bytes) error
	log  *slog.Logger
}

// uploadKept is how long a file waits for its import to begin, which normally takes seconds.
const uploadKept = 24 * time.Hour

const partSuffix = ".part"

// OpenSpool prepares the directory. It removes what an earlier process left unfinished, and files
// that were not imported within a day. need returns ErrFull if there is not enough space. OpenSpool
// returns ErrConflict for a directory to which others can write.
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
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not the ID of an upload: expected 16 to 64 letters and digits", seedbed.Clip(id))
	}
	return nil
}

func (s *Spool) path(id string) string { return filepath.Join(s.dir, id) }

// Receive writes body to a file of the spool, keeping at most one block of it in memory, and
// identifies it. A failed upload leaves nothing behind. It returns ErrInvalid for an unusable ID or
// digest, and for a file that does not have the spec's size or digest, cannot be an image, or is an
// unusable OVA, or, for a volume, is not a usable disk; ErrExists for a taken ID; ErrFull if there is no space; and otherwise body's own
// error.
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
		return up, seedbed.Errorf(seedbed.ErrExists, "upload %s already exists", spec.ID)
	}
	part := s.path(spec.ID) + partSuffix
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return up, seedbed.Errorf(seedbed.ErrExists, "upload %s is in progress", spec.ID)
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
		return up, seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has %d bytes but was announced with %d: it is incomplete", up.Size,
			spec.Size)
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, up.SHA256):
		return up, seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has the SHA-256 digest %s: expected %s", up.SHA256,
			strings.ToLower(spec.SHA256))
	}
	if spec.Disk {
		up.Disk, err = diskIn(ctx, part, spec.Format)
	} else {
		up.Appliance, err = identify(ctx, f, up.Size)
	}
	if err != nil {
		return up, fmt.Errorf("the uploaded file %w", err) // the text is a predicate
	}
	return up, noRoom(f.Sync())
}

// identify refuses a file that cannot be imported, and reads the descriptor of an OVA.
func identify(ctx context.Context, f *os.File, size seedbed.Bytes) (*seedbed.Appliance, error) {
	src := Source{file: f, Size: size, total: size}
	head, err := src.head()
	if err != nil {
		return nil, err
	}
	if !isTar(head) {
		_, err := Sniff(head, size)
		return nil, err
	}
	a, err := ReadOVA(ctx, f, size)
	if err != nil {
		return nil, err
	}
	return &a.Appliance, nil
}

// roomEvery is after how many bytes the pool's reserve is checked again.
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
		ended := err == io.EOF // unwrapped: any other error, also io.ErrUnexpectedEOF, means a broken body
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

// keep gives a complete file its name.
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

// Drop removes an uploaded file. It succeeds if the file is absent.
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
		s.log.Warn("unfinished upload not removed until the pool is opened again", "path", path, "err", err)
	}
}

// sweep removes files that were not imported in time and, at the start, incomplete ones.
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
			continue // gone in the meantime
		}
		if part && start || !part && time.Since(st.ModTime()) > uploadKept {
			s.log.Info("removing uploaded file that was never imported", "file", e.Name(), "size", st.Size())
			s.remove(filepath.Join(s.dir, e.Name()))
		}
	}
	return nil
}

// noRoom translates an error that means a full file system to ErrFull.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return seedbed.Errorf(seedbed.ErrFull, "no space left for the uploaded file: %v", err)
	}
	return err
}
