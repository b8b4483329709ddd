package main

import (
	"context"

	"seedbed"
)

// strangers answers for a node with one domain that can be adopted and one that cannot.
type strangers struct{}

func (strangers) ForeignDomains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error) {
	if node != "" && node != "hv1" {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", node)
	}
	old, err := strangers{}.ForeignDomain(ctx, "", "old")
	busy, _ := strangers{}.ForeignDomain(ctx, "", "busy")
	return []seedbed.ForeignDomain{busy, old}, err
}

func (strangers) ForeignDomain(_ context.Context, _, name string) (seedbed.ForeignDomain, error) {
	d := seedbed.ForeignDomain{
		ID: "0f1e2d3c-1111-4222-8333-444455556666", Name: name, Node: "hv1", State: seedbed.DomainOff, VCPUs: 2, Memory: seedbed.GiB,
		Disks: []seedbed.ForeignDisk{{Target: "vda", Type: "file", Source: "/srv/old.qcow2", Format: "qcow2", Pool: "default",
			Size: 8 * seedbed.GiB}},
		NICs:     []seedbed.ForeignNIC{{MAC: seedbed.MAC{0x52, 0x54, 0, 9, 9, 9}, Bridge: "seedbed0"}},
		Problems: []string{},
	}
	switch name {
	case "old":
		return d, nil
	case "busy":
		d.ID, d.State = "0f1e2d3c-1111-4222-8333-444455557777", seedbed.DomainRunning
		d.Disks[0].Pool, d.Disks[0].Size = "", 0
		d.Problems = []string{"disk vda is at /srv/old.qcow2, which no pool reaches", "the domain is running: shut it down first"}
		return d, nil
	}
	return d, seedbed.Errorf(seedbed.ErrNotFound, "there is no domain %q on this node", name)
}
