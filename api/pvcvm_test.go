package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// runVM makes an instance of the profile "web" on PVC's paths, and marks it as running.
func (s *server) runVM(t *testing.T, name string) seedbed.Instance {
	t.Helper()
	if r := s.do(t, "POST", "/api/v1/provisioner/create?name="+name+"&profile=web", ""); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault(name))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// endJob ends the next job.
func (s *server) endJob(t *testing.T, o seedbed.JobResult) *seedbed.Job {
	t.Helper()
	job := s.claim(t)
	if err := s.db.Finish(t.Context(), job.Ref(), o); err != nil {
		t.Fatal(err)
	}
	return job
}

func TestPVCVM(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.pvc(t, call{"GET", "/vm", "", 404, msg("VM not found.")})
	i := s.runVM(t, "web1")
	if r := s.do(t, "PATCH", "/api/v1/instances/web1", `{"tags":{"tier":"front"}}`); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "POST", "/api/v1/provisioner/create?name=db1&profile=web", ""); r.status != 202 {
		t.Fatalf("%+v", r)
	}

	r := s.do(t, "GET", "/api/v1/vm/web1", "")
	var list []map[string]any
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for key, want := range map[string]any{"name": "web1", "uuid": string(i.ID), "state": "start", "node": "host1", "migrated": "no",
		"memory": 512.0, "vcpu": 1.0, "vcpu_topology": "1/1/1", "profile": "web", "failed_reason": "", "last_node": ""} {
		if list[0][key] != want {
			t.Errorf("%s is %v: want %v", key, list[0][key], want)
		}
	}
	nic := list[0]["networks"].([]any)[0].(map[string]any)
	if nic["mac"] != i.NICs[0].MAC.String() || nic["source"] != "seedbed0" || nic["type"] != "bridge" {
		t.Errorf("NIC %v", nic)
	}
	// PVC's client looks up a NIC's network number among the networks.
	if r := s.do(t, "GET", "/api/v1/network/"+nic["vni"].(string), ""); r.status != 200 ||
		!strings.Contains(r.body, `"vni":`+nic["vni"].(string)+`,"description":"default"`) {
		t.Errorf("%+v", r)
	}
	if byID := s.do(t, "GET", "/api/v1/vm/"+strings.ToUpper(string(i.ID)), ""); byID.body != r.body {
		t.Errorf("by UUID: %+v", byID)
	}

	names := func(query string) string {
		t.Helper()
		r := s.do(t, "GET", "/api/v1/vm"+query, "")
		if r.status == 404 {
			return "-"
		}
		var all []struct{ Name string }
		if err := json.Unmarshal([]byte(r.body), &all); err != nil {
			t.Fatalf("%s: %+v", query, r)
		}
		var names []string
		for _, v := range all {
			names = append(names, v.Name)
		}
		return strings.Join(names, " ")
	}
	for query, want := range map[string]string{
		"": "db1 web1", "?limit=1": "db1 web1", "?limit=eb": "web1", "?limit=^db": "db1",
		"?limit=^b": "-", "?limit=web1$": "web1", "?limit=%25": "-",
		"?limit=" + string(i.ID): "web1", "?state=start": "web1", "?state=start&negate=true": "db1", "?state=provision": "db1",
		"?node=host1": "db1 web1", "?node=host1&negate=1": "-", "?tag=tier": "web1", "?tag=tier&negate=yes": "db1", "?state=mirror": "-",
	} {
		if got := names(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}

	for _, c := range []call{
		{"GET", "/vm?state=running", "", 400, msg(`VM state "running" is not valid.`)},
		{"GET", "/vm?node=hv9", "", 400, msg(`Specified node "hv9" is invalid.`)},
		{"GET", "/vm/none", "", 404, msg("VM not found.")},
		{"GET", "/vm/%25", "", 404, msg("VM not found.")},
		{"GET", "/vm/web1/state", "", 200, `{"name":"web1","state":"start"}`},
		{"GET", "/vm/db1/state", "", 200, `{"name":"db1","state":"provision"}`},
		{"GET", "/vm/none/state", "", 404, msg("VM not found.")},
		{"GET", "/vm/web1/node", "", 200, `{"name":"web1","node":"host1","last_node":""}`},
		{"GET", "/vm/web1/tags", "", 200, `{"name":"web1","tags":[{"name":"tier","type":"user","protected":false}]}`},
		{
			"GET", "/vm/web1/meta", "", 200,
			`{"name":"web1","node_limit":[],"node_selector":"none","node_autostart":false,"migration_method":"none","migration_max_downtime":300}`,
		},
		{
			"POST", "/vm/web1/meta", "profile=big", 400, msg(`ERROR: profile of VM 'web1' cannot be changed: it is what the VM was made from. ` +
				`"seedbed vm rebuild" gives it the disks of another one.`),
		},
		{"POST", "/vm/web1/meta", "limit=hv9", 400, msg("ERROR: Specified node 'hv9' is invalid.")},
		{"POST", "/vm/web1/meta", "selector=luck", 400, lacks("selector", "A valid selector must be specified")},
		{"POST", "/vm/web1/meta", "migration_max_downtime=-1", 400,
			msg("ERROR: migration_max_downtime is -1: expected 0 to 86400000 milliseconds.")},
		{"POST", "/vm/web1/meta", "limit=host1&selector=vms&migration_method=shutdown&migration_max_downtime=500", 200,
			msg("Successfully modified PVC metadata of VM 'web1'.")},
		{
			"GET", "/vm/web1/meta", "", 200,
			`{"name":"web1","node_limit":["host1"],"node_selector":"vms","node_autostart":false,"migration_method":"shutdown",` +
				`"migration_max_downtime":500}`,
		},
		{"POST", "/vm/web1/meta", "limit=&selector=none&migration_method=none&migration_max_downtime=300", 200,
			msg("Successfully modified PVC metadata of VM 'web1'.")},
		{"POST", "/status", "state=maybe", 400, lacks("state", "A valid state must be specified.")},
		{"POST", "/status", "state=true", 200, msg("Successfully set cluster in maintenance mode")},
		{"POST", "/status", "state=true", 200, msg("Cluster is already in maintenance mode")},
		{"POST", "/status", "state=false", 200, msg("Successfully set cluster in normal mode")},
		{"POST", "/vm/web1/tags", "action=add&tag=spare", 200, msg("Successfully added tag 'spare' to VM 'web1'.")},
		{"POST", "/vm/web1/tags", "action=add&tag=tier", 200, msg("Successfully added tag 'tier' to VM 'web1'.")},
		{"POST", "/vm/web1/tags", "action=remove&tag=spare&protected=False", 200, msg("Successfully removed tag 'spare' from VM 'web1'.")},
		{"POST", "/vm/web1/tags", "action=remove&tag=spare", 400, msg("The tag 'spare' does not exist.")},
		{"POST", "/vm/web1/tags", "action=swap&tag=spare", 400, lacks("action", "Tag action must be one of 'add', 'remove'.")},
		{"POST", "/vm/web1/tags", "action=add&tag=a+b", 400, msg(`Instance "web1": tag "a b" has no usable key: ` +
			`expected one without slash, space and equals sign, other than ".", ".." and "_index".`)},
		{"POST", "/vm/none/tags", "action=add&tag=spare", 404, msg("VM not found.")},
		{"POST", "/vm/web1/meta", "", 400, msg("ERROR: No updates to apply.")},
		{"POST", "/vm/none/meta", "limit=hv2", 404, msg("VM not found.")},
		{"GET", "/vm/web1/console", "", 200, `{"name":"web1","data":"login: ` + "\uFFFD" + `\u003cscript\u003e"}`},
		{"GET", "/vm/web1/console?lines=x", "", 400, msg("The number of lines must be an integer.")},
		{"GET", "/vm/none/console", "", 400, `{"message":"ERROR: Could not find VM \"none\" in the cluster!"}`},
		{
			"POST", "/vm/web1", "", 405, msg(`The definition of a VM is only changed by its XML to add or remove a NIC: "seedbed vm resize" ` +
				`changes vCPUs, memory and disk, "seedbed volume attach" and "detach" its volumes, and "seedbed vm rebuild" makes the VM again ` +
				`from its profile.`),
		},
	} {
		s.pvc(t, c)
	}
}

func TestPVCVMState(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	spec := func(kind seedbed.JobKind, force bool) {
		t.Helper()
		job := s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: map[seedbed.JobKind]seedbed.InstanceState{
			seedbed.JobStop: seedbed.InstanceStopped}[kind]})
		var p seedbed.PowerSpec
		if len(job.Spec) > 0 {
			if err := json.Unmarshal(job.Spec, &p); err != nil {
				t.Error(err)
			}
		}
		if job.Kind != kind || p.Force != force {
			t.Errorf("job %s with force %t: want %s with %t", job.Kind, p.Force, kind, force)
		}
	}
	s.pvc(t, call{"POST", "/vm/web1/state", "", 400, lacks("state", "A valid state must be specified")})
	s.pvc(t, call{"POST", "/vm/web1/state?state=mirror", "", 400, lacks("state", "A valid state must be specified")})
	s.pvc(t, call{"POST", "/vm/web1/state?state=disable", "", 400,
		msg("State disable is not supported: a VM of Seedbed that is stopped stays off until it is started.")})
	s.pvc(t, call{"POST", "/vm/none/state?state=start", "", 400, msg("ERROR: Could not find VM 'none' in the cluster!")})
	s.pvc(t, call{"POST", "/vm/web1/state?state=restart&force=False&wait=False", "", 200, msg("Restarting VM 'web1'.")})
	if r := s.do(t, "POST", "/api/v1/vm/web1/state?state=start", ""); r.status != 400 || !strings.Contains(r.body, "message") {
		t.Errorf("with a live job: %+v", r)
	}
	spec(seedbed.JobReboot, false)
	s.pvc(t, call{"POST", "/vm/web1/state", "state=stop", 200, msg("Forcibly stopping VM 'web1'.")})
	spec(seedbed.JobStop, true)
	s.pvc(t, call{"POST", "/vm/web1/state?state=shutdown", "", 400, msg("ERROR: VM 'web1' is not in 'start' state!")})
	s.pvc(t, call{"POST", "/vm/web1/state?state=start", "", 200, msg("Starting VM 'web1'.")})
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})

	// A caller that waits gets the result.
	answer := make(chan response, 1)
	go func() { answer <- s.do(t, "POST", "/api/v1/vm/web1/state?state=shutdown&wait=True", "") }()
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	if r := <-answer; r.status != 200 || r.body != msg("Shut down VM 'web1'") {
		t.Errorf("%+v", r)
	}
	go func() { answer <- s.do(t, "POST", "/api/v1/vm/web1/state?state=start&wait=True", "") }()
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "the worker does not answer"})
	if r := <-answer; r.status != 400 || r.body != msg("ERROR: The worker does not answer.") {
		t.Errorf("%+v", r)
	}
}

// nextJob ends the next job, which may not have been queued yet.
func (s *server) nextJob(t *testing.T, o seedbed.JobResult) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		job, err := s.db.ClaimJob(t.Context(), "test", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if job != nil {
			if o.State == seedbed.JobRolledBack {
				if err := s.db.Undo(t.Context(), job.Ref(), o.Error); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.db.Finish(t.Context(), job.Ref(), o); err != nil {
				t.Fatal(err)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no job within two minutes")
		}
	}
}

func TestPVCRemoveVM(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	s.pvc(t, call{"DELETE", "/vm/none?delete_disks=True", "", 400, msg("ERROR: Could not find VM 'none' in the cluster!")})
	answer := make(chan response, 1)
	s.runVM(t, "web3")
	go func() { answer <- s.do(t, "DELETE", "/api/v1/vm/web3", "") }()
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	if r := <-answer; r.status != 200 || r.body != msg("Undefined VM 'web3' from the cluster.") {
		t.Errorf("%+v", r)
	}
	if v, err := s.db.ProjectVolume(t.Context(), seedbed.DefaultProject, "web3-0"); err != nil || v.State != seedbed.VolumeFree {
		t.Errorf("its disk: %+v, %v", v, err)
	}
	go func() { answer <- s.do(t, "DELETE", "/api/v1/vm/web1?delete_disks=True", "") }()
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	if r := <-answer; r.status != 200 || r.body != msg("Removed VM 'web1' and its disks from the cluster.") {
		t.Errorf("%+v", r)
	}
	s.pvc(t, call{"GET", "/vm", "", 404, msg("VM not found.")})

	// Removing an instance that is still being provisioned cancels its job.
	if r := s.do(t, "POST", "/api/v1/provisioner/create?name=web2&profile=web", ""); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	making := s.claim(t)
	go func() { answer <- s.do(t, "DELETE", "/api/v1/vm/web2?delete_disks=True", "") }()
	for end := time.Now().Add(2 * time.Minute); ; {
		if j, err := s.db.Job(t.Context(), making.ID); err != nil || j.Cancel {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the create is not cancelled")
		}
	}
	if err := s.db.Undo(t.Context(), making.Ref(), "cancelled"); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Finish(t.Context(), making.Ref(),
		seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled", Drop: true}); err != nil {
		t.Fatal(err)
	}
	if r := <-answer; r.status != 200 || r.body != msg("Removed VM 'web2' and its disks from the cluster.") {
		t.Errorf("%+v", r)
	}
}

// TestPVCVMRoles checks that a viewer cannot read a console, which may hold secrets.
func TestPVCVMRoles(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	viewer := s.newToken(t, "looker", seedbed.RoleViewer)
	for path, want := range map[string]int{
		"/vm": 200, "/vm/web1": 200, "/node": 200, "/network": 200, "/storage/ceph/volume": 200, "/vm/web1/console": 403,
	} {
		if r := s.do(t, "GET", "/api/v1"+path, "", "Authorization", "Bearer "+viewer); r.status != want {
			t.Errorf("%s: %d, want %d", path, r.status, want)
		}
	}
	if r := s.do(t, "POST", "/api/v1/vm/web1/state?state=stop", "", "Authorization", "Bearer "+viewer); r.status != 403 ||
		!strings.Contains(r.body, `{"message":`) {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/vm", "", "Authorization", ""); r.status != 401 || r.body != msg("X-Api-Key Authentication required.") {
		t.Errorf("%+v", r)
	}
}

// TestPVCDomain checks that a VM has the definition and the disks of its domain, and that a viewer gets
// what other answers have too.
func TestPVCDomain(t *testing.T) {
	t.Parallel()
	s := composable(t)
	i := s.runVM(t, "web1")
	viewer := s.newToken(t, "reader", seedbed.RoleViewer)
	for who, of := range map[string]string{"admin": token, "viewer": viewer} {
		for _, path := range []string{"/api/v1/vm", "/api/v1/vm/web1"} {
			status, body := s.call(t, "GET", path, of)
			var list []struct {
				XML     string
				Disks   []struct{ Name, Dev, Bus string }
				Arch    string
				Machine string
			}
			if err := json.Unmarshal([]byte(body), &list); status != 200 || err != nil || len(list) != 1 {
				t.Fatalf("%s: %d %s", who, status, body)
			}
			vm := list[0]
			if len(vm.Disks) == 0 || vm.Disks[0].Name != "default/"+string(i.ID)+"-0" || vm.Disks[0].Dev != "sda" || vm.Disks[0].Bus != "scsi" ||
				vm.Arch != "x86_64" || vm.Machine != "pc-i440fx-7.2" {
				t.Errorf("%s %s: %+v", who, path, vm)
			}
			for _, want := range []string{
				"<uuid>" + string(i.ID) + "</uuid>", "<memory unit='MiB'>512</memory>", "<vcpu placement='static'>1</vcpu>",
				"<topology sockets='1' cores='1' threads='1'/>", "<source bridge='vmbr", "<target dev='sda' bus='scsi'>",
				string(i.ID) + "-0.qcow2'",
			} {
				if !strings.Contains(vm.XML, want) {
					t.Errorf("%s %s: without %s: %s", who, path, want, vm.XML)
				}
			}
			if strings.Contains(vm.XML, "passwd") || who == "viewer" && (strings.Contains(vm.XML, "secret") || strings.Contains(vm.XML, "/pools/")) {
				t.Errorf("%s %s: tells more than it may: %s", who, path, vm.XML)
			}
		}
	}
}

// TestPVCStopOvertakes checks that PVC's stop does not wait for the shutdown that asks the guest.
func TestPVCStopOvertakes(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	s.pvc(t, call{"POST", "/vm/web1/state", "state=shutdown", 200, msg("Shutting down VM 'web1'")})
	s.pvc(t, call{"POST", "/vm/web1/state", "state=stop", 200, msg("Forcibly stopping VM 'web1'.")})
	all, err := s.db.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobStop, Limit: 10})
	if err != nil || len(all) != 2 || all[1].State != seedbed.JobRolledBack || all[0].State != seedbed.JobQueued ||
		all[1].Error != "superseded by stop job "+all[0].ID.Short()+", which switches the instance off at once" {
		t.Errorf("jobs %+v, %v", all, err)
	}
}
