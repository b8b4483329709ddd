// Package dir keeps volumes and images as qcow2 files in a directory:
//
//	images/<name>.qcow2     images, readable by all: QEMU's user reads them as backing files; the slash
//	                        of a qualified name is a plus sign
//	volumes/<name>.qcow2    volumes, owned by root until libvirt gives those of a running domain
//	                        to QEMU's user
//	.trash/<id>.qcow2       removed volumes, until they expire
//	<file>.json             the file's tag: to whom it belongs. A file without one is never touched
//	building/seedbed-*      unfinished files; swept when the pool is opened
//	uploads/<id>            uploaded files that wait for their import
//	.lock                   held by the one process that uses the pool
//	.pool                   the pool's mark, by which its file system is recognized
//
// In a pool that several nodes share, each node has its own building-<node>/ and uploads-<node>/,
// and .turn is locked while names are looked up and changed.
//
// A file is made in building/, synced, tagged, and then linked to its name, so that every file with
// a name is complete. The tag is a separate file and not an extended attribute, because some file
// systems have no attributes for users.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/mapper"
)

// Type is the pool type that this package implements.
const Type = seedbed.PoolDir

// DefaultReserve is the default of Config.Reserve.
const DefaultReserve = 1 * seedbed.GiB

// Config configures one pool.
type Config struct {
	// Name is the pool's name.
	Name string
	// Path is its absolute directory. It is created if it is missing. QEMU's user must be able to
	// reach it.
	Path string
	// Reserve is the free space below which nothing new is created, because volumes grow as guests
	// write; zero means DefaultReserve.
	Reserve seedbed.Bytes
	// Trash is how long a removed volume is kept; zero removes it at once.
	Trash time.Duration
	// Shared says that other nodes use the same directory, on a file system whose flock(2) works
	// between hosts, such as NFS 4. Node must then be this node's name.
	Shared bool
	Node   string
	// Known is the file that records the pool's mark on this host, so that an empty mount point is
	// not taken for the pool. It must survive a restart of the host. Empty records nothing.
	Known string
	// Imports are the directories from which files may be imported.
	Imports image.Imports
	// Mapper maps volumes; nil if the pool cannot map any.
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
	known   string
	// building and uploads are the directories of unfinished and of uploaded files.
	building, uploads string
	imports           image.Imports
	mapper            *mapper.Host
	log               *slog.Logger
	locks             []*os.File
	spool             *image.Spool
	// opened is set once the pool's file system was there: from then on locks and spool are valid.
	opened atomic.Bool
	// swept is whether what an earlier process left is removed. Who has the turn may use it.
	swept bool
	// turn is held while names are looked up and changed, and never while data is copied.
	turn chan struct{}
	// among is the lock that belongs to the turn in a shared pool; nil in others.
	among *os.File
}

const (
	images   = "images"
	volumes  = "volumes"
	building = "building"
	trash    = ".trash"
	uploads  = "uploads"
)

// Open prepares the directory, takes its lock, and sweeps what an earlier process left unfinished.
// If the pool's file system is not mounted, it still succeeds: calls then return
// ErrUnavailable, and the first one after it was mounted does the rest. Open returns ErrInvalid for
// a path that is not absolute, and ErrInUse if another process has the pool open.
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
	p := &Pool{
		name: c.Name, path: filepath.Clean(c.Path), reserve: c.Reserve, keep: max(c.Trash, 0), shared: c.Shared, known: c.Known,
		mapper: c.Mapper, log: c.Log, imports: c.Imports, turn: make(chan struct{}, 1),
	}
	p.building, p.uploads = filepath.Join(p.path, building), filepath.Join(p.path, uploads)
	if c.Shared {
		if err := seedbed.CheckName("node", c.Node); err != nil {
			return nil, err
		}
		p.building, p.uploads = p.building+"-"+c.Node, p.uploads+"-"+c.Node
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	err := p.ready(ctx)
	if errors.Is(err, seedbed.ErrUnavailable) {
		p.log.Warn("pool is away, and is opened once it is there", "pool", c.Name, "err", err)
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open does what Open could not do while the pool was away, except for the sweep. The caller must
// have the turn.
func (p *Pool) open() (err error) {
	if p.opened.Load() {
		return nil
	}
	if err := p.recognize(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
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
			return fmt.Errorf("open pool %s: %w", p.name, err)
		}
	}
	if err := p.takeLocks(); err != nil {
		return fmt.Errorf("open pool %s: %w", p.name, err)
	}
	if err := p.remember(); err != nil {
		return fmt.Errorf("mark pool %s: %w", p.name, err)
	}
	if p.spool, err = image.OpenSpool(p.uploads, p.need, p.log); err != nil {
		return fmt.Errorf("open the uploads of pool %s: %w", p.name, err)
	}
	p.opened.Store(true)
	return nil
}

// makeDir creates a directory and its parents; an existing one keeps its mode.
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
	return os.Chmod(path, mode) // independent of the umask
}
