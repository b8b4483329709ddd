package api_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/client"
)

var nextLink = regexp.MustCompile(`^<([^>]*)>; rel="next"$`)

// follow reads a list page by page, and returns what f returns for each object.
func follow[T any](t *testing.T, s *server, path string, f func(T) string) (pages []string) {
	t.Helper()
	for path != "" {
		r := s.do(t, "GET", path, "")
		var all []T
		if err := json.Unmarshal([]byte(r.body), &all); err != nil || r.status != 200 {
			t.Fatalf("%s: %+v, %v", path, r, err)
		}
		var seen []string
		for _, v := range all {
			seen = append(seen, f(v))
		}
		pages = append(pages, strings.Join(seen, " "))
		path = ""
		if link := r.header.Get("Link"); link != "" {
			m := nextLink.FindStringSubmatch(link)
			if m == nil {
				t.Fatalf("Link: %s", link)
			}
			path = m[1]
		}
	}
	return pages
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := composable(t)
	for n := range 4 {
		s.runVM(t, fmt.Sprintf("web%d", n))
	}
	for _, name := range []string{"db1", "db2"} {
		if r := s.do(t, "POST", "/api/v1/provisioner/create?name="+name+"&profile=web", ""); r.status != 202 {
			t.Fatalf("%+v", r)
		}
	}
	instance := func(i seedbed.Instance) string { return i.Name }
	for query, want := range map[string]string{
		"":                                    "db1 db2 web0 web1 web2 web3",
		"?limit=4":                            "db1 db2 web0 web1|web2 web3",
		"?limit=6":                            "db1 db2 web0 web1 web2 web3",
		"?limit=2&state=running":              "web0 web1|web2 web3",
		"?state=provisioning":                 "db1 db2",
		"?name=web&after=web1":                "web2 web3",
		"?limit=1&name=web&profile=web":       "web0|web1|web2|web3",
		"?profile=other":                      "",
		"?limit=3&state=running&name=web&x=1": "web0 web1 web2|web3",
	} {
		if got := strings.Join(follow(t, s, "/api/v1/instances"+query, instance), "|"); got != want {
			t.Errorf("instances%s: %s, want %s", query, got, want)
		}
	}
	job := func(j seedbed.Job) string { return string(j.Kind) + ":" + j.Subject }
	for query, want := range map[string]string{
		"?limit=3":                   "create:db2 create:db1 create:web3|create:web2 create:web1 create:web0|import:debian",
		"?kind=import":               "import:debian",
		"?state=queued&limit=1":      "create:db2|create:db1",
		"?kind=create&state=queued":  "create:db2 create:db1",
		"?kind=remove&state=running": "",
	} {
		if got := strings.Join(follow(t, s, "/api/v1/jobs"+query, job), "|"); got != want {
			t.Errorf("jobs%s: %s, want %s", query, got, want)
		}
	}
	for _, name := range []string{"web1", "db", "web2"} {
		if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"`+name+`","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
			t.Fatalf("%+v", r)
		}
	}
	for query, want := range map[string]string{
		"": "db web web1 web2", "?name=we&limit=1": "web|web1|web2", "?name=x": "", "?after=web1": "web2",
	} {
		if got := strings.Join(follow(t, s, "/api/v1/profiles"+query, func(p seedbed.Profile) string { return p.Name }), "|"); got != want {
			t.Errorf("profiles%s: %s, want %s", query, got, want)
		}
	}
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	some, err := c.ListInstances(t.Context(),
		seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "web", After: seedbed.InDefault("web0"), Limit: 2})
	if err != nil || len(some) != 2 || some[0].Name != "web1" || some[1].Name != "web2" {
		t.Errorf("%+v, %v", some, err)
	}
	first, err := c.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), Limit: 2})
	if err != nil || len(first) != 2 {
		t.Fatalf("%+v, %v", first, err)
	}
	rest, err := c.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), After: first[1].Cursor()})
	if err != nil || len(rest) != 5 || rest[4].Kind != seedbed.JobImport {
		t.Errorf("%+v, %v", rest, err)
	}
	for path, words := range map[string]string{
		"/instances?limit=0":      "from 1 to 1000",
		"/instances?state=start":  "expected provisioning, running, stopped",
		"/instances?name=Web%25":  "lower-case letters",
		"/instances?after=-":      "lower-case letters",
		"/instances?profile=A/b":  "profile",
		"/profiles?name=%25":      "letters, digits",
		"/profiles?limit=0":       "from 1 to 1000",
		"/jobs?kind=dance":        "expected create, remove",
		"/jobs?state=stopped":     "expected queued, running",
		"/jobs?after=5f0f7e0d":    "the link to the next page",
		"/jobs?limit=1001":        "from 1 to 1000",
		"/jobs?after=1.%00%00%00": "the link to the next page",
	} {
		if r := s.do(t, "GET", "/api/v1"+path, ""); r.status != 422 || !strings.Contains(r.body, words) {
			t.Errorf("%s: %d %s: want 422 with %q", path, r.status, r.body, words)
		}
	}
}
