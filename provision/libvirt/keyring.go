package libvirt

import "seedbed/internal/cephkey"

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
