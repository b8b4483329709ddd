package webhook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
	"seedbed/internal/run"
)

// installNetworks is an installation whose hooks ci and acme/ci may ask for everything.
func installNetworks(t *testing.T) (home, acme *installation) {
	t.Helper()
	home = install(t)
	home.change(t, func(h *seedbed.Hook) { h.Actions, h.KeepPayload = seedbed.Actions(), true })
	if _, err := home.db.CreateProject(t.Context(), seedbed.Project{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	_, err := home.db.CreateHook(t.Context(), seedbed.Hook{Name: "acme/ci", Project: "acme", Actions: seedbed.Actions(),
		HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeStandard, KeepPayload: true},
		Keys:         []seedbed.HookKey{{ID: "k1", Secret: hookKey}}})
	if err != nil {
		t.Fatal(err)
	}
	other := *home
	other.url = strings.TrimSuffix(home.url, "ci") + "acme/ci"
	return home, &other
}

// network returns a network, or false if there is none.
func (i *installation) network(t *testing.T, name string) (seedbed.Network, bool) {
	t.Helper()
	n, err := i.db.Network(t.Context(), name)
	if err != nil && !strings.Contains(err.Error(), "does not exist") {
		t.Fatal(err)
	}
	return n, err == nil
}

// A network is made, changed and removed by deliveries, each of which counts once, and is recorded.
func TestNetworksOfAHook(t *testing.T) {
	t.Parallel()
	_, i := installNetworks(t)
	client := newClient(t)
	steps := []string{
		`{"action":"network-add","name":"lab","network":{"prefix":"10.130.0.0/24","mtu":1400,"description":"of a ticket"}}`,
		`{"action":"network-set","name":"lab","network":{"mtu":1300,"kept":["10.130.0.2-10.130.0.9"]}}`,
		`{"action":"network-set","name":"acme/lab","network":{"mtu":1300}}`, // changes nothing
		`{"action":"network-remove","name":"lab"}`,
	}
	for n, body := range steps {
		for range 2 {
			r := i.send(t, client, fmt.Sprint("msg_", n), body)
			if r.status != 200 || r.Decision != seedbed.DecisionDone || r.Job != "" {
				t.Fatalf("%s: %+v, want 200", body, r)
			}
		}
		if r := i.send(t, client, fmt.Sprint("msg_", n), body+" "); r.status != 409 {
			t.Errorf("%s, another body: %+v, want 409", body, r)
		}
		made, exists := i.network(t, "acme/lab")
		switch {
		case exists != (n < 3):
			t.Fatalf("%s: a network %t", body, exists)
		case n == 0 && (made.MTU != 1400 || made.Kind != seedbed.NetworkNAT || made.Gateway != netip.MustParseAddr("10.130.0.1")):
			t.Errorf("%+v", made)
		case n == 1 && (made.MTU != 1300 || len(made.Kept) != 1 || made.Description == ""):
			t.Errorf("%+v", made)
		}
	}
	if r := i.send(t, client, "msg_0", steps[0]); r.status != 200 || !r.Duplicate {
		t.Errorf("the first once more: %+v", r)
	}
	if _, exists := i.network(t, "acme/lab"); exists {
		t.Error("a repeated delivery has made the network again")
	}
	counted := httptest.NewRecorder()
	registry := prometheus.NewRegistry()
	registry.MustRegister(i.server)
	run.MetricsHandler(registry).ServeHTTP(counted, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{`{decision="done",hook="acme/ci",status="200"} 4`, `{decision="duplicate",hook="acme/ci",status="200"} 5`} {
		if !strings.Contains(counted.Body.String(), line) {
			t.Errorf("the metrics lack %s:\n%s", line, counted.Body)
		}
	}
	d, err := i.db.Delivery(t.Context(), "acme/ci", "msg_0")
	if err != nil || d.Decision != seedbed.DecisionDone || d.Detail != "network-add acme/lab" || d.Peer == "" ||
		string(d.Payload) != steps[0] {
		t.Errorf("%+v (%v)", d, err)
	}
	log, err := i.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.InProject("acme"), Tenant: true})
	if err != nil || len(log) != 3 {
		t.Fatalf("%d entries (%v), want one for each change", len(log), err)
	}
	if e := log[1]; e.Actor != "hook acme/ci" || e.Request != "POST /hooks/acme/ci" || !strings.Contains(string(e.Asked), `"mtu":1300`) ||
		!strings.Contains(string(e.Before), `"mtu":1400`) || e.From == "" {
		t.Errorf("%+v", e)
	}
}

// A hook may do what its project may do, and is not told of what other projects have.
func TestNetworksThatAHookMayNotHave(t *testing.T) {
	t.Parallel()
	home, acme := installNetworks(t)
	client := newClient(t)
	bridged := `{"action":"network-add","name":"out","network":{"kind":"bridged","uplink":"eth1","vlan":7}}`
	if r := home.send(t, client, "uplink", bridged); r.status != 200 {
		t.Fatalf("a bridged network of the default project: %+v", r)
	}
	add := func(settings string) string {
		return `{"action":"network-add","name":"lab","network":{` + settings + `}}`
	}
	for n, body := range []string{
		`{"action":"network-add","name":"own","network":{"prefix":"10.131.0.0/24"}}`,
		`{"action":"network-add","name":"two","network":{"prefix":"10.132.0.0/24"}}`,
		`{"action":"network-set","name":"own","network":{"peer":["two"]}}`,
	} {
		if r := acme.send(t, client, fmt.Sprint("own_", n), body); r.status != 200 {
			t.Fatalf("%s: %+v", body, r)
		}
	}
	if own, _ := acme.network(t, "acme/own"); !slices.Equal(own.Peers, []string{"acme/two"}) {
		t.Errorf("the peers of acme/own are %v", own.Peers)
	}
	for n, test := range []struct {
		body   string
		status int
		says   string
	}{
		{add(`"kind":"bridged","uplink":"eth2"`), 403, "network.protect"},
		{add(`"prefix":"10.130.0.0/24","vni":7`), 403, "network.protect"},
		{add(`"prefix":"10.130.0.0/24","bridge":"br7"`), 403, "network.protect"},
		{add(`"prefix":"10.130.0.0/24","bandwidth_in":"10Mbit"`), 403, "network.protect"},
		{add(`"prefix":"192.0.2.0/24"`), 403, "10.128.0.0/9"},
		{add(`"prefix":"10.130.0.0/24","prefx6":"x"`), 422, "/prefx6 is unknown"},
		{add(`"prefix":"10.130.0.0/33"`), 422, "/prefix"},
		{add(`"mtu":1400`), 422, "it has no prefix: expected"},
		{add(`"prefix":"10.130.0.0/24","name":"other"`), 422, "expected one of them"},
		{`{"action":"network-add","name":"lab","network":"10.130.0.0/24"}`, 422, "expected a map"},
		{`{"action":"network-add","name":"lab"}`, 422, "network is missing"},
		{`{"action":"network-add","name":"Not/A/Name","network":{"prefix":"10.130.0.0/24"}}`, 403, "acts in project acme"},
		{`{"action":"network-set","name":"default/out","network":{"mtu":1400}}`, 403, "acts in project acme"},
		{`{"action":"network-set","name":"default/none","network":{"mtu":1400}}`, 403, "acts in project acme"},
		{`{"action":"network-set","name":"out","network":{"mtu":1400}}`, 422, `"acme/out" does not exist`},
		{`{"action":"network-set","name":"own","network":{"peer":["default/out"]}}`, 403, "acts in project acme"},
		{`{"action":"network-set","name":"own","network":{"peer":["out"]}}`, 422, `"acme/out" does not exist`},
		{`{"action":"network-set","name":"own","network":{"unpeer":["out"]}}`, 422, `is not peered with network`},
		{`{"action":"network-remove","name":"default/out"}`, 403, "acts in project acme"},
		{`{"action":"network-remove","name":"out","network":{}}`, 422, "cannot be set with network-remove"},
		{`{"action":"network-remove","name":"out","priority":"low"}`, 422, "makes no job"},
		{`{"action":"address-associate","name":"203.0.113.16","instance":"web1"}`, 422, "is not allocated"},
		{`{"action":"address-associate","name":"web1","instance":"web1"}`, 422, "is not an address"},
		{`{"action":"address-associate","name":"203.0.113.16"}`, 422, "instance is missing"},
		{`{"action":"create","name":"web1","profile":"small","network":{"prefix":"10.130.0.0/24"}}`, 422, "expected the name of a network"},
		{`{"action":"create","name":"web1","profile":"small","nic":1}`, 422, "address-associate"},
	} {
		r := acme.send(t, client, fmt.Sprint("msg_", n), test.body)
		if r.status != test.status || !strings.Contains(r.Detail, test.says) {
			t.Errorf("%s: %+v, want %d that says %s", test.body, r, test.status, test.says)
		}
		d, err := acme.db.Delivery(t.Context(), "acme/ci", fmt.Sprint("msg_", n))
		if err != nil || d.Decision != seedbed.DecisionRefused || d.Detail != r.Detail {
			t.Errorf("%s: recorded %+v (%v)", test.body, d, err)
		}
	}
	all, err := home.db.Networks(t.Context())
	if err != nil || len(all) != 4 {
		t.Errorf("%d networks (%v), want four", len(all), err)
	}
	home.change(t, func(h *seedbed.Hook) { h.Actions = nil })
	if r := home.send(t, client, "unlisted", add(`"prefix":"10.130.0.0/24"`)); r.status != 403 || !strings.Contains(r.Detail, "network-add") {
		t.Errorf("a hook without the action: %+v", r)
	}
}

// A floating address goes to an instance of the hook's project, and from it.
func TestFloatingAddressOfAHook(t *testing.T) {
	t.Parallel()
	i, acme := installNetworks(t)
	client := newClient(t)
	made := i.send(t, client, "made", create("web1"))
	i.finish(t, made.Job, seedbed.InstanceRunning)
	lend := `{"action":"network-set","name":"default","network":{"floating":["203.0.113.16/31","2001:db8:1::/64"],` +
		`"floating_uplink":"eth0","prefix6":"fd12:3456:789a:1::/64"}}`
	if r := i.send(t, client, "lend", lend); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	addr := netip.MustParseAddr("203.0.113.16")
	if _, err := i.db.AllocateFloating(t.Context(), seedbed.FloatingAddress{Addr: addr, Network: "default", Project: "default"}); err != nil {
		t.Fatal(err)
	}
	any6 := seedbed.FloatingAddress{Addr: seedbed.AnyAddr6, Network: "default", Project: "default"}
	six, err := i.db.AllocateFloating(t.Context(), any6)
	if err != nil || six.Addr.String() != "2001:db8:1::1" {
		t.Fatal(six, err)
	}
	if r := acme.send(t, client, "foreign", `{"action":"address-disassociate","name":"203.0.113.16"}`); r.status != 422 ||
		!strings.Contains(r.Detail, "is not allocated") {
		t.Errorf("of another project: %+v", r)
	}
	for n, step := range []struct {
		body   string
		status int
		has    string
	}{
		{`{"action":"address-associate","name":"203.0.113.16","instance":"web1","nic":1}`, 422, ""},
		{`{"action":"address-associate","name":"203.0.113.16","instance":"none"}`, 422, ""},
		{`{"action":"address-associate","name":"203.0.113.16","instance":"web1"}`, 200, "web1"},
		{`{"action":"address-disassociate","name":"203.0.113.16"}`, 200, ""},
		{`{"action":"address-disassociate","name":"203.0.113.16"}`, 409, ""},
	} {
		for range 2 {
			if r := i.send(t, client, fmt.Sprint("msg_", n), step.body); r.status != step.status {
				t.Errorf("%s: %+v, want %d", step.body, r, step.status)
			}
		}
		if f, err := i.db.FloatingAddress(t.Context(), addr); err != nil || f.Instance != step.has {
			t.Errorf("%s: it is of %q (%v), want %q", step.body, f.Instance, err, step.has)
		}
	}
	for n, step := range [][2]string{{`{"action":"address-associate","name":"2001:db8:1::1","instance":"web1"}`, "web1"},
		{`{"action":"address-disassociate","name":"2001:db8:1::1"}`, ""}} {
		r := i.send(t, client, fmt.Sprint("six_", n), step[0])
		if f, err := i.db.FloatingAddress(t.Context(), six.Addr); r.status != 200 || err != nil || f.Instance != step[1] {
			t.Errorf("%s: %+v, it is of %q (%v)", step[0], r, f.Instance, err)
		}
	}
	large := seedbed.Profile{Name: "large", Image: "debian", VCPUs: 1, Memory: 512 * seedbed.MiB, Network: "default"}
	if _, err := i.db.CreateProfile(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	i.change(t, func(h *seedbed.Hook) { h.Profiles = []string{"large"} })
	if r := i.send(t, client, "profile", `{"action":"address-associate","name":"203.0.113.16","instance":"web1"}`); r.status != 403 {
		t.Errorf("an instance of a profile that the hook may not use: %+v", r)
	}
}

// Copies of a delivery that come at the same time make one change. All are answered alike.
func TestParallelChanges(t *testing.T) {
	t.Parallel()
	i, _ := installNetworks(t)
	client := newClient(t)
	const n = 30
	for id, body := range map[string]string{
		"add": `{"action":"network-add","name":"lab","network":{"prefix":"10.130.0.0/24"}}`,
		"set": `{"action":"network-set","name":"default","network":{"mtu":1400}}`,
	} {
		var wait sync.WaitGroup
		replies := make([]reply, n)
		for k := range n {
			wait.Go(func() {
				for replies[k] = i.send(t, client, id, body); replies[k].status == http.StatusServiceUnavailable; {
					replies[k] = i.send(t, client, id, body)
				}
			})
		}
		wait.Wait()
		for _, r := range replies {
			if r.status != 200 || r.Decision != seedbed.DecisionDone {
				t.Errorf("%s: %+v", id, r)
			}
		}
	}
	log, err := i.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Actor: "hook ci"})
	if err != nil || len(log) != 2 {
		t.Errorf("%d changes (%v), want two", len(log), err)
	}
}

// What was done stays so if the rules give another meaning to it later, and can be done again as a new delivery.
func TestChangeAgain(t *testing.T) {
	t.Parallel()
	i, _ := installNetworks(t)
	client := newClient(t)
	const body = `{"ticket":7,"cidr":"10.130.0.0/24"}`
	i.change(t, func(h *seedbed.Hook) {
		h.Mapping = `{"action": "network-add", "name": "t" + string(body.ticket), "network": {"prefix": body.cidr, "mtu": 1400}}`
	})
	if r := i.send(t, client, "msg_1", body); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	i.change(t, func(h *seedbed.Hook) { h.Mapping = `{"action": "create", "name": "web1", "profile": "small"}` })
	if r := i.send(t, client, "msg_1", body); r.status != 200 || r.Decision != seedbed.DecisionDone || !r.Duplicate {
		t.Errorf("by another rule: %+v", r)
	}
	i.change(t, func(h *seedbed.Hook) { h.When = "false" })
	if r := i.send(t, client, "msg_1", body); r.status != 200 || r.Decision != seedbed.DecisionDone {
		t.Errorf("by a rule that ignores it: %+v", r)
	}
	i.change(t, func(h *seedbed.Hook) {
		h.When, h.Mapping = "", `{"action": "network-set", "name": "t7", "network": {"description": body.cidr}}`
	})
	admin := seedbed.WithChange(t.Context(), &seedbed.Change{Actor: "token root", Project: "default", Installation: true, Request: "POST x"})
	again, err := i.server.Redeliver(admin, "ci", "msg_1", seedbed.JobOptions{})
	if err != nil || again.Decision != seedbed.DecisionDone {
		t.Fatalf("%+v (%v)", again, err)
	}
	if n, _ := i.network(t, "t7"); n.Description != "10.130.0.0/24" || n.MTU != 1400 {
		t.Errorf("%+v", n)
	}
	log, err := i.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 1})
	if err != nil || len(log) != 1 || log[0].Actor != "token root" {
		t.Errorf("%+v (%v), want the one who asked for the redelivery", log, err)
	}
	if _, err := i.server.Redeliver(admin, "ci", "msg_1", seedbed.JobOptions{Priority: 1}); err == nil {
		t.Error("a redelivery with the options of a job was done")
	}
}

// A dry run shows what becomes of the network, and changes nothing.
func TestDryRunOfANetwork(t *testing.T) {
	t.Parallel()
	i, acme := installNetworks(t)
	for body, want := range map[string]string{
		`{"action":"network-set","name":"default","network":{"mtu":1400}}`:                          "",
		`{"action":"network-add","name":"lab","network":{"prefix":"10.130.0.0/24","mtu":1400}}`:     "",
		`{"action":"network-set","name":"default","network":{"mtu":1}}`:                             "MTU 1",
		`{"action":"network-remove","name":"none"}`:                                                 "does not exist",
		`{"action":"network-add","name":"lab","network":{"kind":"nonsense","prefix":"10.0.0.0/8"}}`: "nonsense",
	} {
		h, err := i.db.Hook(t.Context(), "ci")
		if err != nil {
			t.Fatal(err)
		}
		got, err := i.server.DryRun(t.Context(), h, seedbed.SampleDelivery{Body: body})
		if err != nil || !strings.Contains(got.Problem, want) || (got.Problem == "") != (want == "") || got.Request.Name == "" ||
			want == "" && (got.Network == nil || got.Network.MTU != 1400) {
			t.Errorf("%s: %+v (%v), want the problem %q", body, got, err, want)
		}
	}
	h, err := acme.db.Hook(t.Context(), "acme/ci")
	if err != nil {
		t.Fatal(err)
	}
	got, err := acme.server.DryRun(t.Context(), h, seedbed.SampleDelivery{
		Body: `{"action":"network-add","name":"lab","network":{"kind":"bridged","uplink":"eth2"}}`})
	if err != nil || !strings.Contains(got.Problem, "network.protect") || got.Network != nil {
		t.Errorf("%+v (%v)", got, err)
	}
	if n, _ := i.network(t, "default"); n.MTU != 0 {
		t.Errorf("a dry run changed %+v", n)
	}
	if all, err := i.db.Deliveries(t.Context(), seedbed.DeliveryQuery{}); err != nil || len(all) != 0 {
		t.Errorf("%d deliveries (%v)", len(all), err)
	}
}
