package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
)

// shared are the routes in a project that show objects which all projects share.
var shared = map[string]bool{"GET /roles/:name": true}

// named is an object of each kind that paths name, by the segment before its name.
type named map[string]string

// path returns the path of a route with the names.
func (n named) path(r api.Route) string {
	parts := strings.Split(r.Path, "/")
	for k, part := range parts {
		if strings.HasPrefix(part, ":") {
			if parts[k] = n[parts[k-1]]; parts[k] == "" {
				parts[k] = n[""]
			}
		}
	}
	return "/api/v1" + strings.Join(parts, "/")
}

// tenants returns the world of secretWorld, and a token of each role of another project.
func tenants(t *testing.T) (s *server, job seedbed.JobID, tokens map[seedbed.Role]string) {
	t.Helper()
	s, job = secretWorld(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	tokens = map[seedbed.Role]string{}
	for _, role := range seedbed.Roles() {
		tokens[role] = s.newTokenIn(t, "acme", "acme-"+string(role), role)
	}
	return s, job, tokens
}

func unescaped(part string) string { return strings.ReplaceAll(part, "%2F", "/") }

// TestForeignObjectsDoNotExist calls each route with a token of each role of one project, on the objects
// of another project and on objects that do not exist. The answers must be the same but for the names.
// What belongs to the installation as a whole is refused whether it exists or not.
func TestForeignObjectsDoNotExist(t *testing.T) {
	t.Parallel()
	s, job, tokens := tenants(t)
	web1, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	missing := seedbed.NewJobID()
	foreign := named{"instances": "web1", "vm": "web1", "jobs": string(job), "tasks": string(job), "status": string(job),
		"projects": "default", "hooks": "ci", "endpoints": "out", "tokens": "robot", "sessions": s.beginSession(t, "anna").ID,
		"images": "default%2Fdebian", "volumes": web1.Volumes[0].Name,
		"backup-targets": "nas", "backups": "nas", "nas": "b1", "backup-schedules": "nightly", "snapshot-schedules": "nightly",
		"networks": "default", "security-groups": "default%2Fweb", "placement-groups": "default%2Fapart", "addresses": "203.0.113.16",
		"ovas": "vm", "ova": "vm", "trash": "default", "default": "t9", "": "web1",
		"profiles": "made", "profile": "made", "system": "small", "network": "lan", "storage": "root", "userdata": "doc",
		"scripts": "scr", "script": "scr", "disks": "sda", "disk": "sda", "vnis": "default", "net": "default"}
	none := named{"instances": "webX", "vm": "webX", "jobs": string(missing), "tasks": string(missing), "status": string(missing),
		"projects": "defaulX", "hooks": "cX", "endpoints": "ouX", "tokens": "roboX", "sessions": "0123456789abcdef",
		"images": "default%2FdebiaX", "volumes": "dataX",
		"backup-targets": "nas", "backups": "nas", "nas": "bX", "backup-schedules": "nightlX", "snapshot-schedules": "nightlX",
		"networks": "defaulX", "security-groups": "default%2FweX", "placement-groups": "default%2FaparX", "addresses": "203.0.113.17",
		"ovas": "vX", "ova": "vX", "trash": "default", "default": "tX", "": "webX",
		"profiles": "madX", "profile": "madX", "system": "smalX", "network": "laX", "storage": "rooX", "userdata": "doX",
		"scripts": "scX", "script": "scX", "disks": "sda", "disk": "sda", "vnis": "default", "net": "default"}
	for k, v := range none {
		none[k] = strings.ReplaceAll(v, "X", "x")
	}
	s.newToken(t, "robot", seedbed.RoleViewer)
	*s.shelf.others = []seedbed.TrashItem{
		{Pool: "default", Node: "hv9", ID: "t9", Name: "v9", State: seedbed.Trashed, Instance: web1.ID, Size: seedbed.GiB}}
	reached := 0
	for _, route := range api.Routes() {
		name := route.Method + " " + route.Path
		names := strings.Contains(route.Path, "/:")
		if shared[name] || route.Action == api.Anyone || route.InProject() && !names {
			continue
		}
		body := changingRoutes[name].body
		if body == "" && route.Method != http.MethodGet {
			body = "{}"
		}
		for role, secret := range tokens {
			there := s.do(t, route.Method, foreign.path(route), body, "Authorization", "Bearer "+secret)
			answer, absent := there.body, strings.Split(none.path(route), "/")
			for k, part := range strings.Split(foreign.path(route), "/") {
				if part != absent[k] {
					word := regexp.MustCompile(`\b` + regexp.QuoteMeta(unescaped(part)) + `\b`)
					answer = word.ReplaceAllString(answer, unescaped(absent[k]))
				}
			}
			if !route.InProject() && there.status != http.StatusForbidden {
				t.Errorf("%s as %s of acme: %d %s, want 403", name, role, there.status, there.body)
			}
			if !names {
				continue
			}
			reached++
			gone := s.do(t, route.Method, none.path(route), body, "Authorization", "Bearer "+secret)
			if answer != gone.body || there.status != gone.status || there.header.Get("ETag") != gone.header.Get("ETag") {
				t.Errorf("%s as %s of acme:\n%d %s for an object of another project\n%d %s for none",
					name, role, there.status, there.body, gone.status, gone.body)
			}
		}
	}
	if reached < 300 {
		t.Errorf("only %d pairs of requests were compared", reached)
	}
	if i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1")); err != nil || i.Revision != web1.Revision {
		t.Errorf("the instance was %+v, is %+v, %v", web1, i, err)
	}
	ours, err := s.db.ListInstances(t.Context(), seedbed.InstanceQuery{Scope: seedbed.InProject("acme")})
	if err != nil || len(ours) != 0 {
		t.Errorf("%d instances were made, %v", len(ours), err)
	}
}

// since matches the time since which an overview counts, and that until which a node's instances have used something.
var since = regexp.MustCompile(`"since":"[^"]+"|("node":"[^"]+"),"at":"[^"]+"`)

// TestListsTellNothingOfOthers reads each list of a project before and after there is something new in
// another project.
func TestListsTellNothingOfOthers(t *testing.T) {
	t.Parallel()
	s, _, tokens := tenants(t)
	// The stream of the project's events is read to those of its job.
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"last","profile":"small"}`, "Seedbed-Project", "acme"); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	read := func() map[string]string {
		all := map[string]string{}
		for _, route := range api.Routes() {
			if route.Method != http.MethodGet || !route.InProject() || strings.Contains(route.Path, "/:") {
				continue
			}
			for role, secret := range tokens {
				status, body := s.call(t, route.Method, "/api/v1"+route.Path, secret)
				all[fmt.Sprintf("%s as %s", route.Path, role)] = fmt.Sprint(status, " ", since.ReplaceAllString(body, "$1"))
			}
		}
		return all
	}
	before := read()
	s.expect(t, "POST", "/instances", `{"name":"web3","profile":"small"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	s.expect(t, "POST", "/projects", `{"name":"other"}`, 201)
	web1, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	*s.shelf.others = []seedbed.TrashItem{
		{Pool: "default", Node: "hv9", ID: "t9", Name: "v9", State: seedbed.Trashed, Instance: web1.ID, Size: seedbed.GiB}}
	if err := s.db.AddGuestEvents(t.Context(), testNode, "spool9", []seedbed.GuestEvent{{Seq: 1, Instance: web1.ID, Kind: seedbed.GuestLease,
		At: time.Now(), MAC: web1.NICs[0].MAC, Addr: web1.NICs[0].Addr, Until: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	s.importImage(t, "draft")
	s.expect(t, "POST", "/profiles", `{"name":"draft","image":"debian","vcpus":1,"memory":"512MiB"}`, 201)
	s.expect(t, "POST", "/templates/system", `{"name":"draft","vcpus":1,"memory":"512MiB"}`, 201)
	s.expect(t, "POST", "/templates/network", `{"name":"draft"}`, 201)
	s.expect(t, "POST", "/templates/storage", `{"name":"draft"}`, 201)
	s.expect(t, "POST", "/userdata", `{"name":"draft","data":"#!x"}`, 201)
	s.expect(t, "POST", "/scripts", `{"name":"draft","text":"x"}`, 201)
	for _, path := range []string{
		"/images", "/profiles", "/templates/system", "/templates/network", "/templates/storage", "/userdata", "/scripts",
	} {
		s.expect(t, "PUT", path+"/draft/published", `{"projects":["other"]}`, 200)
	}
	for name, after := range read() {
		if after != before[name] {
			t.Errorf("%s:\n%s\nand after another project had something new\n%s", name, before[name], after)
		}
	}
	if len(before) < 30 {
		t.Errorf("only %d answers were compared", len(before))
	}
}

// TestNamesOfOthersAreFree checks that the names of another project's instances are free, in requests
// and in plans, and that no plan says anything about that instance.
func TestNamesOfOthersAreFree(t *testing.T) {
	t.Parallel()
	s, _, tokens := tenants(t)
	for _, one := range []struct {
		path string
		want int
	}{{"/plan", 200}, {"/instances", 202}, {"/instances", 409}} {
		r := s.do(t, "POST", "/api/v1"+one.path, `{"name":"web1","profile":"small"}`,
			"Authorization", "Bearer "+tokens[seedbed.RoleOperator])
		if r.status != one.want || one.want == 200 && !strings.Contains(r.body, `"problems":[]`) {
			t.Errorf("POST %s: %d %s, want %d", one.path, r.status, r.body, one.want)
		}
	}
}
