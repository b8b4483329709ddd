package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/durable"
	"seedbed/netcfg"
	"seedbed/store"
)

// ensureNetwork creates the managed network at the first start. It never changes the network later,
// because a changed subnet would disconnect running guests.
func ensureNetwork(ctx context.Context, db *store.DB, c config.Network, log *slog.Logger) error {
	have, err := db.Network(ctx, c.Name)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		n, err := newNetwork(ctx, c, log)
		if err != nil {
			return fmt.Errorf("network %s: %w", c.Name, err)
		}
		if _, err := db.CreateNetwork(ctx, n); err != nil {
			return err
		}
		log.Info("network made", "network", n.Name, "bridge", n.Bridge, "prefix", n.Prefix)
		return nil
	case err != nil:
		return err
	}
	if have.Bridge != c.Bridge || !c.Prefix.Auto() && have.Prefix != c.Prefix.Prefix {
		log.Warn("the network is kept as it was made: its guests have addresses in it",
			"network", have.Name, "bridge", have.Bridge, "prefix", have.Prefix,
			"configured_bridge", c.Bridge, "configured_prefix", c.Prefix)
	}
	return nil
}

func newNetwork(ctx context.Context, c config.Network, log *slog.Logger) (seedbed.Network, error) {
	prefix := c.Prefix.Prefix
	if c.Prefix.Auto() {
		m, err := netcfg.Open(log)
		if err != nil {
			return seedbed.Network{}, err
		}
		defer m.Close()
		if prefix, err = m.FreePrefix(ctx); err != nil {
			return seedbed.Network{}, err
		}
	}
	gateway := prefix.Masked().Addr().Next()
	kind := seedbed.NetworkIsolated
	if c.NAT {
		kind = seedbed.NetworkNAT
	}
	return seedbed.Network{
		Name: c.Name, Kind: kind, Bridge: c.Bridge, MAC: seedbed.NewMAC(), Prefix: prefix.Masked(),
		Gateway: gateway, DNS: c.Resolvers(), DHCP: c.DHCP, Published: &seedbed.Publication{All: true},
	}, nil
}

// adminToken returns the token of the API's TCP listener. It creates the token at the first start.
func adminToken(path string) ([]byte, error) {
	token, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		token = []byte(randomToken() + "\n")
		err = durable.WriteFile(path, token, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("api.token_file: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) < 32 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"api.token_file %s holds %d characters: at least 32 are required; remove the file to have a new token made", path, len(token))
	}
	return token, nil
}
