package libvirt

import (
	"net"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cephkey"
)

// rbdName matches a pool and an image in it, without characters that librbd reads as a snapshot or
// QEMU as an option.
var rbdName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

// rbdSource returns an RBD image with all monitors of its cluster. QEMU gets the key from libvirt's
// secret (https://libvirt.org/formatsecret.html#usage-type-ceph).
func rbdSource(domain string, index int, d seedbed.Disk) (*libvirtxml.DomainDiskSource, error) {
	refuse := func(what, got, want string) error {
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s: disk %d has the %s %q: expected %s", domain, index, what, got, want)
	}
	if d.Format != "raw" {
		return nil, refuse("format", d.Format, "raw, which RBD images are")
	}
	if !rbdName.MatchString(d.Source) {
		return nil, refuse("source", d.Source, "pool/image")
	}
	if d.RBD.User == "" {
		return nil, refuse("Ceph user", d.RBD.User, "one")
	}
	if _, err := uuid.Parse(d.RBD.Secret); err != nil {
		return nil, refuse("secret", d.RBD.Secret, "the UUID of a libvirt secret")
	}
	source := &libvirtxml.DomainDiskSourceNetwork{
		Protocol: "rbd", Name: d.Source,
		Auth: &libvirtxml.DomainDiskAuth{Username: d.RBD.User, Secret: &libvirtxml.DomainDiskSecret{Type: "ceph", UUID: d.RBD.Secret}},
	}
	for m := range strings.SplitSeq(d.RBD.Monitors, ",") {
		host, port, err := net.SplitHostPort(m)
		if err != nil || host == "" || port == "" {
			return nil, refuse("monitor", m, "host:port")
		}
		source.Hosts = append(source.Hosts, libvirtxml.DomainDiskSourceHost{Name: host, Port: port})
	}
	return &libvirtxml.DomainDiskSource{Network: source}, nil
}

// Secret is a Ceph user's key, which libvirt passes to QEMU.
type Secret struct {
	// ID is the secret's UUID, which disks name (seedbed.RBDSource.Secret).
	ID string
	// Name is its usage name, for people. It must be unique.
	Name string
	// User is the Ceph user, without "client.", and Keyring the file that has the key.
	User, Keyring string
}

// key reads the user's key from the keyring in the form that libvirt takes. Errors never contain
// any of the file.
func (s Secret) key() ([]byte, error) { return cephkey.Read(s.Keyring, s.User) }
