package libvirt

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"seedbed"
)

// Secret is a Ceph user's key, which libvirt hands to QEMU.
type Secret struct {
	// ID is the secret's UUID, which disks name (seedbed.RBDSource.Secret).
	ID string
	// Name is its usage name, for a person: no two secrets may have the same.
	Name string
	// User is the Ceph user, without "client.", and Keyring the file that has the key.
	User, Keyring string
}

// maxKeyring is more than any keyring with the keys of users holds.
const maxKeyring = 1 << 20

// key reads the user's key from the keyring, as libvirt takes it. No error contains any of the file.
func (s Secret) key() ([]byte, error) {
	f, err := os.Open(s.Keyring)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the key of Ceph's client.%s: %v", s.User, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyring))
	if err != nil {
		return nil, fmt.Errorf("the key of Ceph's client.%s: %w", s.User, err)
	}
	key := parseKeyring(string(text), s.User)
	if key == nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "%s has no key of client.%s: make it, with ceph auth get client.%s -o %s", s.Keyring, s.User, s.User, s.Keyring)
	}
	return key, nil
}

// parseKeyring finds a user's key in a keyring (ceph-authtool(8)); nil when it has none.
func parseKeyring(text, user string) []byte {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section != "client."+user || strings.TrimSpace(name) != "key" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimSpace(value), `"`))
		if err != nil || len(key) == 0 {
			return nil
		}
		return key
	}
	return nil
}
