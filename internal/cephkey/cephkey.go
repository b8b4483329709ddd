// Package cephkey reads a Ceph user's key from a keyring, for tools that take
// the key itself and not the file.
package cephkey

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"seedbed"
)

// maxKeyring is more than any keyring with the keys of users holds.
const maxKeyring = 1 << 20

// Read reads the key of client.<user> from the keyring at path, decoded. ErrUnavailable
// when there is none. No error contains any of the file.
func Read(path, user string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the key of Ceph's client.%s: %v", user, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyring))
	if err != nil {
		return nil, fmt.Errorf("the key of Ceph's client.%s: %w", user, err)
	}
	key := Parse(string(text), user)
	if key == nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "%s has no key of client.%s: make it, with ceph auth get client.%s -o %s", path, user,
			user, path)
	}
	return key, nil
}

// Parse finds the key of client.<user> in the text of a keyring
// (ceph-authtool(8)), and decodes it; nil when it has none.
func Parse(text, user string) []byte {
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
