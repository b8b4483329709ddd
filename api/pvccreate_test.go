package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"seedbed"
)

// composable makes a profile "web" with a cloned disk and one NIC on PVC's own paths.
func composable(t *testing.T) *server {
	t.Helper()
	s := provisioner(t)
	for _, path := range []string{
		"/template/system?name=small&vcpus=1&vram=512&serial=True&vnc=False", "/template/network?name=lan", "/template/network/lan/net/default",
		"/template/storage?name=root", "/template/storage/root/disk/sda?pool=default&source_volume=debian",
		"/profile?name=web&profile_type=provisioner&system_template=small&network_template=lan&storage_template=root&userdata=empty&script=empty",
	} {
		if r := s.do(t, "POST", "/api/v1/provisioner"+path, ""); r.status != 200 {
			t.Fatalf("%s: %+v", path, r)
		}
	}
	return s
}

func TestPVCCreate(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.pvc(t, call{"GET", "/tasks", "", 200, `{"scheduled":{},"active":{},"reserved":{}}`})
	r := s.do(t, "POST", "/api/v1/provisioner/create?name=web1&profile=web", "")
	var made struct {
		ID    string `json:"task_id"`
		Name  string `json:"task_name"`
		RunOn string `json:"run_on"`
	}
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 202 || made.Name != "provisioner.create" ||
		made.RunOn != "host1 (primary)" {
		t.Fatalf("%+v, %v", r, err)
	}
	if at := r.header.Get("Location"); at != "/api/v1/tasks/"+made.ID {
		t.Errorf("Location %q", at)
	}
	task := "/tasks/" + made.ID
	s.pvc(t, call{"GET", task, "", 200, `{"state":"PENDING","current":0,"total":1,"status":"Pending job start"}`})
	row := func(args, waiting, start, more string) string {
		return fmt.Sprintf(`{"id":%q,"name":"provisioner.create","type":"provisioner.create","args":%s,"kwargs":{%s},`+
			`"hostname":"pvcworkerd@host1","time_start":%s,"acknowledged":%s,"delivery_info":{},"worker_pid":null}`,
			made.ID, args, more, start, waiting)
	}
	kwargs := `"define_vm":true,"profile_name":"web","run_on":"host1","script_run_args":[],"start_vm":true,"vm_name":"web1"`
	sorted := func(r response) string { // the members of a map come in any order
		var v any
		if err := json.Unmarshal([]byte(r.body), &v); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	same := func(path, want string) {
		t.Helper()
		if got := sorted(s.do(t, "GET", "/api/v1"+path, "")); got != sorted(response{body: want}) {
			t.Errorf("GET %s: %s\nwant %s", path, got, want)
		}
	}
	same("/tasks", `{"scheduled":{},"active":{},"reserved":{"pvcworkerd@host1":[`+row("[]", "false", "null", kwargs)+`]}}`)
	same("/provisioner/status",
		`{"scheduled":{},"active":{},"reserved":{"pvcworkerd@host1":[`+row(`["web1","web"]`, "false", "null", kwargs)+`]}}`)

	job := s.claim(t)
	step := func(st seedbed.Step) {
		t.Helper()
		if err := s.db.Step(t.Context(), job.Ref(), st); err != nil {
			t.Fatal(err)
		}
	}
	s.pvc(t, call{"GET", task, "", 200, `{"state":"RUNNING","current":0,"total":1,"status":"Provisioning new VM 'web1' with profile 'web'"}`})
	step(seedbed.Step{Next: "volumes", Total: 2})
	s.pvc(t, call{"GET", task, "", 200, `{"state":"RUNNING","current":1,"total":2,"status":"Creating volumes"}`})
	step(seedbed.Step{Done: "volumes", Next: "other", Total: 2})
	s.pvc(t,
		call{"GET", "/provisioner/status/" + made.ID, "", 200, `{"state":"RUNNING","current":2,"total":2,"status":"Running stage other"}`})
	if r := s.do(t, "GET", "/api/v1/tasks", ""); !strings.Contains(r.body, `"active":{"pvcworkerd@host1":[{"id":"`+made.ID) {
		t.Errorf("%s", r.body)
	}
	step(seedbed.Step{Done: "other", Total: 2, InstanceState: seedbed.InstanceRunning})
	if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
		t.Fatal(err)
	}
	s.pvc(t, call{"GET", task, "", 200,
		`{"state":"SUCCESS","current":2,"total":2,"status":"VM \"web1\" with profile \"web\" has been provisioned and started successfully"}`})
	if r := s.do(t, "GET", "/api/v1/jobs/"+made.ID, ""); r.status != 200 ||
		!strings.Contains(r.body, `"spec":{"profile":"web","revision":1,"start":true}`) {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "POST", "/api/v1/provisioner/create?name=web1&profile=web", ""); r.status != 400 ||
		!strings.Contains(r.body, `Instance \"web1\" exists already`) {
		t.Errorf("%+v", r)
	}

	if r := s.do(t, "POST", "/api/v1/provisioner/create", `{"name":"web2","profile":"web","start_vm":false}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web2"))
	if err != nil || !i.Held || i.UserData == nil || len(i.UserData) != 0 {
		t.Errorf("%+v, %v", i, err)
	}
	job = s.claim(t)
	step(seedbed.Step{Next: "volumes", Total: 5})
	if err := s.db.Undo(t.Context(), job.Ref(), "no room"); err != nil {
		t.Fatal(err)
	}
	s.pvc(t, call{"GET", "/tasks/" + job.ID.Short(), "", 200,
		`{"state":"RUNNING","current":0,"total":5,"status":"Undoing what was done, because it failed"}`})
	for _, err := range []error{s.db.Undone(t.Context(), job.Ref(), "volumes", ""),
		s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.pvc(t,
		call{"GET", "/tasks/" + job.ID.Short(), "", 200, `{"state":"FAILURE","current":1,"total":1,"status":"ProvisioningError: no room"}`})
	s.pvc(t, call{"GET", "/tasks/01234567", "", 404, msg(`The task "01234567" does not exist.`)})
	s.pvc(t, call{"GET", "/tasks/x%00y", "", 404, `{"message":"The task \"x\u0000y\" does not exist."}`})
	imports := s.do(t, "POST", "/api/v1/images", `{"name":"more","path":"/img.qcow2"}`)
	var receipt struct{ Job string }
	if err := json.Unmarshal([]byte(imports.body), &receipt); err != nil {
		t.Fatal(err)
	}
	job = s.claim(t)
	step(seedbed.Step{Next: "import", Total: 1})
	step(seedbed.Step{Done: "import", Total: 1, Image: &seedbed.ImageInfo{Size: seedbed.GiB}})
	if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
		t.Fatal(err)
	}
	s.pvc(t, call{"GET", "/tasks/" + receipt.Job[:8], "", 200,
		`{"state":"SUCCESS","current":1,"total":1,"status":"The import of \"more\" has ended successfully"}`})
}

// TestPVCTogether checks that only one of many concurrent creates of one name succeeds.
func TestPVCTogether(t *testing.T) {
	t.Parallel()
	s := composable(t)
	for path, want := range map[string]string{
		"/template/network?name=n":       "already exists",
		"/userdata?name=n&data=x":        "already exists",
		"/create?name=same1&profile=web": "same1",
	} {
		const n = 8
		answers := make([]response, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { answers[i] = s.do(t, "POST", "/api/v1/provisioner"+path, "") })
		}
		wg.Wait()
		made := 0
		for _, r := range answers {
			switch {
			case r.status < 300:
				made++
			case r.status != 400 || !strings.Contains(r.body, want):
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if made != 1 {
			t.Errorf("%s: %d made it", path, made)
		}
	}
}
