package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"seedbed"
	"seedbed/internal/durable"
	"seedbed/provision/fleet"
	"seedbed/store"
)

// fencing fences nodes on request, and keeps the secrets of their agents.
type fencing struct {
	db      *store.DB
	workers *fleet.Fleet
	aead    cipher.AEAD
	keyFile string
}

// keyLength is that of AES-256, in bytes.
const keyLength = 32

// openFencing reads the key that seals secrets. It makes one at the first start.
func openFencing(path string, db *store.DB, workers *fleet.Fleet) (*fencing, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		key = make([]byte, keyLength)
		rand.Read(key) // never fails (crypto/rand)
		err = durable.WriteFile(path, key, 0o600)
	}
	if err == nil && len(key) != keyLength {
		err = fmt.Errorf("%s has %d bytes: expected %d", path, len(key), keyLength)
	}
	if err != nil {
		return nil, fmt.Errorf("fencing.key_file: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	f := &fencing{db: db, workers: workers, keyFile: path}
	f.aead, err = cipher.NewGCMWithRandomNonce(block)
	return f, err
}

// Seal encrypts secrets.
func (f *fencing) Seal(secrets map[string]string) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	return f.aead.Seal(nil, nil, plain, nil), nil
}

// Unseal returns what Seal encrypted.
func (f *fencing) Unseal(sealed []byte) (secrets map[string]string, err error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := f.aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "the secrets of the fence agent are not readable with %s: copy the file of the "+
			"control host that sealed them, or set them again (seedbed node fence set)", f.keyFile)
	}
	return secrets, json.Unmarshal(plain, &secrets)
}

// Status asks the agent of a node whether the node is on.
func (f *fencing) Status(ctx context.Context, n seedbed.Node) (bool, string, error) {
	secrets, err := f.Unseal(n.Fencing.Sealed)
	if err != nil {
		return false, "", err
	}
	return f.workers.FenceStatus(ctx, n.Name, seedbed.FenceCall{Agent: n.Fencing.Agent, Options: n.Fencing.Options, Secrets: secrets})
}

// Failover accepts a job that fences a node.
func (f *fencing) Failover(ctx context.Context, node string, confirmed bool) (seedbed.Receipt, error) {
	return f.db.Accept(ctx, seedbed.FailoverOf(node, seedbed.FailoverSpec{Confirmed: confirmed}))
}
