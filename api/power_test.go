package api_test

import (
	"encoding/json"
	"testing"

	"seedbed"
)

// TestPower checks the requests of jobs on an existing instance.
func TestPower(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.sharing(t)
	s.stored(t)
	expect := func(method, path, body string, status int, parts ...string) {
		t.Helper()
		s.expect(t, method, path, body, status, parts...)
	}
	last := func() seedbed.Job {
		t.Helper()
		job := s.claim(t)
		if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
			t.Fatal(err)
		}
		return *job
	}
	for _, c := range []struct {
		path, body string
		kind       seedbed.JobKind
		spec       string
	}{
		{"start", ``, seedbed.JobStart, ``},
		{"stop", ``, seedbed.JobStop, `{"was":"running"}`},
		{"stop", `{}`, seedbed.JobStop, `{"was":"running"}`},
		{"stop", `{"force":true}`, seedbed.JobStop, `{"force":true,"was":"running"}`},
		{"reboot", `{"soft":true,"grace":"90s"}`, seedbed.JobReboot, `{"soft":true,"grace":90000000000,"was":"running"}`},
		{"migrate", `{"method":"live"}`, seedbed.JobMigrate, `{"was":"running","from":"host1","to":"hv7","live":true,"home":"host1"}`},
		{"migrate", `{"method":"cold","force":true,"stay":true,"node":"hv7"}`, seedbed.JobMigrate,
			`{"force":true,"was":"running","from":"host1","to":"hv7"}`},
		{"rebuild", `{"force":true}`, seedbed.JobRebuild, `{"force":true,"was":"running","profile":"small","image":"debian","own":true}`},
		{"rebuild", `{"profile":"small","image":"debian","params":{"vcpus":2}}`, seedbed.JobRebuild,
			`{"was":"running","profile":"small","image":"debian"}`},
	} {
		expect("POST", "/instances/web1/"+c.path, c.body, 202, `"state":"queued"`)
		if j := last(); j.Kind != c.kind || !sameJSON(string(j.Spec), c.spec) {
			t.Errorf("%s %s: %s job with %s", c.path, c.body, j.Kind, j.Spec)
		}
	}
	expect("POST", "/instances/web1/stop", `{"grace":"x"}`, 422, "grace")
	expect("POST", "/instances/web1/stop", `{"evil":true}`, 400, "/evil")
	expect("POST", "/instances/web1/rebuild", ``, 415)
	expect("POST", "/instances/web1/rebuild", `{"image":"none"}`, 422, "none")
	expect("POST", "/instances/web2/rebuild", `{}`, 404, "web2")
	expect("POST", "/instances/WEB/reboot", ``, 422)
	expect("POST", "/instances/web1/migrate", ``, 409, "seedbed vm migrate web1")
	expect("POST", "/instances/web1/migrate", `{"method":"warm"}`, 422, "expected live or cold")
	expect("POST", "/instances/web1/migrate", `{"method":"live","dry_run":true}`, 200, `"node":"hv7"`, `"it is there now"`,
		`"stages":["publish","define","migrate","leave"]`)
	expect("POST", "/plan", `{"action":"rebuild","name":"web1"}`, 200, `"image":"debian"`, `"addr":"10.99.0.2"`, `"problems":[]`)
	expect("POST", "/plan", `{"action":"rebuild","name":"web2"}`, 200, `"problems":["instance \"web2\" does not exist"]`)
	expect("POST", "/plan", `{"action":"rebuild","name":"web1","hold":true}`, 422, "hold and protected are only for a create")
	expect("POST", "/plan", `{"action":"stop","name":"web1"}`, 422, "expected create or rebuild")
	expect("POST", "/plan", `{"name":"web2","profile":"small","image":"debian"}`, 200, "are both given: expected only one")
	expect("POST", "/plan", `{"action":"rebuild","name":"web1","ready":"started"}`, 422, "ready is only for a create")
	expect("POST", "/plan", `{"action":"rebuild","name":"web1","network":"default"}`, 422,
		"node, network, nics and security_groups are only for a create")
	expect("POST", "/plan", `{"name":"web2","image":"debian"}`, 200, `"image":"debian"`, `"profile":""`, `"problems":[]`)
	expect("POST", "/instances", `{"name":"web2","image":"debian","profile":"small"}`, 422, "are both given: expected only one")
	expect("POST", "/instances", `{"name":"web2"}`, 422, "profile")
	expect("POST", "/instances", `{"name":"web2","image":"debian","network":"default"}`, 202)
	expect("GET", "/instances/web2", ``, 200, `"image":"debian"`, `"profile":""`)
}

func sameJSON(a, b string) bool {
	var x, y any
	json.Unmarshal([]byte(a), &x)
	json.Unmarshal([]byte(b), &y)
	return marshalled(x) == marshalled(y)
}

func marshalled(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
