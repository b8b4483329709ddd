package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Packages is what a script installs a machine from by debootstrap.
type Packages struct {
	// Suite is the release, and Mirror where apt of this machine has it from.
	Suite, Mirror string
	// Tarball has the packages: debootstrap needs no network with it.
	Tarball string
}

// guestPackages are those that the examples in packaging/examples install.
const guestPackages = "systemd,systemd-sysv,udev,dbus,netbase,iproute2,ifupdown,isc-dhcp-client,ca-certificates,openssh-server," +
	"cloud-init,cloud-guest-utils,fdisk,python3-cffi-backend,grub-pc,linux-image-cloud-amd64,e2fsprogs,xfsprogs,btrfs-progs"

// DebianPackages gives the packages of a guest, from a cache in the tree; the
// first time makes it.
func DebianPackages(t testing.TB) Packages {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test installs a Debian: run it as root")
	}
	p := Packages{Tarball: filepath.Join(Root(), ".cache", "packages-guest.tgz")}
	cmd := exec.Command(filepath.Join(Root(), "internal/lab/debootstrap-tarball.sh"), p.Tarball, guestPackages)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("debootstrap-tarball.sh: %v\n%s", err, stderr.String())
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2 {
		t.Fatalf("debootstrap-tarball.sh printed %q", out)
	}
	p.Suite, p.Mirror = fields[0], fields[1]
	return p
}
