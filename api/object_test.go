package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

// TestObjects calls the native routes of templates, user-data and scripts. Each answer is compared
// with the description.
func TestObjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/templates/system", "", 200, `[]`},
		{"POST", "/templates/system",
			`{"name":"small","vcpus":2,"memory":"1GiB","serial":true,"vnc_bind":"192.0.2.1","node_limit":["host1"],"node_selector":"mem"}`, 201,
			`{"name":"small","vcpus":2,"memory":"1GiB","serial":true,"node_limit":["host1"],"node_selector":"mem","id":1,"revision":1,`},
		{"POST", "/templates/system", `{"name":"small","vcpus":2,"memory":"1GiB"}`, 409, `the system template \"small\" already exists`},
		{"POST", "/templates/system", `{"name":"x","vcpus":0,"memory":"1GiB"}`, 422, `vcpus`},
		{"POST", "/templates/system", `{"name":"x","vcpus":1,"memory":"1GiB","migration_max_downtime":-1}`, 422, `migration_max_downtime`},
		{"POST", "/templates/system", `{"name":"x","vcpus":1,"memory":"1GiB","vram":3}`, 400, `vram`},
		{"POST", "/templates/system", `{"name":"large","vcpus":8,"memory":"16GiB","vnc":true,"migration_max_downtime":500,"disk_bus":"scsi"}`,
			201, `"disk_bus":"scsi"`},
		{"GET", "/templates/system", "", 200, `[{"name":"large"`},
		{"GET", "/templates/system?name=sm", "", 200, `[{"name":"small"`},
		{"GET", "/templates/system?limit=1", "", 200, `"name":"large"`},
		{"GET", "/templates/system?limit=1&after=large", "", 200, `[{"name":"small"`},
		{"GET", "/templates/system?after=small", "", 200, `[]`},
		{"GET", "/templates/system?limit=0", "", 422, `limit`},
		{"GET", "/templates/system?name=-", "", 422, `system template`},
		{"GET", "/templates/system/small", "", 200, `"serial":true`},
		{"GET", "/templates/system/none", "", 404, `system template \"none\" does not exist`},
		{"PUT", "/templates/system/small", `{"vcpus":4,"memory":"2GiB"}`, 200, `{"name":"small","vcpus":4,"memory":"2GiB","id":1,"revision":2,`},
		{"PUT", "/templates/system/small", `{"name":"other","vcpus":4,"memory":"2GiB"}`, 422, `keeps its name`},
		{"PUT", "/templates/system/none", `{"vcpus":4,"memory":"2GiB"}`, 404, `does not exist`},

		{"POST", "/templates/network", `{"name":"lan","mac_template":"{prefix}:00:{vmid}0:{netid}0"}`, 201, `"vnis":[]`},
		{"POST", "/templates/network", `{"name":"bad","mac_template":"{prefix}:zz"}`, 422, `"kind":"invalid"`},
		{"POST", "/templates/network/lan/vnis", `{"vni":"default"}`, 200, `"vnis":["default"]`},
		{"POST", "/templates/network/lan/vnis", `{"vni":"default"}`, 409, `already exists`},
		{"POST", "/templates/network/lan/vnis", `{"vni":"default","permit_duplicate":true}`, 200, `"vnis":["default","default"]`},
		{"POST", "/templates/network/lan/vnis", `{"vni":"nowhere"}`, 422, `nowhere`},
		{"POST", "/templates/network/none/vnis", `{"vni":"default"}`, 404, `does not exist`},
		{"DELETE", "/templates/network/lan/vnis/default", "", 200, `"vnis":[]`},
		{"DELETE", "/templates/network/lan/vnis/default", "", 404, `not_found`},
		{"GET", "/templates/network", "", 200, `"mac_template":"{prefix}:00:{vmid}0:{netid}0"`},
		{"DELETE", "/templates/network/lan", "", 204, ``},
		{"GET", "/templates/network/lan", "", 404, `not_found`},

		{"POST", "/templates/storage", `{"name":"root"}`, 201, `"disks":[]`},
		{"POST", "/templates/storage/root/disks", `{"name":"sda","pool":"default","source_volume":"debian"}`, 200,
			`[{"name":"sda","pool":"default","source_volume":"debian"}]`},
		{"POST", "/templates/storage/root/disks",
			`{"name":"sdb","pool":"default","size":"20GiB","filesystem":"ext4","filesystem_args":["-L=x"],"mountpoint":"/srv"}`, 200,
			`{"name":"sdb","pool":"default","size":"20GiB","filesystem":"ext4","filesystem_args":["-L=x"],"mountpoint":"/srv"}`},
		{"POST", "/templates/storage/root/disks", `{"name":"sdc","pool":"other","size":"1GiB"}`, 422, `the pool \"other\" is not present`},
		{"POST", "/templates/storage/root/disks", `{"name":"sdc","pool":"default"}`, 422, `a disk size or a source volume`},
		{"DELETE", "/templates/storage/root/disks/sdb", "", 200, `"disks":[{"name":"sda"`},
		{"DELETE", "/templates/storage/root/disks/sdb", "", 404, `not_found`},
		{"GET", "/templates/storage/root", "", 200, `"source_volume":"debian"`},
		{"DELETE", "/templates/storage/root", "", 204, ``},

		{"POST", "/userdata", `{"name":"cloud","data":"#cloud-config\n"}`, 201, `"data":"#cloud-config\n"`},
		{"POST", "/userdata", `{"data":"#!x"}`, 422, `name`},
		{"POST", "/userdata", `{"name":"x","data":"a\u0000b"}`, 422, `"kind":"invalid"`},
		{"POST", "/userdata", `{"name":"x","data":"` + strings.Repeat("x", 1<<20+1) + `"}`, 422, `at most 1MiB`},
		{"PUT", "/userdata/cloud", `{"data":"#!x"}`, 200, `"data":"#!x"`},
		{"PUT", "/userdata/cloud", `{"name":"other","data":"x"}`, 422, `keeps its name`},
		{"PUT", "/userdata/empty", `{"data":"#!x"}`, 409, `always there`},
		{"GET", "/userdata", "", 200, `[{"name":"cloud"`},
		{"GET", "/userdata/cloud", "", 200, `"revision":2`},
		{"DELETE", "/userdata/cloud", "", 204, ``},

		{"POST", "/scripts", `{"name":"build","text":"print(1)"}`, 201,
			`"options":{"privileged":false,"network":false,"always":false,"if_needed":false}`},
		{"PATCH", "/scripts/build/options", `{"privileged":true}`, 422, `give the digest of the text`},
		{"PATCH", "/scripts/build/options", `{"privileged":true,"sha256":"` + strings.Repeat("0", 64) + `"}`, 409, `does not have that digest`},
		{"GET", "/scripts/build", "", 200, `"privileged":false`},
		{"PATCH", "/scripts/build/options", `{"privileged":true,"sha256":"` + digestOf("print(1)") + `","time":"30m","memory":"1GiB"}`, 200,
			`"options":{"privileged":true,"network":false,"always":false,"if_needed":false,"time":"30m0s","memory":"1GiB"}`},
		{"PATCH", "/scripts/build/options", `{"time":"soon"}`, 422, `time`},
		{"PATCH", "/scripts/build/options", `{"memory":"1KiB"}`, 422, `memory`},
		{"PATCH", "/scripts/none/options", `{"network":true}`, 404, `does not exist`},
		{"PUT", "/scripts/build", `{"text":"print(2)"}`, 200, `"privileged":false`},
		{"GET", "/scripts/build", "", 200, `"text":"print(2)"`},
		{"GET", "/scripts", "", 200, `"name":"empty"`},
		{"DELETE", "/scripts/build", "", 204, ``},
		{"DELETE", "/scripts/build", "", 404, `not_found`},
	} {
		r := s.do(t, tt.method, "/api/v1"+tt.path, tt.body)
		if r.status != tt.status || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s %s %.60s: %d %s; want %d with %q", tt.method, tt.path, tt.body, r.status, r.body, tt.status, tt.want)
		}
	}
	if r := s.do(t, "GET", "/api/v1/templates/system?limit=1",
		""); r.header.Get("Link") != `</api/v1/templates/system?after=large&limit=1>; rel="next"` {
		t.Errorf("Link %q", r.header.Get("Link"))
	}

	// A change of another revision is refused.
	r := s.do(t, "GET", "/api/v1/templates/system/small", "")
	tag := r.header.Get("ETag")
	body := `{"vcpus":1,"memory":"2GiB"}`
	if r := s.do(t, "PUT", "/api/v1/templates/system/small", body, "If-Match", tag); r.status != 200 || r.header.Get("ETag") == tag {
		t.Errorf("%+v", r)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if r := s.do(t, method, "/api/v1/templates/system/small", body, "If-Match", tag); r.status != 412 {
			t.Errorf("%s of another revision: %+v", method, r)
		}
	}
	if r := s.do(t, "PUT", "/api/v1/userdata/empty", `{"data":"#!x"}`, "If-Match", tag); r.status != 412 {
		t.Errorf("%+v", r)
	}

	// The audit log has what was there before, and no content.
	r = s.do(t, "GET", "/api/v1/audit", "")
	if strings.Contains(r.body, "print(") || strings.Contains(r.body, "cloud-config") || !strings.Contains(r.body, `"text":"(8 bytes)"`) ||
		!strings.Contains(r.body, `"before":{"id":1,"memory":"1GiB"`) && !strings.Contains(r.body, `"name":"small"`) {
		t.Errorf("audit: %s", r.body)
	}
}

// TestObjectRoles checks that viewers see templates but no documents, and that only an admin makes a
// script privileged.
func TestObjectRoles(t *testing.T) {
	t.Parallel()
	s := start(t)
	viewer, operator := s.newToken(t, "low", seedbed.RoleViewer), s.newToken(t, "mid", seedbed.RoleOperator)
	if r := s.do(t, "POST", "/api/v1/scripts", `{"name":"build","text":"x"}`, "Authorization", "Bearer "+operator); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	for _, tt := range []struct {
		secret, method, path, body string
		status                     int
	}{
		{viewer, "GET", "/templates/system", "", 200},
		{viewer, "GET", "/ovas", "", 200},
		{viewer, "GET", "/userdata", "", 403},
		{viewer, "GET", "/scripts/build", "", 403},
		{viewer, "POST", "/templates/system", `{"name":"x","vcpus":1,"memory":"1GiB"}`, 403},
		{operator, "GET", "/scripts/build", "", 200},
		{operator, "PATCH", "/scripts/build/options", `{"network":true}`, 200},
		{operator, "PATCH", "/scripts/build/options", `{"privileged":true}`, 403},
		{operator, "PATCH", "/scripts/build/options", `{"privileged":false}`, 200},
	} {
		if r := s.do(t, tt.method, "/api/v1"+tt.path, tt.body, "Authorization", "Bearer "+tt.secret); r.status != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, r.status, r.body, tt.status)
		}
	}
}

// TestNativeOVA checks that an OVA is uploaded and removed by jobs.
func TestNativeOVA(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	file := string(machine().Bytes())
	const octets = "application/octet-stream"
	send := func(query, body string, status int, want string, header ...string) response {
		t.Helper()
		r := s.do(t, "POST", "/api/v1/ovas/"+query, body, header...)
		if r.status != status || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s; want %d with %q", query, r.status, r.body, status, want)
		}
		return r
	}
	send("vm/content", file, 422, "did not find an 'ova'", "Content-Type", octets)
	if r := s.do(t, "POST", "/api/v1/scripts", `{"name":"ova","text":"x"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	send("vm/content?sha256=zz", file, 422, "64 hexadecimal digits", "Content-Type", octets)
	send("vm/content?sha256="+strings.Repeat("0", 64), file, 422, "digest", "Content-Type", octets)
	send("vm/content?pool=-", file, 422, "pool", "Content-Type", octets)
	send("vm/content?node=hv9", file, 404, "hv9", "Content-Type", octets)
	send(strings.Repeat("v", 60)+"/content", file, 422, "expected at most 55", "Content-Type", octets)
	send("vm/content", "text", 422, "the uploaded OVA file is not readable: ", "Content-Type", octets)
	send("vm/content", string(make([]byte, maxUpload+1)), 413, "storage.max_upload", "Content-Type", octets)
	send("vm/content", "", 400, "no body", "Content-Type", octets)
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left of those that were refused", n)
	}

	s.succeeds(t, send("vm/content?pool=default", file, 202, `"state":"queued"`, "Content-Type", octets))
	send("vm/content", file, 409, `the OVA image \"vm\" already exists`, "Content-Type", octets)
	s.expect(t, "GET", "/ovas", "",
		200, `[{"name":"vm","volumes":[{"disk":"sda","pool":"default","image":"ova_vm_sda","file":"a.vmdk","format":"vmdk",`)
	r := s.expect(t, "GET", "/ovas/vm", "", 200, `"id":1,"revision":2`)
	s.expect(t, "GET", "/ovas/none", "", 404, `OVA image \"none\" does not exist`)
	s.expect(t, "GET", "/templates/system/vm", "", 200, `"ova":"vm"`)
	if r := s.do(t, "DELETE", "/api/v1/ovas/vm", "", "If-Match", `"0-0"`); r.status != 412 {
		t.Errorf("%+v", r)
	}
	r = s.do(t, "DELETE", "/api/v1/ovas/vm", "", "If-Match", r.header.Get("ETag"))
	s.succeeds(t, r)
	s.expect(t, "GET", "/ovas", "", 200, `[]`)
	s.expect(t, "DELETE", "/ovas/vm", "", 404, `does not exist`)
	form, kind := form(t, machine().Bytes())
	s.succeeds(t, send("vm/content", form, 202, "", "Content-Type", kind))
}

// TestOVAOfAProject follows an OVA image that a tenant uploads, makes an instance of, publishes and removes, by the
// native API and PVC's.
func TestOVAOfAProject(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	s.expect(t, "POST", "/projects", `{"name":"shop"}`, 201)
	acme, shop := s.by(t, s.newTokenIn(t, "acme", "ci", seedbed.RoleOperator)), s.by(t, s.newTokenIn(t, "shop", "ci", seedbed.RoleOperator))
	file := string(machine().Bytes())
	acme("POST", "/ovas/vm/content", file, 422, "did not find an 'ova'")
	acme("POST", "/scripts", `{"name":"ova","text":"x"}`, 201)
	s.succeeds(t, acme("POST", "/ovas/vm/content", file, 202))
	acme("GET", "/ovas", "", 200, `[{"name":"acme/vm"`, `"image":"acme/ova_vm_sda"`, `"published":{"all":false,"projects":[]}`)
	acme("GET", "/images/ova_vm_sdb", "", 200, `"name":"acme/ova_vm_sdb"`)
	acme("GET", "/templates/system/vm", "", 200, `"ova":"acme/vm"`)
	acme("GET", "/profiles/vm", "", 200, `"name":"acme/vm"`, `"script":"acme/ova"`, `"ova":"acme/vm"`)
	acme("GET", "/provisioner/ova", "", 200, `[{"id":0,"name":"vm"`, `"volume_name":"ova_vm_sda"`)
	acme("POST", "/plan", `{"name":"web1","profile":"vm"}`, 200, `"image":"acme/ova_vm_sda"`, `"problems":[]`,
		"script acme/ova was skipped: the disks are clones of those of the OVA image acme/vm")
	s.expect(t, "GET", "/ovas", "", 200, `[]`)
	s.expect(t, "GET", "/ovas?all_projects=true", "", 200, `"name":"acme/vm"`)
	shop("GET", "/ovas/acme%2Fvm", "", 404, `OVA image \"acme/vm\" does not exist`)
	shop("GET", "/provisioner/ova", "", 404, "No OVAs found.")

	// Another project's profile uses the OVA image with its disks, which need not be published.
	profile := `{"name":"box","ova":"acme/vm","script":"default/empty","vcpus":1,"memory":"1GiB"}`
	shop("POST", "/profiles", profile, 422, `the OVA image \"acme/vm\" for profile \"shop/box\" does not exist`)
	acme("PUT", "/ovas/vm/published", `{"projects":["shop"]}`, 200, `"projects":["shop"]`)
	shop("GET", "/ovas/acme%2Fvm", "", 200, `"name":"acme/vm"`)
	shop("DELETE", "/ovas/acme%2Fvm", "", 403, `OVA image \"acme/vm\" belongs to project acme`)
	shop("POST", "/profiles", profile, 201, `"name":"shop/box"`)
	plan := `{"name":"web1","profile":"box"}`
	shop("POST", "/plan", plan, 200, `"image":"acme/ova_vm_sda"`, `"problems":[]`)
	acme("PUT", "/ovas/vm/published", `{}`, 200)
	shop("POST", "/plan", plan, 200, `OVA image \"acme/vm\"`)

	acme("DELETE", "/profiles/vm", "", 204)
	shop("DELETE", "/profiles/box", "", 204)
	s.succeeds(t, acme("DELETE", "/ovas/vm", "", 202))
	acme("GET", "/images", "", 200, `[]`)
	acme("GET", "/templates/system", "", 200, `[]`)
}

// succeeds waits until the job of a receipt succeeds.
func (s *server) succeeds(t *testing.T, r response) {
	t.Helper()
	var receipt seedbed.Receipt
	if err := json.Unmarshal([]byte(r.body), &receipt); err != nil || r.status != 202 {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	for {
		hint := s.db.Hint()
		job, err := s.db.Job(t.Context(), receipt.Job)
		if err != nil || job.State.Terminal() && job.State != seedbed.JobSucceeded {
			t.Fatalf("%s: %s %v", job.State, job.Error, err)
		}
		if job.State == seedbed.JobSucceeded {
			return
		}
		<-hint
	}
}

// digestOf returns the digest of a text in hexadecimal.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
