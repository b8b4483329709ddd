package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api"
)

// changeable returns a server with each object that changingRoutes names, and the ID of a job.
func changeable(t *testing.T) (*server, seedbed.JobID) {
	t.Helper()
	s := composable(t)
	post := func(path, body string, header ...string) {
		t.Helper()
		if r := s.do(t, "POST", "/api/v1"+path, body, header...); r.status >= 300 {
			t.Fatalf("POST %s: %d %s", path, r.status, r.body)
		}
	}
	for _, one := range [][2]string{
		{"/nodes", `{"name":"hv9","worker":"https://hv9.example:7375","cordoned":true}`},
		{"/projects", `{"name":"acme"}`}, {"/networks", `{"name":"spare","prefix":"10.88.0.0/24"}`},
		{"/networks", `{"name":"lent","prefix":"10.89.0.0/24","floating":["203.0.113.16-203.0.113.31"],"floating_uplink":"ext0"}`},
		{"/addresses", `{"network":"lent"}`},
		{"/security-groups", `{"name":"web","rules":[{"direction":"in","protocol":"tcp"}]}`},
		{"/placement-groups", `{"name":"apart","policy":"anti-affinity"}`},
		{"/tokens", `{"name":"robot","role":"viewer"}`},
		{"/roles", `{"name":"robots","actions":["instance.read"]}`},
		{"/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`},
		{"/templates/system", `{"name":"s","vcpus":1,"memory":"512MiB"}`},
		{"/templates/network", `{"name":"n"}`}, {"/templates/network/n/vnis", `{"vni":"default"}`},
		{"/templates/storage", `{"name":"d"}`}, {"/templates/storage/d/disks", `{"name":"sda","pool":"default","size":"1GiB"}`},
		{"/userdata", `{"name":"u","data":"#!x"}`}, {"/scripts", `{"name":"x","text":"x"}`}, {"/scripts", `{"name":"ova","text":"x"}`},
		{"/hooks", `{"name":"ci","key_id":"old"}`},
		{"/hooks/ci/rotate", `{"secret":"whsec_CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg="}`},
		{"/endpoints", `{"name":"out","url":"https://hooks.example/x","events":["*"]}`},
		{"/instances", `{"name":"web1","profile":"p","nics":[{},{}]}`},
	} {
		post(one[0], one[1])
	}
	job := s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range i.Volumes {
		if _, err := s.shelf.CloneVolume(t.Context(), job.ID, seedbed.VolumeSpec{Name: v.Name, Instance: i.ID, Size: v.Size}); err != nil {
			t.Fatal(err)
		}
		spec := seedbed.SnapshotSpec{Volume: v.Name, Instance: i.ID, Name: "before"}
		if _, err := s.shelf.CreateSnapshot(t.Context(), job.ID, spec); err != nil {
			t.Fatal(err)
		}
	}
	post("/volumes", `{"name":"data","size":"1GiB"}`)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	s.off(t)
	s.targets(t)
	s.backUp(t, "nas", i, "b1")
	s.backUp(t, "nas", i, "b2")
	s.sharing(t)
	s.importImage(t, "spare")
	if err := s.db.RecordDelivery(t.Context(), seedbed.Delivery{Hook: "ci", ID: "d1", Decision: seedbed.DecisionIgnored}); err != nil {
		t.Fatal(err)
	}
	post("/ovas/vm/content", string(machine().Bytes()), "Content-Type", "application/octet-stream")
	if err := s.perform(t.Context(), s.claim(t)); err != nil {
		t.Fatal(err)
	}
	return s, job.ID
}

// TestEveryChangeIsConditional sends each native request that changes an object with the ETag of
// another version: it is refused and changes nothing. With the ETag of this version, or any, it is not
// refused for that. A route without a row in changingRoutes fails.
func TestEveryChangeIsConditional(t *testing.T) {
	t.Parallel()
	s, job := changeable(t)
	type request struct{ name, method, object, path, body string }
	var all []request
	rows := map[string]bool{}
	for _, route := range api.NativeRoutes() {
		if route.Method == "GET" {
			continue
		}
		name := route.Method + " " + route.Path
		rows[name] = true
		row, listed := changingRoutes[name]
		if !listed || (row.why == "") == (row.object == "") {
			t.Errorf("%s has no row in changingRoutes with either an object or a reason", name)
		} else if row.object != "" {
			object := strings.Replace("/api/v1"+row.object, ":job", string(job), 1)
			all = append(all, request{name, route.Method, object, object + row.path, row.body})
		}
	}
	for name := range changingRoutes {
		if !rows[name] {
			t.Errorf("%s is in changingRoutes and is not a route", name)
		}
	}
	read := func(q request) (string, string) {
		t.Helper()
		r := s.do(t, "GET", q.object, "")
		tag := r.header.Get("ETag")
		if r.status != 200 || tag == "" {
			t.Errorf("%s: GET %s: %d with the ETag %q", q.name, q.object, r.status, tag)
		}
		return tag, r.body
	}
	for _, q := range all {
		tag, was := read(q)
		r := s.do(t, q.method, q.path, q.body, "If-Match", `"0-0"`)
		if r.status != 412 || !strings.Contains(r.body, "read it again") {
			t.Errorf("%s of another version: %d %s, want 412", q.name, r.status, r.body)
		}
		if now, is := read(q); now != tag || is != was {
			t.Errorf("%s of another version: was %s %s, is %s %s", q.name, tag, was, now, is)
		}
	}
	// What deletes an object is last, and of that what deletes a part of one first.
	slices.SortStableFunc(all, func(a, b request) int {
		last := func(q request) int {
			if q.method == "DELETE" && q.path == q.object {
				return 1
			}
			return 0
		}
		return last(a) - last(b)
	})
	for _, q := range all {
		tag, _ := read(q)
		if r := s.do(t, q.method, q.path, q.body, "If-Match", `"x", `+tag); r.status == 412 || r.status >= 400 && r.status != 409 {
			t.Errorf("%s of this version: %d %s", q.name, r.status, r.body)
		}
	}
	for _, q := range all {
		if r := s.do(t, q.method, q.path, q.body, "If-Match", "*"); r.status == 412 {
			t.Errorf("%s of any version: %d %s", q.name, r.status, r.body)
		}
	}
}

// TestTagOfNetwork checks that instances change how many addresses of a network are used, and not its ETag.
func TestTagOfNetwork(t *testing.T) {
	t.Parallel()
	s := composable(t)
	read := func() (tag string, use seedbed.AddressCount) {
		a := s.do(t, "GET", "/api/v1/networks/default", "")
		var n seedbed.Network
		if err := json.Unmarshal([]byte(a.body), &n); err != nil || n.Addresses == nil {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		return a.header.Get("ETag"), *n.Addresses
	}
	before, was := read()
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","image":"debian"}`); r.status >= 300 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	after, is := read()
	if before != after || is.Used != was.Used+1 || is.Free != was.Free-1 {
		t.Errorf("ETag %s, then %s; addresses %+v, then %+v", before, after, was, is)
	}
}

// oneObject matches the paths of single objects.
var oneObject = regexp.MustCompile(`/:\w+$`)

// TestEveryObjectHasAnETag checks that the answer to each native route that shows one object has an
// ETag, which is the same if the object is read again.
func TestEveryObjectHasAnETag(t *testing.T) {
	t.Parallel()
	s, job := changeable(t)
	names := map[string]string{"networks": "default", "security-groups": "web", "placement-groups": "apart", "addresses": "203.0.113.16",
		"nodes": "hv9", "tokens": "robot", "roles": "robots", "projects": "acme",
		"images": "spare", "volumes": "data",
		"backup-targets": "nas", "nas": "b1", "backups": "nas", "backup-schedules": "nightly", "snapshot-schedules": "nightly",
		"profiles": "p", "system": "s",
		"network": "n", "storage": "d", "userdata": "u", "scripts": "x", "ovas": "vm", "hooks": "ci", "endpoints": "out",
		"instances": "web1", "domains": "old", "jobs": string(job), "deliveries": "d1", "sessions": s.beginSession(t, "anna").ID}
	for _, route := range api.NativeRoutes() {
		if route.Method != "GET" || !oneObject.MatchString(route.Path) || strings.HasSuffix(route.Path, "/:process") {
			continue // a program that runs in a guest is nothing that a request changes
		}
		parts := strings.Split(route.Path, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, ":") {
				parts[i] = names[parts[i-1]]
			}
		}
		path := "/api/v1" + strings.Join(parts, "/")
		first, second := s.do(t, "GET", path, ""), s.do(t, "GET", path, "")
		tag := first.header.Get("ETag")
		if first.status != 200 || tag == "" || tag != second.header.Get("ETag") {
			t.Errorf("%s: %d %s, ETag %q, then %q", path, first.status, first.body, tag, second.header.Get("ETag"))
		}
	}
}
