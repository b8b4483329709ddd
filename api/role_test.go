package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
)

// as returns the headers of a request with a token, in a project unless that is empty.
func as(secret, project string) []string {
	return []string{"Authorization", "Bearer " + secret, "Seedbed-Project", project}
}

// grantedToken creates a token with a request's members, and returns its secret.
func (s *server) grantedToken(t *testing.T, body string, header ...string) string {
	t.Helper()
	r := s.do(t, "POST", "/api/v1/tokens", body, header...)
	var made wire.NewToken
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 201 {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	return made.Secret
}

// TestCustomRole checks that a role which was made allows its actions, those of its wildcards included, and
// nothing else, that a change of it counts at once, and that one which a token has stays.
func TestCustomRole(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	s.expect(t, "POST", "/roles", `{"name":"starter","description":"starts","actions":["job.*","instance.read"]}`, 201)
	secret := s.grantedToken(t, `{"name":"ci","role":"starter"}`)
	refused := func(method, path, action string) {
		t.Helper()
		r := s.do(t, method, "/api/v1"+path, "{}", as(secret, "")...)
		want := "token ci has the role starter in project default, which does not have " + action
		if r.status != 403 || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d %s, want %q", method, path, r.status, r.body, want)
		}
	}
	for path, want := range map[string]int{
		"/instances": 200, "/jobs": 200, "/jobs/00000000/output": 404, "/whoami": 200, "/openapi.yaml": 200,
	} {
		if r := s.do(t, "GET", "/api/v1"+path, "", as(secret, "")...); r.status != want {
			t.Errorf("%s: %d %s, want %d", path, r.status, r.body, want)
		}
	}
	refused("POST", "/instances", "instance.create")
	refused("GET", "/images", "image.read")
	refused("GET", "/doctor", "installation.read")
	refused("POST", "/tokens", "token.manage")

	s.expect(t, "DELETE", "/roles/starter", "", 409)
	if r := s.do(t, "DELETE", "/api/v1/roles/starter", ""); !strings.Contains(r.body, "token ci") {
		t.Errorf("the refusal does not name the token: %s", r.body)
	}
	s.expect(t, "PUT", "/roles/starter", `{"actions":["image.read"]}`, 200)
	refused("GET", "/instances", "instance.read")
	if r := s.do(t, "GET", "/api/v1/images", "", as(secret, "")...); r.status != 200 {
		t.Errorf("an action that was added: %d %s", r.status, r.body)
	}
	s.expect(t, "DELETE", "/tokens/ci", "", 204)
	s.expect(t, "DELETE", "/roles/starter", "", 204)

	for body, want := range map[string]int{
		`{"name":"viewer","actions":["image.read"]}`:            409,
		`{"name":"x","actions":[]}`:                             422,
		`{"name":"x","actions":["image.paint"]}`:                422,
		`{"name":"x","actions":["*"]}`:                          422,
		`{"name":"x","actions":["paint.*"]}`:                    422,
		`{"name":"x","actions":["image.read","image.read"]}`:    422,
		`{"name":"../x","actions":["image.read"]}`:              422,
		`{"name":"x","actions":["image.read"],"built_in":true}`: 400,
	} {
		s.expect(t, "POST", "/roles", body, want)
	}
	for _, name := range []string{"viewer", "operator", "admin"} {
		s.expect(t, "PUT", "/roles/"+name, `{"actions":["image.read"]}`, 409)
		s.expect(t, "DELETE", "/roles/"+name, "", 409)
		s.expect(t, "GET", "/roles/"+name, "", 200)
	}
}

// TestSecretsNeedTheirAction checks that what may be secret is left out for a caller without secret.read,
// whatever else it may do.
func TestSecretsNeedTheirAction(t *testing.T) {
	t.Parallel()
	s, _ := secretWorld(t)
	for role, want := range map[string]string{"profile.read": "", "profile.read secret.read": "user-data vendor-data argument"} {
		actions, _ := json.Marshal(strings.Fields(role))
		name := fmt.Sprintf("r%d", len(role))
		s.expect(t, "POST", "/roles", fmt.Sprintf(`{"name":%q,"actions":%s}`, name, actions), 201)
		secret := s.grantedToken(t, fmt.Sprintf(`{"name":%q,"role":%q}`, name, name))
		if got := secretsIn(s.do(t, "GET", "/api/v1/profiles", "", as(secret, "")...).body); got != want {
			t.Errorf("%s reads %q, want %q", role, got, want)
		}
	}
}

// TestOverviewWithoutTheInstallation checks that an overview shows the nodes and the checks only to who may
// see the installation.
func TestOverviewWithoutTheInstallation(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, actions := range map[string]string{"less": `["overview.read"]`, "more": `["overview.read","installation.read"]`} {
		s.expect(t, "POST", "/roles", fmt.Sprintf(`{"name":%q,"actions":%s}`, name, actions), 201)
		secret := s.grantedToken(t, fmt.Sprintf(`{"name":%q,"role":%q}`, name, name))
		r := s.do(t, "GET", "/api/v1/overview", "", as(secret, "")...)
		if r.status != 200 || strings.Contains(r.body, `"nginx"`) != (name == "more") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// TestNoCallerGivesMoreThanItHas checks that a role or a token can only be made by who has all its actions,
// and that only who may give tokens several projects does.
func TestNoCallerGivesMoreThanItHas(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	s.expect(t, "POST", "/projects", `{"name":"beta"}`, 201)
	s.expect(t, "POST", "/roles", `{"name":"keeper","actions":["token.*","instance.read","node.read"]}`, 201)
	s.expect(t, "POST", "/roles", `{"name":"roler","actions":["role.*","instance.read"]}`, 201)
	s.expect(t, "POST", "/roles", `{"name":"looker","actions":["instance.read","node.read"]}`, 201)
	keeper := s.grantedToken(t, `{"name":"keeper","role":"keeper"}`)
	roler := s.grantedToken(t, `{"name":"roler","role":"roler"}`)
	shop := s.newTokenIn(t, "acme", "shop", seedbed.RoleAdmin)
	shopKeeper := s.grantedToken(t, `{"name":"keeper","role":"keeper"}`, "Seedbed-Project", "acme")
	for _, test := range []struct {
		who, path, body string
		want            int
	}{
		{keeper, "/tokens", `{"name":"a","role":"looker"}`, 201},
		{keeper, "/tokens", `{"name":"b","role":"viewer"}`, 403},
		{keeper, "/tokens", `{"name":"b","role":"admin"}`, 403},
		{keeper, "/tokens", `{"name":"b","role":"none"}`, 422},
		{keeper, "/tokens", `{"name":"c","role":"looker","grants":[{"project":"acme","role":"looker"}]}`, 201},
		{keeper, "/tokens", `{"name":"d","role":"looker","grants":[{"project":"acme","role":"operator"}]}`, 403},
		{roler, "/roles", `{"name":"more","actions":["instance.*"]}`, 403},
		{roler, "/roles", `{"name":"same","actions":["instance.read"]}`, 201},
		{shop, "/tokens", `{"name":"e","role":"admin"}`, 201},
		{shop, "/tokens", `{"name":"f","role":"keeper"}`, 201},
		{shop, "/tokens", `{"name":"g","role":"viewer","grants":[{"project":"beta","role":"viewer"}]}`, 403},
		{shop, "/tokens", `{"name":"g","role":"viewer","grants":[{"project":"none","role":"viewer"}]}`, 403},
		{shop, "/roles", `{"name":"mine","actions":["instance.read"]}`, 403},
		{shopKeeper, "/tokens", `{"name":"h","role":"looker"}`, 201},
		{shopKeeper, "/tokens", `{"name":"i","role":"operator"}`, 403},
	} {
		if r := s.do(t, "POST", "/api/v1"+test.path, test.body, as(test.who, "")...); r.status != test.want {
			t.Errorf("%s: %d %s, want %d", test.body, r.status, r.body, test.want)
		}
	}
	s.expect(t, "POST", "/tokens", `{"name":"j","role":"viewer","grants":[{"project":"none","role":"viewer"}]}`, 422)
	s.expect(t, "POST", "/tokens", `{"name":"j","role":"viewer","grants":[{"project":"default","role":"viewer"}]}`, 422)
}

// TestTokensAreChanged changes what tokens may do. Who lacks some of what a token may do changes nothing of it, so
// that nobody makes a token that has expired valid again.
func TestTokensAreChanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	s.expect(t, "POST", "/roles", `{"name":"keeper","actions":["token.*","instance.read"]}`, 201)
	s.expect(t, "POST", "/roles", `{"name":"looker","actions":["instance.read"]}`, 201)
	keeper := s.grantedToken(t, `{"name":"keeper","role":"keeper"}`)
	boss := s.grantedToken(t, `{"name":"boss","role":"admin"}`)
	desk := s.grantedToken(t, `{"name":"desk","role":"looker"}`)
	far := s.grantedToken(t, `{"name":"far","role":"viewer","grants":[{"project":"default","role":"looker"}]}`, "Seedbed-Project", "acme")
	acme := s.newTokenIn(t, "acme", "admin", seedbed.RoleAdmin)
	for _, test := range []struct {
		who, name, body string
		want            int
	}{
		{keeper, "boss", `{"expires":"2099-01-01T00:00:00Z"}`, 403},
		{keeper, "desk", `{"role":"admin"}`, 403},
		{keeper, "desk", `{"role":"looker","expires":"2099-01-01T00:00:00Z"}`, 200},
		{keeper, "desk", `{"grants":[{"project":"acme","role":"looker"}]}`, 200},
		{keeper, "desk", `{"expires":"2001-01-01T00:00:00Z"}`, 422},
		{keeper, "desk", `{}`, 422},
		{keeper, "boss", `{"role":"looker"}`, 200},
		{keeper, "none", `{"role":"looker"}`, 404},
		{boss, "desk", `{"role":"looker"}`, 403}, // it is a looker itself now
		{acme, "acme%2Fadmin", `{"expires":"2099-01-01T00:00:00Z"}`, 200},
		{acme, "acme%2Ffar", `{"role":"operator"}`, 403}, // it acts in another project too
		{acme, "desk", `{"role":"looker"}`, 404},
		{desk, "desk", `{"role":"keeper"}`, 403},
	} {
		if r := s.do(t, "PATCH", "/api/v1/tokens/"+test.name, test.body, as(test.who, "")...); r.status != test.want {
			t.Errorf("%s %s: %d %s, want %d", test.name, test.body, r.status, r.body, test.want)
		}
	}
	if r := s.do(t, "GET", "/api/v1/instances", "", as(desk, "acme")...); r.status != 200 {
		t.Errorf("%d %s: want the new grant to count", r.status, r.body)
	}
	if r := s.do(t, "GET", "/api/v1/whoami", "", as(far, "")...); !strings.Contains(r.body, `"viewer"`) {
		t.Errorf("%s: want its role to be as before", r.body)
	}
}

// TestTokenOfSeveralProjects checks that a token acts in each of its projects with its role there, and in
// no other: one that exists is refused as one that does not.
func TestTokenOfSeveralProjects(t *testing.T) {
	t.Parallel()
	s, _ := secretWorld(t)
	for _, name := range []string{"acme", "beta", "gamma"} {
		s.expect(t, "POST", "/projects", fmt.Sprintf(`{"name":%q}`, name), 201)
	}
	secret := s.grantedToken(t, `{"name":"ci","role":"operator","grants":[{"project":"beta","role":"viewer"}]}`, "Seedbed-Project", "acme")
	create := func(project string) response {
		return s.do(t, "POST", "/api/v1/instances", `{"name":"new","profile":"small"}`, as(secret, project)...)
	}
	if r := create(""); r.status != 202 {
		t.Errorf("in its own project: %d %s", r.status, r.body)
	}
	const lacks = "token acme/ci has the role viewer in project beta, which does not have instance.create"
	if r := create("beta"); r.status != 403 || !strings.Contains(r.body, lacks) {
		t.Errorf("as viewer: %d %s", r.status, r.body)
	}
	for project, want := range map[string]string{"": "acme operator", "acme": "acme operator", "beta": "beta viewer"} {
		r := s.do(t, "GET", "/api/v1/whoami", "", as(secret, project)...)
		var who wire.Whoami
		if err := json.Unmarshal([]byte(r.body), &who); err != nil || who.Project+" "+string(who.Role) != want || len(who.Grants) != 2 ||
			slices.Contains(who.Actions, seedbed.ActionNodeRead) || !slices.Contains(who.Actions, seedbed.ActionJobRead) {
			t.Errorf("in %q: %s %v, want %s", project, r.body, err, want)
		}
	}
	there, gone := create("gamma"), create("delta")
	if there.status != 403 || strings.ReplaceAll(there.body, "gamma", "delta") != gone.body || there.status != gone.status {
		t.Errorf("another project: %+v, one that does not exist: %+v", there, gone)
	}
	// Who does not see the other project does not see that the token acts in it.
	shop := s.newTokenIn(t, "acme", "shop", seedbed.RoleAdmin)
	for _, path := range []string{"/tokens", "/tokens/ci"} {
		if r := s.do(t, "GET", "/api/v1"+path, "", as(shop, "")...); r.status != 200 || strings.Contains(r.body, "beta") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	r := s.do(t, "GET", "/api/v1/tokens/ci", "", "Seedbed-Project", "acme")
	if !strings.Contains(r.body, `"grants":[{"project":"beta","role":"viewer"}]`) {
		t.Errorf("%+v", r)
	}
	// A token of the default project that has a role in another one acts there with that role.
	home := s.grantedToken(t, `{"name":"home","role":"admin","grants":[{"project":"beta","role":"viewer"}]}`)
	if r := s.do(t, "GET", "/api/v1/nodes", "", as(home, "beta")...); r.status != 403 {
		t.Errorf("the nodes as a viewer of beta: %d %s", r.status, r.body)
	}
	if r := s.do(t, "GET", "/api/v1/nodes", "", as(home, "gamma")...); r.status != 200 {
		t.Errorf("the nodes as an admin of the installation: %d %s", r.status, r.body)
	}
	// A role in a project ends with the project.
	s.expect(t, "DELETE", "/projects/beta", "", 204)
	if r := s.do(t, "GET", "/api/v1/jobs", "", as(secret, "beta")...); r.status != 403 {
		t.Errorf("in a project that was removed: %d %s", r.status, r.body)
	}
}

// TestHookWithinItsMaker checks that a hook, or a new key for one, can only be made by who may do what the
// hook may ask for.
func TestHookWithinItsMaker(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.expect(t, "POST", "/roles", `{"name":"receiver","actions":["hook.*","instance.create"]}`, 201)
	secret := s.grantedToken(t, `{"name":"ci","role":"receiver"}`)
	s.expect(t, "POST", "/hooks", `{"name":"strong","actions":["remove"]}`, 201)
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/hooks", `{"name":"a"}`, 201},
		{"POST", "/hooks", `{"name":"b","actions":["create","remove"]}`, 403},
		{"PATCH", "/hooks/a", `{"actions":["stop"]}`, 403},
		{"PATCH", "/hooks/a", `{"tolerance":60000000000}`, 200},
		{"POST", "/hooks/strong/rotate", `{}`, 403},
		{"POST", "/hooks/a/rotate", `{}`, 409}, // the keys of this test are all the same
	} {
		if r := s.do(t, test.method, "/api/v1"+test.path, test.body, as(secret, "")...); r.status != test.want {
			t.Errorf("%s %s %s: %d %s, want %d", test.method, test.path, test.body, r.status, r.body, test.want)
		}
	}
}
