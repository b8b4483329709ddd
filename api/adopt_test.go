package api_test

import (
	"context"
	"strings"
	"testing"

	"seedbed"
)

// strangers answers for a worker. It has one domain that can be adopted, and one that cannot.
type strangers struct{}

var strange = seedbed.ForeignDomain{
	ID: "0f1e2d3c-1111-4222-8333-444455556666", Name: "old", Node: "host1", State: seedbed.DomainOff, VCPUs: 2, Memory: seedbed.GiB,
	Disks: []seedbed.ForeignDisk{
		{Target: "vda", Type: "file", Source: "/srv/old.qcow2", Format: "qcow2", Pool: "default", Size: seedbed.GiB},
	},
	NICs:     []seedbed.ForeignNIC{{MAC: seedbed.MAC{0x52, 0x54, 0, 9, 9, 9}, Bridge: "seedbed0"}},
	Problems: []string{},
}

func (strangers) ForeignDomains(_ context.Context, node string) ([]seedbed.ForeignDomain, error) {
	if node != "" && node != strange.Node {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", node)
	}
	short := strange
	short.Disks, short.NICs = []seedbed.ForeignDisk{}, []seedbed.ForeignNIC{}
	return []seedbed.ForeignDomain{short}, nil
}

func (strangers) ForeignDomain(_ context.Context, node, name string) (seedbed.ForeignDomain, error) {
	switch {
	case node != "" && node != strange.Node:
		return seedbed.ForeignDomain{}, seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", node)
	case name == "old":
		return strange, nil
	case name == "busy":
		busy := strange
		busy.Name, busy.State, busy.Problems = "busy", seedbed.DomainRunning, []string{"the domain is running: shut it down first"}
		return busy, nil
	}
	return seedbed.ForeignDomain{}, seedbed.Errorf(seedbed.ErrNotFound, "there is no domain %q on this node", name)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.do(t, "GET", "/api/v1/domains", ""); r.status != 200 || !strings.Contains(r.body, `"old"`) {
		t.Errorf("list: %+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/domains/old", ""); r.status != 200 || !strings.Contains(r.body, "/srv/old.qcow2") {
		t.Errorf("show: %+v", r)
	}
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"absent", "POST", "/api/v1/domains/none/adopt", "", 404, "there is no domain"},
		{"of a node", "GET", "/api/v1/domains?node=host1", "", 200, "old"},
		{"of a node that is none", "GET", "/api/v1/domains?node=hv9", "", 404, "hv9"},
		{"on a node that is none", "GET", "/api/v1/domains/old?node=hv9", "", 404, "hv9"},
		{"adopted on a node that is none", "POST", "/api/v1/domains/old/adopt?node=hv9", "", 404, "hv9"},
		{"of what is no node's name", "GET", "/api/v1/domains?node=a%2Fb", "", 422, "a/b"},
		{"busy", "POST", "/api/v1/domains/busy/adopt", "", 409, "shut it down first"},
		{"unknown field", "POST", "/api/v1/domains/old/adopt", `{"adresses":[]}`, 400, "adresses"},
		{"an address of elsewhere", "POST", "/api/v1/domains/old/adopt", `{"addresses":["192.0.2.7"]}`, 422, "10.99.0.0/24"},
		{"adopted", "POST", "/api/v1/domains/old/adopt?node=host1", `{"addresses":["10.99.0.7"],"tags":{"from":"before"}}`, 202, "queued"},
		{"again", "POST", "/api/v1/domains/old/adopt", "", 409, "old"},
		{"forget while a job works on it", "POST", "/api/v1/instances/old/forget", "", 409, "adopt job"},
		{"forget what is not there", "POST", "/api/v1/instances/none/forget", "", 404, "none"},
	} {
		if r := s.do(t, test.method, test.path, test.body); r.status != test.status || !strings.Contains(r.body, test.says) {
			t.Errorf("%s: %d %s; want %d with %q", test.name, r.status, r.body, test.status, test.says)
		}
	}
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("old"))
	if err != nil || i.ID != strange.ID || i.NICs[0].Addr.String() != "10.99.0.7" || i.NICs[0].MAC != strange.NICs[0].MAC ||
		i.Volumes[0].Pool != "default" {
		t.Errorf("%+v, %v", i, err)
	}
}
