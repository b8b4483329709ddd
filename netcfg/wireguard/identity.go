// Package wireguard keeps the key by which a node encrypts what it sends other nodes, and configures the tunnels to these in
// the kernel.
package wireguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"seedbed"
	"seedbed/internal/durable"
)

// The files of a key in a directory. The private one never leaves it.
const (
	privateFile = "overlay.key"
	publicFile  = "overlay.pub"
)

// maxKey is how many bytes of a file are taken for a key. Those that Open writes have 45.
const maxKey = 128

// Identity is the key of a node, or why there is none.
type Identity struct {
	private wgtypes.Key
	missing error
}

// Missing returns the identity of a node that is to encrypt and has no key because of err. Configure returns err.
func Missing(err error) Identity { return Identity{missing: err} }

// Err returns why there is no key, or nil.
func (i Identity) Err() error { return i.missing }

// String does not show the key.
func (Identity) String() string { return "a private key" }

// GoString does not show the key.
func (i Identity) GoString() string { return i.String() }

// Public returns the public key; the zero key if there is none.
func (i Identity) Public() seedbed.TunnelKey {
	if i.missing != nil {
		return seedbed.TunnelKey{}
	}
	return seedbed.TunnelKey(i.private.PublicKey())
}

// Open returns the key in a directory, and makes one if there is none. The file of the private key has mode 0600. It returns
// ErrInvalid if the file is not a key, or if others than its owner may read it.
func Open(dir string) (Identity, error) {
	file := filepath.Join(dir, privateFile)
	private, mode, err := read(file)
	if err == nil && mode&0o077 != 0 {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s has mode %04o, and others can read it: if somebody may have, remove it and restart "+
			"seedbed-metadata, which makes another; if not, chmod 600 it and restart seedbed-metadata", file, mode)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if private, err = wgtypes.GeneratePrivateKey(); err == nil {
			err = durable.WriteFile(file, []byte(private.String()+"\n"), 0o600)
		}
	}
	if err != nil {
		return Identity{}, fmt.Errorf("key of overlays: %w", err)
	}
	i := Identity{private: private}
	if public, err := ReadPublic(dir); err == nil && public == i.Public() {
		return i, nil
	}
	if err := durable.WriteFile(filepath.Join(dir, publicFile), []byte(i.Public().String()+"\n"), 0o644); err != nil {
		return Identity{}, fmt.Errorf("public key of overlays: %w", err)
	}
	return i, nil
}

// ReadPublic returns the public key in a directory. It returns fs.ErrNotExist if Open has made none yet. The owner of the directory
// need not be trusted: a link is not followed, and what is not a file is not waited for.
func ReadPublic(dir string) (seedbed.TunnelKey, error) {
	k, _, err := read(filepath.Join(dir, publicFile))
	return seedbed.TunnelKey(k), err
}

// read reads a key, and the permissions of its file. Its errors do not show what is in the file.
func read(file string) (k wgtypes.Key, mode fs.FileMode, err error) {
	not := func(what string) error {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s is not %s: restore it, or remove it and restart seedbed-metadata, which makes another",
			file, what)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link, or a socket
		return k, 0, not("a file")
	}
	if err != nil {
		return k, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return k, 0, err
	}
	if !info.Mode().IsRegular() {
		return k, 0, not("a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return k, 0, err
	}
	if len(text) <= maxKey {
		k, err = wgtypes.ParseKey(string(bytes.TrimSpace(text)))
	}
	if err != nil || k == (wgtypes.Key{}) {
		return wgtypes.Key{}, 0, not("a key of WireGuard")
	}
	return k, info.Mode().Perm(), nil
}
