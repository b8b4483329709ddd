// Package dir keeps volumes and images as qcow2 files in a directory:
//
//	images/<name>.qcow2     images, readable by all, as QEMU's user reads them as backing files
//	volumes/<name>.qcow2    volumes, root's own until libvirt gives a running domain's to QEMU's user
//	.trash/<id>.qcow2       volumes that were removed, until their time is over
//	<file>.json             the file's tag: whose it is. A file without one is a stranger's, and never touched
//	building/seedbed-*      what is not finished; swept when the pool is opened
//	uploads/<id>            files that were uploaded and wait for their import
//	.lock                   held by the one process that uses the pool
//
// In a pool that several nodes share each has a building-<node>/ and an uploads-<node>/
// of its own, and .turn is locked while names are looked at and changed.
//
// A file is made in building/, synced, tagged, and then linked to its name, so
// that what has a name is whole. The tag is a file of its own and not an
// extended attribute, because some file systems have none for users.
package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/mapper"
)

// Type is the pool type that this package implements.
const Type = "dir"

// DefaultReserve is the room that is kept free unless the configuration says otherwise.
const DefaultReserve = 1 * seedbed.GiB

// Config is one pool.
type Config struct {
	// Name is the pool's name.
	Name string
	// Path is its directory, absolute; it is made when it is missing. QEMU's user must be able to reach it.
	Path string
	// Reserve is the free space below which nothing new is made, since volumes grow
	// as guests write; zero means DefaultReserve.
	Reserve seedbed.Bytes
	// Trash is how long a removed volume is kept; zero removes it at once.
	Trash time.Duration
	// Shared says that other nodes use the same directory, on a file system that
	// keeps flock(2) between hosts, such as NFS 4. Node is then this one's name.
	Shared bool
	Node   string
	// Mapper maps volumes; nil for a pool that maps none.
	Mapper *mapper.Host
	Log    *slog.Logger
}

// Pool is an open pool. It satisfies worker.Pool.
type Pool struct {
	name    string
	path    string
	reserve seedbed.Bytes
	keep    time.Duration
	shared  bool
	// building and uploads are where what is not finished is, and what was uploaded.
	building, uploads string
	mapper            *mapper.Host
	log               *slog.Logger
	locks             []*os.File
	spool             *image.Spool
	// turn is held while names are looked at and changed; never while data is copied.
	turn chan struct{}
	// among is the lock that comes with the turn where nodes share the pool; else nil.
	among *os.File
}

const (
	images   = "images"
	volumes  = "volumes"
	building = "building"
	trash    = ".trash"
	uploads  = "uploads"
)

// Open makes the directory ready, takes its lock, and sweeps what an earlier
// process left unfinished. Errors: ErrInvalid for a path that is not absolute,
// ErrInUse when another process has the pool open.
func Open(c Config) (*Pool, error) {
	if err := seedbed.CheckName("pool", c.Name); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(c.Path) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "path %q of pool %s is not absolute", c.Path, c.Name)
	}
	if c.Reserve <= 0 {
		c.Reserve = DefaultReserve
	}
	p := &Pool{name: c.Name, path: filepath.Clean(c.Path), reserve: c.Reserve, keep: max(c.Trash, 0), shared: c.Shared, mapper: c.Mapper, log: c.Log, turn: make(chan struct{}, 1)}
	p.building, p.uploads = filepath.Join(p.path, building), filepath.Join(p.path, uploads)
	if c.Shared {
		if err := seedbed.CheckName("node", c.Node); err != nil {
			return nil, err
		}
		p.building, p.uploads = p.building+"-"+c.Node, p.uploads+"-"+c.Node
	}
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{
		{p.path, 0o711},
		{filepath.Join(p.path, images), 0o711},
		{filepath.Join(p.path, volumes), 0o711},
		{p.building, 0o700},
		{filepath.Join(p.path, trash), 0o700},
	} {
		if err := makeDir(d.path, d.mode); err != nil {
			return nil, fmt.Errorf("open pool %s: %w", c.Name, err)
		}
	}
	if err := p.takeLocks(); err != nil {
		return nil, err
	}
	if err := p.openSweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("sweep pool %s: %w", c.Name, err), p.Close())
	}
	var err error
	if p.spool, err = image.OpenSpool(p.uploads, p.need, p.log); err != nil {
		return nil, errors.Join(fmt.Errorf("open the uploads of pool %s: %w", c.Name, err), p.Close())
	}
	return p, nil
}

// makeDir makes a directory and those above it; one that is there keeps its mode.
func makeDir(path string, mode fs.FileMode) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	if up := filepath.Dir(path); up != path {
		if err := makeDir(up, 0o711); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask
}
