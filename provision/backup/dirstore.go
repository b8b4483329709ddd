package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// dirStore keeps objects as files below a directory. It follows no symbolic link out of it. A file is written under a name with a dot, and
// renamed. The clock is that of the file system, which may be another host's.
type dirStore struct {
	path string
	root *os.Root

	mu sync.Mutex
	// made are the directories that exist, and dirty those with names that may not be durable.
	made, dirty map[string]bool
}

const (
	// unfinished and leaving begin the names of files that are being written and removed.
	unfinished = ".new-"
	leaving    = ".old-"
)

// openDir opens the directory at an absolute path.
func openDir(at string) (*dirStore, error) {
	if !filepath.IsAbs(at) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "path %q of backups is not absolute", seedbed.Clip(at))
	}
	d := &dirStore{path: filepath.Clean(at), made: map[string]bool{".": true}, dirty: map[string]bool{}}
	st, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "directory %s for backups does not exist: make it, or mount it", d.path)
	case err == nil && !st.IsDir():
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s, where backups are to be, is not a directory", d.path)
	case err == nil:
		d.root, err = os.OpenRoot(d.path)
	}
	if err != nil {
		return nil, d.explain("open", err)
	}
	return d, nil
}

func (d *dirStore) close() error { return d.root.Close() }

// explain gives an error of the file system its kind.
func (d *dirStore) explain(what string, err error) error {
	var e syscall.Errno
	if err == nil || !errors.As(err, &e) {
		return err
	}
	kind, hint := error(nil), ""
	switch e {
	case syscall.ENOSPC, syscall.EDQUOT:
		kind, hint = seedbed.ErrFull, ": remove backups and sweep, or make room"
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		kind = seedbed.ErrForbidden
	case syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENODEV, syscall.ENOTCONN, syscall.EHOSTDOWN:
		kind = seedbed.ErrUnavailable
	default:
		return fmt.Errorf("%s in %s: %w", what, d.path, err)
	}
	return seedbed.Errorf(kind, "%s in %s: %v%s", what, d.path, err, hint)
}

// into makes the directory of a file.
func (d *dirStore) into(name string) error {
	dir := path.Dir(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[dir] {
		return nil
	}
	if err := d.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for ; !d.made[dir]; dir = path.Dir(dir) {
		d.made[dir], d.dirty[path.Dir(dir)] = true, true
	}
	return nil
}

// open makes a file, and its directory.
func (d *dirStore) open(name string) (*os.File, error) {
	if err := d.into(name); err != nil {
		return nil, err
	}
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// forget notes that a directory may not exist, nor those that it is in.
func (d *dirStore) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; dir != "."; dir = path.Dir(dir) {
		delete(d.made, dir)
	}
}

// touched notes that names in a directory may not be durable.
func (d *dirStore) touched(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirty[dir] = true
}

// write writes a file under a name with a dot, and gives it its own with publish.
func (d *dirStore) write(ctx context.Context, name string, data []byte, publish func(from, to string) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), unfinished+string(seedbed.NewJobID()))
	f, err := d.open(temp)
	if errors.Is(err, fs.ErrNotExist) { // the directory was empty, and was removed
		d.forget(path.Dir(name))
		f, err = d.open(temp)
	}
	if err != nil {
		return d.explain("write "+name, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = publish(temp, name)
	}
	if err != nil {
		_ = d.root.Remove(temp)
		return d.explain("write "+name, err)
	}
	d.touched(path.Dir(name))
	return nil
}

func (d *dirStore) put(ctx context.Context, name string, data []byte) error {
	return d.write(ctx, name, data, d.root.Rename)
}

func (d *dirStore) create(ctx context.Context, name string, data []byte) error {
	return d.write(ctx, name, data, func(from, to string) error {
		if err := d.root.Link(from, to); errors.Is(err, fs.ErrExist) {
			return seedbed.Errorf(seedbed.ErrExists, "%s exists in %s", name, d.path)
		} else if err != nil {
			return err
		}
		return d.root.Remove(from)
	})
}

func (d *dirStore) sync(ctx context.Context) error {
	d.mu.Lock()
	dirty := d.dirty
	d.dirty = map[string]bool{}
	d.mu.Unlock()
	for dir := range dirty {
		f, err := d.root.Open(dir)
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(dir, backupsDir) { // it was empty, and was removed
			continue
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return d.explain("sync "+dir, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (d *dirStore) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "%s is not in %s", name, d.path)
	}
	if err != nil {
		return nil, d.explain("read "+name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "%s in %s is larger than it can be, %d bytes", name, d.path, limit)
	}
	return data, d.explain("read "+name, err)
}

func (d *dirStore) renew(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, d.explain("look at "+name, err)
	}
	defer f.Close()
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), now, 0); err != nil {
		return false, d.explain("renew "+name, err)
	}
	// A removal takes the name away first, and then looks at the time.
	_, err = d.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) { // another call, which has not made its name durable, may have written it
		d.touched(path.Dir(dir))
		d.touched(dir)
	}
	return err == nil, d.explain("look at "+name, err)
}

func (d *dirStore) list(ctx context.Context, prefix string, f func(object) error) error {
	return d.walk(ctx, strings.TrimSuffix(prefix, "/"), func(name string, e fs.DirEntry) error {
		if strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return f(object{name: name, size: st.Size(), time: st.ModTime()})
	})
}

// walk calls f for all files below a directory.
func (d *dirStore) walk(ctx context.Context, dir string, f func(string, fs.DirEntry) error) error {
	open, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.explain("list "+dir, err)
	}
	entries, err := open.ReadDir(-1)
	if err := errors.Join(err, open.Close()); err != nil {
		return d.explain("list "+dir, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			err = d.walk(ctx, name, f)
		case e.Type().IsRegular():
			err = d.explain("list "+dir, f(name, e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dirStore) remove(ctx context.Context, name string, after time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	dir, base := path.Split(name)
	gone := name
	if !after.IsZero() {
		// From here on, a call that renews it does not find it. One that has renewed it before has set its time.
		gone = dir + leaving + base
		err := d.root.Rename(name, gone)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, d.explain("remove "+name, err)
		}
		st, err := d.root.Lstat(gone)
		if errors.Is(err, fs.ErrNotExist) { // another sweep has given it its name again, or has removed it
			return false, nil
		}
		if err != nil || st.ModTime().After(after) {
			return false, d.explain("remove "+name, errors.Join(err, d.bring(gone, name)))
		}
	}
	err := d.root.Remove(gone)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if gone != name {
			err = errors.Join(err, d.bring(gone, name))
		}
		return false, d.explain("remove "+name, err)
	}
	at := path.Dir(name)
	for strings.HasPrefix(at, backupsDir) && d.root.Remove(at) == nil { // so that directories without a backup do not stay
		d.forget(at)
		at = path.Dir(at)
	}
	d.touched(at)
	return true, nil
}

// bring gives a file that was to be removed its name again, unless it has been written again, or another sweep has it in hand.
func (d *dirStore) bring(gone, name string) error {
	err := d.root.Link(gone, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = d.root.Remove(gone)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// probe is the object that shows that a store can be written to, and its clock.
const probe = "seedbed-probe"

func (d *dirStore) now(ctx context.Context) (time.Time, error) {
	name := probe + "-" + string(seedbed.NewJobID())
	if err := d.put(ctx, name, []byte("seedbed\n")); err != nil {
		return time.Time{}, err
	}
	st, err := d.root.Lstat(name)
	if err := errors.Join(err, d.root.Remove(name)); err != nil {
		return time.Time{}, d.explain("write "+name, err)
	}
	return st.ModTime(), nil
}

func (d *dirStore) tidy(ctx context.Context, before time.Time) error {
	for _, dir := range []string{strings.TrimSuffix(chunksDir, "/"), strings.TrimSuffix(backupsDir, "/")} {
		err := d.walk(ctx, dir, func(name string, e fs.DirEntry) error {
			if was, ok := strings.CutPrefix(e.Name(), leaving); ok {
				return d.bring(name, path.Join(path.Dir(name), was))
			}
			if !strings.HasPrefix(e.Name(), unfinished) {
				return nil
			}
			st, err := e.Info()
			if err == nil && st.ModTime().Before(before) {
				err = d.root.Remove(name)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
