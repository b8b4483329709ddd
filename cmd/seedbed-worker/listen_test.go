//go:build libvirt

package main

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/internal/config"
	"seedbed/internal/mtls"
)

// TestListen checks that the worker listens on its socket and, with cluster_listen, for control
// hosts elsewhere.
func TestListen(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	if _, err := mtls.NewAuthority(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	a, err := mtls.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair := func(role mtls.Role, node string) config.KeyPair {
		made, err := a.Issue(filepath.Join(dir, node), node, role, []string{"127.0.0.1"}, time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		return config.KeyPair{Cert: made.Cert, Key: made.Key}
	}
	c := config.Default()
	c.Node, c.Worker.Socket = "hv2", filepath.Join(dir, "w.sock")
	all, checks, err := listen(t.Context(), c, log)
	if err != nil || len(all) != 1 || checks != nil {
		t.Fatalf("%d listeners, %v", len(all), err)
	}
	// What calls the worker works as root: the socket is not for the group that may call seedbedd.
	if st, err := os.Lstat(c.Worker.Socket); err != nil || st.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v (%v), want 0600", st.Mode(), err)
	}
	all[0].Close()

	c.Worker.ClusterListen, c.Cluster.CA, c.Cluster.Worker = "127.0.0.1:0", filepath.Join(dir, "ca.pem"), pair(mtls.Worker, "hv2")
	all, checks, err = listen(t.Context(), c, log)
	if err != nil || len(all) != 2 || len(checks(t.Context())) != 1 {
		t.Fatalf("%d listeners, %v", len(all), err)
	}
	control := pair(mtls.Control, "cp1")
	caller, err := mtls.Open(mtls.Files{Name: "cluster.control", CA: c.Cluster.CA, Cert: control.Cert, Key: control.Key},
		mtls.Control, "cp1", log)
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range all {
		defer ln.Close()
	}
	go func() {
		if conn, err := all[1].Accept(); err == nil {
			conn.Write([]byte("x"))
			conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", all[1].Addr().String(), caller.Client(mtls.Worker, "hv2", "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the caller is not taken: %v", err)
	}

	for _, broken := range []struct {
		change func(*config.Config)
		want   string
	}{
		{func(c *config.Config) { c.Cluster.Worker.Cert = "/nowhere" }, "cluster.worker: "},
		{func(c *config.Config) { c.Worker.ClusterListen = "192.0.2.1:7375" }, "worker.cluster_listen: "},
	} {
		c := c
		c.Worker.Socket = filepath.Join(dir, "other.sock")
		broken.change(&c)
		if _, _, err := listen(t.Context(), c, log); err == nil || !strings.HasPrefix(err.Error(), broken.want) {
			t.Errorf("got %v; want %q", err, broken.want)
		}
		if _, err := os.Stat(c.Worker.Socket); err == nil {
			t.Error("the socket is left")
		}
	}
}
