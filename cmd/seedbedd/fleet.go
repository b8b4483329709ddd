package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
	"seedbed/provision/fleet"
	"seedbed/store"
)

// openIdentity returns the certificate with which this seedbedd identifies itself to other hosts,
// or nil if none is configured.
func openIdentity(c config.Config, log *slog.Logger) (*mtls.Identity, error) {
	if !c.Cluster.Control.Given() {
		return nil, nil
	}
	return mtls.Open(mtls.Files{Name: "cluster.control", CA: c.Cluster.CA, Cert: c.Cluster.Control.Cert,
		Key: c.Cluster.Control.Key}, mtls.Control, c.Node, log)
}

// openFleet returns the clients of all nodes' workers. It adds this host as a node, unless the
// configuration says that it runs no instances.
func openFleet(ctx context.Context, db *store.DB, c config.Config, identity *mtls.Identity, log *slog.Logger) (*fleet.Fleet, error) {
	if c.Hypervisor {
		if err := db.EnsureNode(ctx, c.Node); err != nil {
			return nil, err
		}
	}
	return fleet.Open(ctx, fleet.Config{
		Directory: db, Home: c.Node, Log: log,
		Dial: func(n seedbed.Node) (*fleet.Client, error) { return dialWorker(c, identity, n) },
	})
}

// dialWorker returns the client of a node's worker, on this host's socket or on another host. The
// other host has to prove with its certificate that it is that node.
func dialWorker(c config.Config, identity *mtls.Identity, n seedbed.Node) (*fleet.Client, error) {
	switch {
	case n.Worker == "" && n.Name == c.Node:
		return fleet.NewClient(c.Worker.Socket), nil
	case n.Worker == "":
		return nil, seedbed.Errorf(seedbed.ErrUnavailable,
			"the worker of node %s has no address: set one with seedbed node set %s --worker https://HOST:7375", n.Name, n.Name)
	case identity == nil:
		return nil, seedbed.Errorf(seedbed.ErrUnavailable,
			"the worker of node %s is on another host, and control host %s has no certificate to reach it with: "+
				"set cluster.ca and cluster.control (docs/how-to/cluster.md)", n.Name, c.Node)
	}
	at, err := url.Parse(n.Worker)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker of node %s has no usable address: %v", n.Name, err)
	}
	return fleet.NewRemoteClient(n.Worker, identity.Client(mtls.Worker, n.Name, at.Hostname())), nil
}

// guestPlaneChecks returns the check that each node's guest plane has applied the current state.
func guestPlaneChecks(db *store.DB, nodes func() []seedbed.Node, home string) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) (all []seedbed.Check) {
		hosts := nodes()
		for _, n := range hosts {
			check := guestPlaneCheck(ctx, db, n.Name)
			if !check.OK {
				on := n.Name
				if on == home {
					on = "this host"
				}
				check.Hint = fmt.Sprintf("start seedbed-metadata on %s, and look at its log", on)
			}
			if len(hosts) > 1 {
				check.Name = n.Name + ": " + check.Name
			}
			all = append(all, check)
		}
		return all
	}
}

func guestPlaneCheck(ctx context.Context, db *store.DB, node string) seedbed.Check {
	check := seedbed.Check{Name: "guest plane"}
	applied, at, err := db.Applied(ctx, node)
	if err != nil {
		check.Detail = err.Error()
		return check
	}
	if at.IsZero() {
		check.Detail = fmt.Sprintf("seedbed-metadata on %s has never asked for the feed", node)
		return check
	}
	page, err := db.FeedPage(ctx, node, applied, "")
	switch {
	case err != nil:
		check.Detail = err.Error()
	case page.Revision > applied:
		check.Detail = fmt.Sprintf("seedbed-metadata on %s has revision %d of %d, applied at %s", node, applied, page.Revision,
			at.Format(time.RFC3339))
	default:
		check.OK = true
		check.Detail = fmt.Sprintf("seedbed-metadata on %s has revision %d", node, applied)
	}
	return check
}
