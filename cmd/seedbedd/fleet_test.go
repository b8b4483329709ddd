package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
	"seedbed/provision/effects"
)

func TestFleetOfAHost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openStore(t)
	c := config.Default()
	c.Node, c.Worker.Socket, c.Hypervisor = "ctl1", filepath.Join(t.TempDir(), "worker.sock"), false
	f, err := openFleet(ctx, db, c, nil, slog.New(slog.DiscardHandler))
	if err != nil || len(f.Nodes()) != 0 {
		t.Fatalf("a host without guests: %v, %v", f.Nodes(), err)
	}
	if _, err := effects.Inventory.Ask(ctx, f.Of("ctl1"), effects.None{}); !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), "is not a hypervisor") {
		t.Errorf("its worker: %v", err)
	}
	c.Hypervisor = true
	for range 2 { // at each start
		if f, err = openFleet(ctx, db, c, nil, slog.New(slog.DiscardHandler)); err != nil || len(f.Nodes()) != 1 || f.Nodes()[0].Name != "ctl1" {
			t.Fatalf("a host with guests: %v, %v", f.Nodes(), err)
		}
	}
	if _, err := effects.Inventory.Ask(ctx, f.Of("ctl1"), effects.None{}); !errors.Is(err, seedbed.ErrUnavailable) ||
		!strings.Contains(err.Error(), c.Worker.Socket) {
		t.Errorf("its worker: %v", err)
	}
	checks := func() (all []seedbed.Check) {
		return append(f.Health(ctx), guestPlaneChecks(db, f.Nodes, c.Node)(ctx)...)
	}
	if all := checks(); len(all) != 2 || all[0].Name != "worker" || all[0].Hint != "start seedbed-worker on this host" ||
		all[1].Name != "guest plane" || !strings.Contains(all[1].Hint, "on this host") {
		t.Errorf("checks of a host that is alone: %+v", all)
	}
	if _, err := db.AddNode(ctx, seedbed.Node{Name: "hv2"}); err != nil {
		t.Fatal(err)
	}
	if err := db.SetApplied(ctx, "hv2", 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	if f, err = openFleet(ctx, db, c, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	all := checks()
	var names []string
	for _, check := range all {
		names = append(names, check.Name)
	}
	if got := strings.Join(names, ", "); got != "ctl1: worker, hv2: worker, ctl1: guest plane, hv2: guest plane" {
		t.Errorf("checks of two nodes: %s", got)
	}
	if !all[3].OK || strings.Contains(all[1].Hint, "start seedbed-worker") || !strings.Contains(all[1].Detail,
		"seedbed node set hv2 --worker https://") {
		t.Errorf("checks of hv2: %+v, %+v", all[1], all[3])
	}
}

func TestDialWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := mtls.NewAuthority(dir, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := mtls.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := authority.Issue(dir, "ctl1", mtls.Control, nil, time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Node = "ctl1"
	none, err := openIdentity(c, slog.New(slog.DiscardHandler))
	if none != nil || err != nil {
		t.Fatalf("without a certificate: %v, %v", none, err)
	}
	c.Cluster.CA, c.Cluster.Control = ca.Cert, config.KeyPair{Cert: issued.Cert, Key: issued.Key}
	some, err := openIdentity(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, node, worker string
		identity           *mtls.Identity
		says               string
	}{
		{"its own", "ctl1", "", none, ""},
		{"its own elsewhere", "ctl1", "https://10.0.0.1:7375", none, "cluster.control"},
		{"another without an address", "hv2", "", some, "seedbed node set hv2 --worker"},
		{"another without a certificate", "hv2", "https://hv2.example:7375", none, "cluster.control"},
		{"another", "hv2", "https://hv2.example:7375", some, ""},
	} {
		client, err := dialWorker(c, tt.identity, seedbed.Node{Name: tt.node, Worker: tt.worker})
		if (err == nil) != (tt.says == "") || (err == nil) != (client != nil) ||
			err != nil && (!errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, %v", tt.name, client, err)
		}
	}
}
