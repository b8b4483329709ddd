package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// newestSuite is the Debian release whose cloud-init and kernel tests take beside this machine's
// own.
const newestSuite = "trixie"

// cached is a file or folder that a script of this package makes once, in the cache of the tree.
type cached struct {
	once         sync.Once
	script, name string
	args         []string
	// of are files of this package that it is made of, besides what the script is given. It is made again if one is newer.
	of  []string
	err error
}

// made makes what is not there yet, and returns its path.
func (c *cached) made() (string, error) {
	path := filepath.Join(Root(), ".cache", c.name)
	c.once.Do(func() {
		if made, err := os.Stat(path); err == nil && !slices.ContainsFunc(c.of, func(name string) bool {
			from, err := os.Stat(filepath.Join(Root(), "internal/lab", name))
			return err == nil && from.ModTime().After(made.ModTime())
		}) {
			return
		}
		args := append([]string{path}, c.args...)
		if out, err := exec.Command(filepath.Join(Root(), "internal/lab", c.script), args...).CombinedOutput(); err != nil {
			c.err = fmt.Errorf("%s: %w\n%s", c.script, err, out)
		}
	})
	return path, c.err
}

func (c *cached) path(t T) string {
	t.Helper()
	path, err := c.made()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// guestImage are the scripts that make a Debian guest image.
var guestImage = []string{"guest-image.sh", "bootable.sh"}

var (
	image      = cached{script: "guest-image.sh", name: "debian.qcow2", of: guestImage}
	smallImage = cached{script: "small-image.sh", name: "small.qcow2",
		of: []string{"small-image.sh", "small-init.sh", "bootable.sh", "../../.cache/debian.qcow2"}}
	newestImage = cached{script: "guest-image.sh", name: "debian-" + newestSuite + ".qcow2", args: []string{newestSuite}, of: guestImage}
	newestInit  = cached{script: "unpacked.sh", name: "cloud-init-" + newestSuite, args: []string{"cloud-init", newestSuite}}
	chrony      = cached{script: "unpacked.sh", name: "chrony", args: []string{"chrony"}}
	cluster     = cached{script: "postgres-cluster.sh", name: "postgres-" + pgVersion, args: []string{pgBin}}
)

// GuestImage is the Debian guest image, made once and cached in the tree.
func GuestImage(t testing.TB) string { t.Helper(); return image.path(t) }

// SmallGuestImage is an image of a small guest with the kernel of the Debian guest image: it takes a
// lease, reads its metadata, runs user-data that are a shell script, phones home and obeys the power
// button, but has no systemd and no cloud-init. It boots in a tenth of the time.
func SmallGuestImage(t testing.TB) string { t.Helper(); GuestImage(t); return smallImage.path(t) }

// NewestGuestImage is the same of the newest Debian release that tests know. It takes two minutes to
// make.
func NewestGuestImage(t testing.TB) string { t.Helper(); return newestImage.path(t) }

// Chronyd is the path of chrony's daemon, whose package would take the place of the machine's own time service. It is
// fetched once, which needs the network.
func Chronyd() (string, error) {
	dir, err := chrony.made()
	return filepath.Join(dir, "usr/sbin/chronyd"), err
}

// NewestCloudInit is a folder with the files of cloud-init's package in the newest Debian release
// that tests know, fetched once and cached in the tree. Its programs run on this machine's Python.
func NewestCloudInit(t testing.TB) string { t.Helper(); return newestInit.path(t) }
