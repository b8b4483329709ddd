package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/config"
)

// TestOverlayWithoutKey: with a damaged key, the node still is to encrypt, and says why it cannot.
func TestOverlayWithoutKey(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Metadata.State = t.TempDir()
	if o := overlay(c, quiet); o.Encryption != nil {
		t.Error("encryption is not configured, and there is a key")
	}
	c.Network.Overlay.Encryption = config.EncryptionWireGuard
	if o := overlay(c, quiet); o.Encryption == nil || o.Encryption.Public() == (seedbed.TunnelKey{}) {
		t.Error("there is no key")
	}
	if err := os.WriteFile(filepath.Join(c.Metadata.State, "overlay.key"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := overlay(c, quiet)
	if o.Encryption == nil || o.Encryption.Public() != (seedbed.TunnelKey{}) {
		t.Fatalf("with a damaged key: %v", o.Encryption)
	}
	if err := o.Encryption.Configure("sw-none", o.Port, nil, nil); err == nil || !strings.Contains(err.Error(), "overlay.key is not a key") {
		t.Errorf("with a damaged key: %v", err)
	}
}
