package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/internal/config"
	"seedbed/internal/mtls"
)

var quiet = slog.New(slog.DiscardHandler)

// TestControlHosts checks that the feed's servers come from feed.servers, and that each server must
// be the host of its address.
func TestControlHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := mtls.NewAuthority(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	a, err := mtls.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := a.Issue(filepath.Join(dir, "hv2"), "hv2", mtls.Metadata, nil, time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Node = "hv2"
	remotes, checks, err := controlHosts(c, quiet)
	if err != nil || len(remotes) != 0 || len(checks(t.Context())) != 0 {
		t.Errorf("on one host: %v, %v", remotes, err)
	}
	c.Feed.Servers = []string{"cp1.example:7374", "[2001:db8::1]:7374"}
	c.Cluster.CA, c.Cluster.Metadata = filepath.Join(dir, "ca.pem"), config.KeyPair{Cert: made.Cert, Key: made.Key}
	remotes, checks, err = controlHosts(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"cp1.example", "2001:db8::1"} {
		if r := remotes[i]; r.Addr != c.Feed.Servers[i] || r.TLS.ServerName != host {
			t.Errorf("%s is to be %s", r.Addr, r.TLS.ServerName)
		}
	}
	if all := checks(t.Context()); len(all) != 1 || all[0].Name != "cluster.metadata" || !all[0].OK {
		t.Errorf("checks %+v", all)
	}
	c.Node = "hv3"
	if _, _, err := controlHosts(c, quiet); err == nil || !strings.Contains(err.Error(),
		`cluster.metadata: `+made.Cert+` is of node "hv2", and this is hv3`) {
		t.Errorf("with another node's certificate: %v", err)
	}
}
