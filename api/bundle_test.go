package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

func TestCatalogue(t *testing.T) {
	t.Parallel()
	s := composable(t)
	if r := s.do(t, "POST", "/api/v1/profiles",
		`{"name":"native","image":"debian","vcpus":1,"memory":"512MiB","params":[{"name":"pw","type":"secret"}]}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	out := s.do(t, "GET", "/api/v1/catalogue", "")
	for _, part := range []string{
		`"name":"small"`, `"vnis":["default"]`, `"source_volume":"debian"`, `"name":"native"`, `"params":[{"name":"pw","type":"secret"}]`,
	} {
		if !strings.Contains(out.body, part) {
			t.Errorf("%s: want %s", out.body, part)
		}
	}
	for _, part := range []string{"revision", "created", `"id"`, `"empty"}`} {
		if strings.Contains(out.body, part) {
			t.Errorf("%s: do not want %s", out.body, part)
		}
	}
	report := func(query, body string) (r seedbed.CatalogueReport) {
		t.Helper()
		a := s.do(t, "POST", "/api/v1/catalogue"+query, body)
		if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.status != 200 {
			t.Fatalf("%+v: %v", a, err)
		}
		return r
	}
	for _, c := range report("", out.body).Changes {
		if c.Action != seedbed.CatalogueKept {
			t.Errorf("its own: %+v", c)
		}
	}
	changed := strings.Replace(out.body, `"vcpus":1`, `"vcpus":3`, 1)
	if r := report("?dry_run=true", changed); r.Applied || r.Changes[0].Action != seedbed.CatalogueChanged {
		t.Errorf("%+v", r)
	}
	if r := report("?keep=true", changed); !r.Applied || r.Changes[0].Action != seedbed.CatalogueKept {
		t.Errorf("%+v", r)
	}
	if r := report("", changed); !r.Applied || r.Changes[0].Action != seedbed.CatalogueChanged {
		t.Errorf("%+v", r)
	}
	// A template in a profile is checked against the objects of the same catalogue.
	if r := report("", `{"profiles":[{"name":"odd","image":"debian","vcpus":1,"memory":"512MiB","network":"default",`+
		`"user_data":"IyMgdGVtcGxhdGU6IHNlZWRiZWQKJHt2bS5ub25lfQo="}]}`); r.Applied || r.Conflicts() != 1 {
		t.Errorf("%+v", r)
	}
	if r := report("", `{"storage_templates":[{"name":"odd","disks":[{"name":"sda","pool":"other","size":"1GiB"}]}]}`); r.Applied ||
		r.Conflicts() != 1 || !strings.Contains(r.Changes[0].Detail, `pool "other"`) {
		t.Errorf("%+v", r)
	}
	log := s.do(t, "GET", "/api/v1/audit?limit=10", "").body
	if !strings.Contains(log, "change system template small") || !strings.Contains(log, `"objects":`) || strings.Contains(log, "user_data") {
		t.Errorf("the audit log has %s", log)
	}
	for body, status := range map[string]int{
		"":                415,
		"[]":              400,
		`{"profilez":[]}`: 400,
		`{"profiles":[{"name":"a","revision":3}]}`: 400,
		`{"userdata":[{"name":"a","name":"b"}]}`:   400,
	} {
		if r := s.do(t, "POST", "/api/v1/catalogue", body); r.status != status {
			t.Errorf("%s: %+v, want %d", body, r, status)
		}
	}
	if r := s.do(t, "POST", "/api/v1/catalogue?keep=maybe", "{}"); r.status != 422 {
		t.Errorf("%+v", r)
	}
	viewer := s.newToken(t, "viewer", seedbed.RoleViewer)
	if r := s.do(t, "GET", "/api/v1/catalogue", "", "Authorization", "Bearer "+viewer); r.status != 403 {
		t.Errorf("a viewer: %+v", r)
	}
}

// TestCatalogueOfAProject has a tenant export and import its catalogue. What is the installation's is refused.
func TestCatalogueOfAProject(t *testing.T) {
	t.Parallel()
	s, _, tokens := tenants(t)
	s.publish(t)
	operator := s.by(t, tokens[seedbed.RoleOperator])
	s.by(t, tokens[seedbed.RoleViewer])("GET", "/catalogue", "", 403)
	if got := operator("GET", "/catalogue", "", 200); strings.Contains(got.body, `"name"`) {
		t.Errorf("%s: want nothing of others", got.body)
	}
	const file = `{"system_templates":[{"name":"small","vcpus":1,"memory":"512MiB"}],"scripts":[{"name":"run","text":"x"}],` +
		`"profiles":[{"name":"web","image":"debian","network":"default","system_template":"small","script":"run"}]}`
	operator("POST", "/catalogue", file, 200, `"applied":true`, `"name":"web","action":"made"`)
	got := operator("GET", "/catalogue", "", 200, `"name":"web"`, `"image":"default/debian"`, `"system_template":"small"`, `"script":"run"`)
	operator("POST", "/catalogue", got.body, 200, `"action":"kept"`)
	s.expect(t, "GET", "/profiles/acme%2Fweb", "", 200, `"system_template":"acme/small"`)
	for _, body := range []string{
		`{"system_templates":[{"name":"a","vcpus":1,"memory":"512MiB","node_limit":["hv1"]}]}`,
		`{"system_templates":[{"name":"a","vcpus":1,"memory":"512MiB","vnc":true,"vnc_bind":"0.0.0.0"}]}`,
		`{"scripts":[{"name":"a","text":"x","options":{"network":true}}]}`,
		`{"scripts":[{"name":"a","text":"x","options":{"privileged":true}}]}`,
	} {
		operator("POST", "/catalogue", body, 403)
	}
	operator("POST", "/catalogue", `{"profiles":[{"name":"a","image":"debian","network":"default","system_template":"default/small"}]}`, 200,
		`"applied":false`, `does not exist`)
}
