package ceph

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/mapper"
)

// Type is the pool type that this package implements.
const Type = "ceph"

// Defaults of Config.
const (
	DefaultConfFile   = "/etc/ceph/ceph.conf"
	DefaultTimeout    = 15 * time.Second
	DefaultWatcherFor = 45 * time.Second
	DefaultReserve    = 1 * seedbed.GiB
	DefaultScratch    = "/var/tmp"
	DefaultAbandoned  = 24 * time.Hour
	DefaultSweepAgain = time.Minute
)

// Config configures one pool.
type Config struct {
	// Name is the pool's name in Seedbed.
	Name string
	// Pool is its name in Ceph.
	Pool string
	// ConfFile is the cluster's ceph.conf; empty means DefaultConfFile.
	ConfFile string
	// User is the Ceph user, without "client.". It needs the caps "profile rbd" for monitors, for
	// the pool and for managers.
	User string
	// Keyring is the file with the user's key; empty means /etc/ceph/ceph.client.<user>.keyring.
	Keyring string
	// Node is this host's name. Opening the pool sweeps what this node left unfinished, and other
	// nodes' images once they are abandoned.
	Node string
	// Lock is the path of a file that is locked while the pool is open, so that only one process of
	// the node has it open. It is created if it is missing.
	Lock string
	// Scratch is a directory for private copies of files during imports; empty means
	// DefaultScratch.
	Scratch string
	// Imports are the directories from which files may be imported.
	Imports image.Imports
	// Timeout bounds one operation of the cluster, and connecting to it; zero means DefaultTimeout.
	// It is rounded up to seconds.
	Timeout time.Duration
	// WatcherFor is how long a removal waits for an image's last user to close it; zero means
	// DefaultWatcherFor. Ceph keeps a dead client for 30 s.
	WatcherFor time.Duration
	// Abandoned is the age at which another node's unfinished image counts as abandoned if no
	// client has it open; zero means DefaultAbandoned.
	Abandoned time.Duration
	// SweepAgain is how long after the sweep that follows a failed call there is another; zero means
	// DefaultSweepAgain. An OSD may do what it was asked to after the call has timed out, and after
	// the first sweep.
	SweepAgain time.Duration
	// Reserve is the free space below which nothing new is created; zero means DefaultReserve.
	Reserve seedbed.Bytes
	// Trash is how long a removed volume is kept in RBD's trash; zero removes it at once.
	Trash time.Duration
	// Mapper maps volumes; nil if the pool cannot map any.
	Mapper *mapper.Host
	Log    *slog.Logger
}

// word matches names of pools and users. It excludes all characters with a meaning in librados' or
// QEMU's option syntax.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`)

// complete fills in defaults. It returns ErrInvalid for values that cannot be used.
func (c Config) complete() (Config, error) {
	if err := seedbed.CheckName("pool", c.Name); err != nil {
		return c, err
	}
	c.ConfFile = cmp.Or(c.ConfFile, DefaultConfFile)
	c.Keyring = cmp.Or(c.Keyring, "/etc/ceph/ceph.client."+c.User+".keyring")
	c.Scratch = cmp.Or(c.Scratch, DefaultScratch)
	c.Timeout = cmp.Or(max(c.Timeout, 0), DefaultTimeout)
	c.WatcherFor = cmp.Or(max(c.WatcherFor, 0), DefaultWatcherFor)
	c.Abandoned = cmp.Or(max(c.Abandoned, 0), DefaultAbandoned)
	c.SweepAgain = cmp.Or(max(c.SweepAgain, 0), DefaultSweepAgain)
	c.Reserve = cmp.Or(max(c.Reserve, 0), DefaultReserve)
	c.Trash = max(c.Trash, 0)
	for _, f := range []struct{ what, value string }{{"Ceph pool", c.Pool}, {"user", c.User}, {"node", c.Node}} {
		if !word.MatchString(f.value) {
			return c, seedbed.Errorf(seedbed.ErrInvalid,
				"%s %q of pool %s is not usable: expected letters, digits, '.', '_' or '-', starting with a letter or digit", f.what, f.value, c.Name)
		}
	}
	for _, f := range []struct{ what, value string }{
		{"configuration file", c.ConfFile}, {"keyring", c.Keyring}, {"lock", c.Lock}, {"scratch directory", c.Scratch},
	} {
		if !filepath.IsAbs(f.value) || strings.ContainsRune(f.value, 0) {
			return c, seedbed.Errorf(seedbed.ErrInvalid, "%s %q of pool %s is not an absolute path", f.what, f.value, c.Name)
		}
	}
	return c, nil
}

// seconds is the timeout in the form that Ceph's options take.
func (c Config) seconds() int {
	return int((c.Timeout + time.Second - 1) / time.Second)
}

// SecretID is the UUID of the libvirt secret that holds the key of a pool's user. It is the same on
// every node, so that a domain can move.
func SecretID(pool, user string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("seedbed:ceph:"+pool+":"+user)).String()
}

// qemuTarget is the target by which QEMU's rbd driver writes to an image (block/rbd.c,
// qemu_rbd_parse_filename). It names the keyring and contains no key. librbd must copy the data
// that it writes (rbd_disable_zero_copy_writes): a zero-copy write that has timed out does not end
// as long as a connection to a stuck OSD holds its bytes.
func (c Config) qemuTarget(image string) string { return c.qemuName(image, "") }

// qemuSource is the name by which QEMU's rbd driver reads an image at a snapshot.
func (c Config) qemuSource(image, snapshot string) string { return c.qemuName(image, "@"+snapshot) }

func (c Config) qemuName(image, at string) string {
	esc := strings.NewReplacer(`\`, `\\`, ":", `\:`, "=", `\=`, "@", `\@`).Replace
	// Bulk writes queue up, and so get more time than a single operation.
	return fmt.Sprintf("rbd:%s/%s:id=%s:conf=%s:keyring=%s:client_mount_timeout=%[6]d:rados_mon_op_timeout=%[6]d:rados_osd_op_timeout=%[7]d",
		c.Pool, esc(image)+at, c.User, esc(c.ConfFile), esc(c.Keyring), c.seconds(), 2*c.seconds())
}
