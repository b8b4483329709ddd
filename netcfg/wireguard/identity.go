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

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"seedbed"
	"seedbed/internal/durable"
)

// The files of a key in a directory. The private one never leaves it.
const (
	privateFile = "overlay.key"
	publicFile  = "overlay.pub"
)

// Identity is the key of a node.
type Identity struct{ private wgtypes.Key }

// String does not show the key.
func (Identity) String() string { return "a private key" }

// GoString does not show the key.
func (i Identity) GoString() string { return i.String() }

// Public returns the public key.
func (i Identity) Public() seedbed.TunnelKey { return seedbed.TunnelKey(i.private.PublicKey()) }

// Open returns the key in a directory, and makes one if there is none. The file of the private key has mode 0600. It returns
// ErrInvalid if the file is not a key.
func Open(dir string) (Identity, error) {
	file := filepath.Join(dir, privateFile)
	private, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		if private, err = wgtypes.GeneratePrivateKey(); err == nil {
			err = durable.WriteFile(file, []byte(private.String()+"\n"), 0o600)
		}
	}
	if err != nil {
		return Identity{}, fmt.Errorf("key of overlays: %w", err)
	}
	i := Identity{private}
	if public, err := ReadPublic(dir); err == nil && public == i.Public() {
		return i, nil
	}
	if err := durable.WriteFile(filepath.Join(dir, publicFile), []byte(i.Public().String()+"\n"), 0o644); err != nil {
		return Identity{}, fmt.Errorf("public key of overlays: %w", err)
	}
	return i, nil
}

// ReadPublic returns the public key in a directory. It returns fs.ErrNotExist if Open has made none yet.
func ReadPublic(dir string) (seedbed.TunnelKey, error) {
	k, err := read(filepath.Join(dir, publicFile))
	return seedbed.TunnelKey(k), err
}

// read reads a key. Its errors do not show what is in the file.
func read(file string) (wgtypes.Key, error) {
	f, err := os.Open(file)
	if err != nil {
		return wgtypes.Key{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return wgtypes.Key{}, err
	}
	k, err := wgtypes.ParseKey(string(bytes.TrimSpace(text)))
	if err != nil || k == (wgtypes.Key{}) {
		return wgtypes.Key{}, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a key of WireGuard: restore it, or remove it and restart "+
			"seedbed-metadata, which makes another", file)
	}
	return k, nil
}
