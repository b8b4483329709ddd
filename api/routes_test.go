package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// TestLife calls every route once, in the order of a life. Each answer is compared with the
// description.
func TestLife(t *testing.T) {
	t.Parallel()
	s := start(t)
	userData := base64.StdEncoding.EncodeToString([]byte("#cloud-config\n{}\n"))
	expect := func(method, path, body string, status int, parts ...string) response {
		t.Helper()
		r := s.do(t, method, "/api/v1"+path, body)
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
	expect("GET", "/health", "", 200, `{"status":"ok","version":"1.2.3","node":"host1"}`)
	expect("GET", "/openapi.yaml", "", 200, "openapi: 3.1.0")
	expect("GET", "/doctor", "", 200, `[{"name":"store","ok":true},{"name":"port 80","ok":false,"detail":"nginx","hint":"stop it"}]`)
	for _, path := range []string{"/images", "/profiles", "/hooks", "/instances", "/jobs", "/leases", "/deliveries"} {
		if r := expect("GET", path, "", 200); r.body != "[]" {
			t.Errorf("GET %s: %s, want an empty list", path, r.body)
		}
	}
	expect("GET", "/networks", "", 200, `"prefix":"10.99.0.0/24"`, `"dns":[]`)

	s.importImage(t, "debian")
	expect("GET", "/images", "", 200, `"name":"debian"`, `"state":"active"`)
	expect("GET", "/images/debian", "", 200, `"size":"1GiB"`)

	r := expect("POST", "/profiles",
		`{"name":"small","image":"debian","vcpus":1,"memory":"512MiB","ssh_keys":["`+sshKey+`"],"user_data":"`+userData+`"}`, 201,
		`"network":"default"`, `"ready":"metadata"`, `"disk_size":"0"`)
	if got := r.header.Get("Location"); got != "/api/v1/profiles/small" {
		t.Errorf("Location %q", got)
	}
	expect("POST", "/profiles", `{"name":"bare","image":"debian","vcpus":1,`+
		`"memory":"512M","disk_size":"2G","network":"default","ssh_keys":null,"user_data":null,"ready":"report"}`, 201)
	expect("GET", "/profiles", "", 200, "small", "bare")
	expect("GET", "/profiles/small", "", 200, userData, sshKey)
	expect("DELETE", "/profiles/bare", "", 204)
	expect("GET", "/profiles/bare", "", 404, "not_found")

	r = expect("POST", "/hooks", `{"name":"ci","profiles":["small"],"actions":["create","remove"],"tolerance":60000000000}`,
		201, `"secret":"whsec_BwcH"`)
	if got := r.header.Get("Location"); got != "/api/v1/hooks/ci" {
		t.Errorf("Location %q", got)
	}
	expect("POST", "/hooks", `{"name":"any"}`, 201, `"tolerance":300000000000`, `"profiles":[]`)
	for _, path := range []string{"/hooks", "/hooks/ci"} {
		if r := expect("GET", path, "", 200, `"tolerance":60000000000`); strings.Contains(r.body, "BwcH") ||
			strings.Contains(strings.ToLower(r.body), "secret") {
			t.Errorf("GET %s tells the key: %s", path, r.body)
		}
	}
	expect("DELETE", "/hooks/any", "", 204)
	expect("DELETE", "/hooks/any", "", 404)
	expect("DELETE", "/profiles/small", "", 409, "in_use")

	r = expect("POST", "/instances", `{"name":"web1","profile":"small","params":{"vcpus":2}}`, 202, `"state":"queued","duplicate":false`)
	var receipt seedbed.Receipt
	if err := json.Unmarshal([]byte(r.body), &receipt); err != nil {
		t.Fatal(err)
	}
	if got := r.header.Get("Location"); got != "/api/v1/jobs/"+string(receipt.Job) {
		t.Errorf("Location %q", got)
	}
	expect("POST", "/instances", `{"name":"web1","profile":"small"}`, 409, `"kind":"exists"`, `"job":"`+string(receipt.Job)+`"`)
	expect("GET", "/instances", "", 200, `"name":"web1"`, `"vcpus":2`)
	expect("GET", "/instances/web1", "", 200, `"state":"provisioning"`, `"addr":"10.99.0.2"`)
	expect("GET", "/instances/web1/console?tail=14", "", 200) // the console is still empty
	expect("GET", "/instances/web1/trace", "", 200, `"protocol":"udp","port":67,"reaches":`)
	expect("GET", "/instances/web1/trace?to=192.0.2.1&port=443", "", 200, `"to":"192.0.2.1","protocol":"tcp","port":443`)
	expect("GET", "/instances/web1/trace?to=10.99.0.2", "", 200, `"protocol":"icmp"`, "NIC 0 of web1")
	for query, want := range map[string]string{
		"nic=9": "has no NIC 9", "nic=x": "nic", "port=80": "to is missing",
		"to=web2": "is not an address", "to=ff02::1&port=80": "of another host",
		"to=127.0.0.1&port=80": "of another host",
		"to=192.0.2.1&port=0":  "port", "to=192.0.2.1&protocol=udp": "port is missing", "to=192.0.2.1&protocol=sctp": "tcp, udp or icmp",
	} {
		expect("GET", "/instances/web1/trace?"+query, "", 422, want)
	}
	if r := expect("GET", "/instances/web1/console?tail=1KiB", "", 200); r.body != "login: \xff<script>" ||
		r.header.Get("Content-Type") != "text/plain; charset=utf-8" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("console %+v", r)
	}
	expect("GET", "/instances/web1/console?tail=13", "", 503, "worker does not answer")
	expect("GET", "/instances/web1/metadata", "", 200, "web1/latest/meta-data/")
	expect("GET", "/instances/web1/metadata?path=/latest/user-data", "", 200, "web1/latest/user-data")
	expect("GET", "/instances/web1/metadata?path=/nothing", "", 404)
	s.guestDid(t, "web1")
	expect("GET", "/instances/web1/access?limit=10", "", 200, `"kind":"lease"`, `"kind":"report"`, `"fields":{"a":"b"}`)
	expect("GET", "/leases", "", 200, `"addr":"10.99.0.2"`)

	expect("GET", "/jobs?limit=1", "", 200, `"kind":"create"`)
	short := receipt.Job.Short()
	expect("GET", "/jobs/"+string(receipt.Job), "", 200, `"stages":[]`)
	expect("GET", "/jobs/"+short, "", 200, `"subject":"web1"`)
	expect("GET", "/jobs/"+short+"/events", "", 200, `"seq":1`, `"msg":"accepted"`)
	expect("POST", "/instances/web1/stop", "", 409, `"kind":"in_use"`)
	job := s.claim(t)
	if err := s.db.Step(t.Context(), job.Ref(), seedbed.Step{Next: "volumes", Total: 5}); err != nil {
		t.Fatal(err)
	}
	expect("POST", "/jobs/"+short+"/cancel", "", 202, `"cancel":true`)
	s.undo(t, job)
	expect("POST", "/jobs/"+short+"/cancel", "", 409, `"kind":"conflict"`)
	expect("GET", "/jobs/"+short, "", 200, `"state":"rolled_back"`, `"state":"undone"`)

	expect("POST", "/cleanup", `{"dry_run":true}`,
		200, `{"tasks":[{"name":"mappings","action":"drop","subject":"web1","detail":"gone"}],"refused":"","skipped":[]}`)
	expect("POST", "/cleanup", `{}`, 200, `{"tasks":[],"refused":"libvirt does not answer","skipped":[]}`)
	expect("POST", "/cleanup", `{"force":true}`, 200, "mappings")
	if r := expect("POST", "/cleanup", `{"dry_run":true,"force":true}`, 500, `"kind":"internal"`); strings.Contains(r.body, "disk") {
		t.Errorf("an inner error leaks: %s", r.body)
	}
	if !strings.Contains(s.log.String(), "disk I/O error") {
		t.Error("the inner error is not in the log")
	}
}

func (s *server) guestDid(t *testing.T, name string) {
	t.Helper()
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault(name))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	err = s.db.AddGuestEvents(t.Context(), "host1", "spool1", []seedbed.GuestEvent{
		{Seq: 1, Instance: i.ID, Kind: seedbed.GuestLease, At: now, MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr, Until: now.Add(time.Hour)},
		{Seq: 2, Instance: i.ID, Kind: seedbed.GuestAccess, At: now, Method: "GET", Path: "/latest/",
			Status: 200, Bytes: 7, Addr: netip.MustParseAddr("10.99.0.2")},
		{Seq: 3, Instance: i.ID, Kind: seedbed.GuestReport, At: now, Method: "POST", Path: "/report",
			Status: 200, Fields: map[string]string{"a": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// undo ends a cancelled create job as the engine would.
func (s *server) undo(t *testing.T, job *seedbed.Job) {
	t.Helper()
	for _, err := range []error{
		s.db.Undo(t.Context(), job.Ref(), "cancelled"),
		s.db.Undone(t.Context(), job.Ref(), "volumes", ""),
		s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
