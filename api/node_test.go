package api_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/provision/record"
)

// TestNodes covers the life of a node. Each answer is compared with the description.
func TestNodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	expect := func(method, path, body string, status int, parts ...string) response {
		t.Helper()
		r := s.do(t, method, "/api/v1/nodes"+path, body)
		if r.status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
		}
		for _, part := range parts {
			if !strings.Contains(r.body, part) {
				t.Errorf("%s %s: %s\ndoes not hold %s", method, path, r.body, part)
			}
		}
		return r
	}
	expect("GET", "/host1", "", 200, `"name":"host1"`, `"worker":""`, `"state":"ready"`, `"control":true`, `"hypervisor":"QEMU 7.2.0 (kvm)"`,
		`"pools":[{"name":"default"`, `"instances":0`)
	r := expect("POST", "", `{"name":"hv2","worker":"https://hv2.example:7375"}`,
		201, `"worker":"https://hv2.example:7375"`, `"state":"away"`, `"cordoned":false`, `"control":false`)
	tag := r.header.Get("ETag")
	if got := r.header.Get("Location"); got != "/api/v1/nodes/hv2" || tag == "" {
		t.Errorf("Location %q, ETag %q", got, tag)
	}
	if strings.Contains(r.body, `"report"`) || strings.Contains(r.body, `"seen"`) {
		t.Errorf("it tells what nobody knows: %s", r.body)
	}
	expect("POST", "", `{"name":"hv2"}`, 409, `node \"hv2\" exists`)
	for _, bad := range []string{`{"name":"../x"}`, `{"name":"x","worker":"http://hv3.example:7375"}`,
		`{"name":"x","worker":"https://hv3.example"}`,
		`{"name":"x","worker":"https://u:p@hv3.example:7375"}`, `{"name":"x","worker":"https://hv3.example:7375/x"}`} {
		expect("POST", "", bad, 422)
	}
	expect("POST", "", `{"name":"x","address":"https://hv3.example:7375"}`, 400, "unknown")

	if err := s.db.NoteNode(t.Context(), "hv2", seedbed.NodeReport{CPUs: 4}, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	r = expect("GET", "/hv2", "", 200, `"state":"ready"`, `"cpus":4`)
	if r.header.Get("ETag") != tag {
		t.Error("what its worker says changes its entity tag")
	}
	var all []seedbed.NodeStatus
	if err := json.Unmarshal([]byte(expect("GET", "", "", 200).body), &all); err != nil || len(all) != 2 || all[0].Name != "host1" ||
		all[1].Name != "hv2" || all[1].Report.CPUs != 4 {
		t.Errorf("%+v, %v", all, err)
	}

	expect("PATCH", "/hv2", `{"cordoned":true}`, 200, `"state":"cordoned"`, `"worker":"https://hv2.example:7375"`)
	if r := s.do(t, "PATCH", "/api/v1/nodes/hv2", `{"cordoned":false}`, "If-Match", tag); r.status != 412 {
		t.Errorf("changed over somebody's change: %+v", r)
	}
	if r := s.do(t, "DELETE", "/api/v1/nodes/hv2", "", "If-Match", tag); r.status != 412 {
		t.Errorf("removed over somebody's change: %+v", r)
	}
	expect("PATCH", "/hv2", `{"worker":"https://10.0.0.2:7375","cordoned":false}`, 200, `"worker":"https://10.0.0.2:7375"`, `"state":"ready"`)
	expect("PATCH", "/hv2", `{"worker":"hv2"}`, 422)
	expect("PATCH", "/hv2", `{}`, 422, "nothing to change")
	expect("PATCH", "/none", `{"cordoned":true}`, 404, `node \"none\" does not exist`)
	expect("GET", "/none", "", 404)
	expect("DELETE", "/none", "", 404)
	expect("DELETE", "/hv2", "", 409, "cordon it first")
	expect("PATCH", "/hv2", `{"cordoned":true}`, 200)
	expect("DELETE", "/hv2", "", 204)
	expect("GET", "/hv2", "", 404)

	s.importImage(t, "debian")
	expect("PATCH", "/host1", `{"cordoned":true}`, 200)
	expect("DELETE", "/host1", "", 409, `image \"debian\", which no other node can reach`)

	var changes []string
	entries, err := s.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.What == "change node" && strings.Contains(string(e.Before), `"worker":"https://hv2.example:7375"`) ||
			strings.Contains(e.What, "node hv2") || e.What == "remove node" {
			changes = append(changes, e.What)
		}
	}
	if got := strings.Join(changes, ", "); got != "remove node, change node, change node, add node hv2" {
		t.Errorf("the audit log tells %s", got)
	}
}

// TestPlaced checks that instances are placed on the requested node, and that a removed node with
// instances is still listed.
func TestPlaced(t *testing.T) {
	t.Parallel()
	s := composable(t)
	if _, err := s.db.CreateProfile(t.Context(),
		seedbed.Profile{Name: "small", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default"}); err != nil {
		t.Fatal(err)
	}
	if r := s.do(t, "POST", "/api/v1/nodes", `{"name":"hv2","worker":"https://hv2.example:7375"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	for _, test := range []struct {
		path, body string
		status     int
		says       string
	}{
		// An unknown node is looked up at once, not only after a second.
		{"/plan", `{"name":"web1","profile":"small","node":"hv9"}`, 200, `node \"hv9\" does not exist: the nodes are host1, hv2`},
		{"/plan", `{"name":"web1","profile":"small"}`, 200, `"placement":[{"node":"host1","chosen":true,"reason":"mem: 12.0GiB free"},` +
			`{"node":"hv2","chosen":false,"refused":"image \"debian\" is only in pool \"default\" of node host1"`},
		{"/plan", `{"name":"web1","profile":"small","node":"host1"}`, 200, `"problems":[]`},
		{"/instances", `{"name":"web1","profile":"small","node":"hv2"}`, 422, `image \"debian\" is only in pool \"default\" of node host1`},
		{"/instances", `{"name":"web1","profile":"small","node":"hv9"}`, 422, `node \"hv9\" does not exist`},
		{"/instances", `{"name":"web2","profile":"web","node":"hv9"}`, 422, `node \"hv9\" does not exist`},
		{"/instances", `{"name":"web1","profile":"small","node":"host1"}`, 202, `"job"`},
		{"/instances/web1/rebuild", `{"node":"host1"}`, 400, "unknown"},
		{"/plan", `{"action":"rebuild","name":"web1","node":"host1"}`, 422, "an instance stays where it is"},
		{"/images", `{"name":"other","path":"/x","node":"hv9"}`, 422, `node \"hv9\" does not exist`},
		{"/images", `{"name":"other","path":"/x","node":"hv2"}`, 202, `"job"`},
	} {
		if r := s.do(t, "POST", "/api/v1"+test.path, test.body); r.status != test.status || !strings.Contains(r.body, test.says) {
			t.Errorf("POST %s %s: %d %s\nwant %d %s", test.path, test.body, r.status, r.body, test.status, test.says)
		}
	}
	if i, err := s.db.Image(t.Context(), "other"); err != nil || i.Node != "hv2" {
		t.Errorf("the image is of %q, %v", i.Node, err)
	}
	s.do(t, "PATCH", "/api/v1/nodes/host1", `{"cordoned":true}`)
	if r := s.do(t, "DELETE", "/api/v1/nodes/host1", ""); r.status != 409 || !strings.Contains(r.body, `instance \"web1\"`) {
		t.Errorf("%+v", r)
	}
}

// TestFormerNode checks that a removed node with instances is listed, and shown in the same form.
func TestFormerNode(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := seedbed.NewInstanceID()
	if _, err := s.db.Accept(t.Context(), seedbed.Acceptance{
		Job:      seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{ID: id, Name: "web1", Node: "gone", VCPUs: 2, Memory: seedbed.GiB, Ready: seedbed.ReadyStarted},
	}); err != nil {
		t.Fatal(err)
	}
	var all []seedbed.NodeStatus
	if err := json.Unmarshal([]byte(s.expect(t, "GET", "/nodes", "", 200).body), &all); err != nil || len(all) != 2 || all[0].Name != "gone" {
		t.Fatalf("%+v, %v", all, err)
	}
	r := s.expect(t, "GET", "/nodes/gone", "", 200, `"state":"away"`, `"instances":1`,
		`"problem":"it has instances but is not a node: add it (seedbed node add)"`)
	var one seedbed.NodeStatus
	if err := json.Unmarshal([]byte(r.body), &one); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all[0], one, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("shown otherwise than listed (-list +show):\n%s", d)
	}
	if tag := r.header.Get("ETag"); tag != "" {
		t.Errorf("nothing can be changed of it, and it has the entity tag %s", tag)
	}
	s.expect(t, "PATCH", "/nodes/gone", `{"cordoned":true}`, 404)
	s.expect(t, "GET", "/instances?node=gone", "", 200, `"name":"web1"`)
	if r := s.expect(t, "GET", "/instances?node="+testNode, "", 200); r.body != "[]" {
		t.Errorf("instances of another node: %s", r.body)
	}
	s.expect(t, "GET", "/instances?node=..", "", 422, `node name \"..\" is not usable`)
	s.expect(t, "GET", "/nodes/none", "", 404, `node \"none\" does not exist`)
}

// sharing adds a node hv7, which shares the pool with the first node, and lets guests that run migrate between the two.
func (s *server) sharing(t *testing.T) {
	t.Helper()
	if _, err := s.db.AddNode(t.Context(), seedbed.Node{Name: "hv7", Worker: "https://hv7:7375"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{testNode, "hv7"} {
		report := testReport
		report.Pools = []seedbed.PoolInfo{{Name: "default", Type: "dir", Size: 1060, Free: 40, Shared: true},
			{Name: "other", Type: "dir", Size: 1060, Free: 40, Shared: true}}
		report.Migration.URI = "qemu+tls://" + name + "/system"
		if err := s.db.NoteNode(t.Context(), name, report, "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPVCNodes checks that PVC's clients see the nodes as their workers report them.
func TestPVCNodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, n := range []seedbed.Node{{Name: "hv2", Worker: "https://hv2:7375", Cordoned: true}, {Name: "hv3", Worker: "https://hv3:7375"}} {
		if _, err := s.db.AddNode(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	report := seedbed.NodeReport{CPUs: 8, Load: 2, Memory: 32 * seedbed.GiB, MemoryFree: 8 * seedbed.GiB, Domains: 5, Arch: "x86_64",
		Pools: []seedbed.PoolInfo{
			{Name: "vms", Size: 100 * seedbed.GiB, Free: 40 * seedbed.GiB, Shared: true},
			{Name: "own", Size: 10 * seedbed.GiB, Free: seedbed.GiB},
		}}
	for _, name := range []string{"hv2", "hv3"} {
		if err := s.db.NoteNode(t.Context(), name, report, "", time.Now().Add(-30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.NoteNode(t.Context(), "hv3", seedbed.NodeReport{}, "no route to host", time.Now()); err != nil {
		t.Fatal(err)
	}
	for path, parts := range map[string][]string{
		"/node/hv2": {`"daemon_state":"run","coordinator_state":"client","domain_state":"flushed"`,
			`"cpu_count":8`, `"arch":"x86_64","health":100`, `"load":2,"domains_count":5`,
			`"vcpu":{"total":8,"allocated":0}`, `"memory":{"total":32768,"allocated":0,"provisioned":0,"used":24576,"free":8192}`},
		"/node/hv3": {
			`"daemon_state":"dead"`, `"domain_state":"ready"`, `"health":0`, `seedbed-worker does not answer: no route to host`,
		},
		"/node?daemon_state=dead": {`"name":"hv3"`},
		"/status": {`"nodes":{"dead,ready":1,"run,flushed":1,"run,ready":1,"total":3}`,
			`"hv3":{"health":0,"messages":["seedbed-worker does not answer: no route to host"]}`,
			// In KiB: the shared 100 GiB and 40 GiB once, twice 10 GiB and 1 GiB, and 1 KiB of the
			// 1060 bytes of host1.
			`"disk":{"total":125829121,"used":81788929,"free":44040192`},
	} {
		r := s.do(t, "GET", "/api/v1"+path, "")
		for _, want := range parts {
			if r.status != 200 || !strings.Contains(r.body, want) {
				t.Errorf("%s: %d %s\nhas no %s", path, r.status, r.body, want)
			}
		}
	}
}

// TestPVCMove takes a VM to another node and back as PVC's client does.
func TestPVCMove(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.sharing(t)
	web := s.runVM(t, "web1")
	moved := func(from, to, home string, live bool) {
		t.Helper()
		job := s.claim(t)
		var spec seedbed.MigrateSpec
		if err := json.Unmarshal(job.Spec, &spec); err != nil || spec.From != from || spec.To != to || spec.Home != home || spec.Live != live {
			t.Errorf("job %s, %v; want one from %s to %s, home %q, live %t", job.Spec, err, from, to, home, live)
		}
		if _, err := s.db.Move(t.Context(), job.Ref(), to, home, web.ID, record.Renderer{}.Of); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
			t.Fatal(err)
		}
	}
	s.pvc(t, call{"POST", "/vm/web1/node", "", 400, lacks("action", "A valid action must be specified")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=fly", "", 400, lacks("action", "A valid action must be specified")})
	s.pvc(t, call{"POST", "/vm/none/node?action=move", "", 400, msg("ERROR: Could not find VM 'none' in the cluster!")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=migrate&node=hv9", "", 400, msg("ERROR: Specified node 'hv9' is invalid.")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=migrate&node=" + testNode, "", 400,
		msg("ERROR: VM 'web1' is already running on node '" + testNode + "'.")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=unmigrate", "", 400, msg("ERROR: VM 'web1' has not been previously migrated.")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=migrate&force=False", "", 200, msg("Migrating VM 'web1' to node 'hv7'.")})
	moved(testNode, "hv7", testNode, true)
	s.pvc(t, call{"GET", "/vm/web1/node", "", 200, `{"name":"web1","node":"hv7","last_node":"` + testNode + `"}`})
	if r := s.do(t, "GET", "/api/v1/vm/web1", ""); !strings.Contains(r.body, `"migrated":"from `+testNode+`"`) {
		t.Errorf("%s", r.body)
	}
	s.pvc(t, call{"POST", "/vm/web1/node?action=migrate", "", 400, msg("ERROR: VM 'web1' has been previously migrated.")})
	s.pvc(t, call{"POST", "/vm/web1/node?action=unmigrate", "", 200, msg("Unmigrating VM 'web1' back to node '" + testNode + "'.")})
	moved("hv7", testNode, "", true)
	s.pvc(t, call{"POST", "/vm/web1/node?action=move&node=hv7", "", 200, msg("Permanently migrating VM 'web1' to node 'hv7'.")})
	moved(testNode, "hv7", "", true)
}
