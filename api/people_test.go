package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/api/wire"
	"seedbed/internal/oidctest"
)

// beginSession begins a session of a person in the database.
func (s *server) beginSession(t *testing.T, name string) seedbed.Session {
	t.Helper()
	who := seedbed.Person{Issuer: "https://login.example", Subject: name, Name: name}
	made, err := s.db.BeginSession(t.Context(), who, time.Now().Add(time.Hour), "192.0.2.1", sha256.Sum256([]byte(name)))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestSessionsOfPeople checks who sees and ends which sessions, and what the configuration still says of
// their people.
func TestSessionsOfPeople(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	admin := w.secretOf(t)
	w.provider.SignIn(oidctest.Claims{"sub": "8", "preferred_username": "bert"})
	bert, other := w.secretOf(t), w.secretOf(t)
	w.provider.SignIn(oidctest.Claims{"sub": "7", "preferred_username": "carl", "groups": []string{"dev"}})
	carl := w.secretOf(t)
	project := w.newTokenIn(t, "acme", "acme/boss", seedbed.RoleAdmin)
	for name, test := range map[string]struct {
		secret string
		want   []wire.NewSession
	}{
		"the token of the installation": {token, []wire.NewSession{admin, bert, other, carl}},
		"an admin":                      {admin.Secret, []wire.NewSession{admin, bert, other, carl}},
		"bert":                          {bert.Secret, []wire.NewSession{bert, other}},
		"carl":                          {carl.Secret, []wire.NewSession{carl}},
		"the admin of the project":      {project, nil},
	} {
		r := w.with(t, test.secret, "GET", "/sessions")
		var all []wire.Session
		if err := json.Unmarshal([]byte(r.body), &all); err != nil || len(all) != len(test.want) || strings.Contains(r.body, "sbs_") {
			t.Errorf("%s: %+v, %v, want %d", name, r, err, len(test.want))
		}
		for _, want := range test.want {
			found := slices.IndexFunc(all, func(s wire.Session) bool { return s.ID == want.Session.ID })
			if found < 0 || all[found].Current != (want.Secret == test.secret) {
				t.Errorf("%s: %s is not there, or not as it is: %s", name, want.Session.Name, r.body)
			}
		}
	}
	for _, test := range []struct {
		secret, id string
		status     int
	}{
		{carl.Secret, bert.Session.ID, 404}, {project, bert.Session.ID, 404}, {carl.Secret, "0123456789abcdef", 404}, {carl.Secret, "x", 422},
		{project, "current", 404}, {bert.Secret, other.Session.ID, 204}, {bert.Secret, other.Session.ID, 404},
		{admin.Secret, carl.Session.ID, 204},
	} {
		if r := w.with(t, test.secret, "DELETE", "/sessions/"+test.id); r.status != test.status {
			t.Errorf("the end of %s: %d %s, want %d", test.id, r.status, r.body, test.status)
		}
	}
	for secret, status := range map[string]int{bert.Secret: 200, other.Secret: 401, carl.Secret: 401} {
		if r := w.with(t, secret, "GET", "/instances"); r.status != status {
			t.Errorf("%+v, want %d", r, status)
		}
	}
	// The configuration counts from the next start of seedbedd.
	w.signIn.Grants = []seedbed.PersonGrant{{Group: "ops", Project: "acme", Role: seedbed.RoleViewer}}
	w.again(t)
	if r := w.with(t, bert.Secret, "GET", "/instances"); r.status != 403 || !strings.Contains(r.body, "may do nothing") {
		t.Errorf("a person whose grant was removed: %+v", r)
	}
	for path, status := range map[string]int{"/instances": 200, "/nodes": 403} {
		if r := w.with(t, admin.Secret, "GET", path); r.status != status {
			t.Errorf("a person with another grant: %s: %+v", path, r)
		}
	}
	// Nobody signs in any more.
	w.stop()
	w.serve(t, api.New(w.config()))
	if r := w.with(t, admin.Secret, "GET", "/instances"); r.status != 401 {
		t.Errorf("without a provider: %+v", r)
	}
}

// TestSessionOfInstance checks that what people make belongs to the project, and is on record as theirs.
func TestSessionOfInstance(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	w.importImage(t, "debian")
	w.expect(t, "POST", "/profiles", `{"name":"small","image":"debian","vcpus":1,"memory":"512MiB"}`, 201)
	w.expect(t, "PUT", "/profiles/small/published", `{"all":true}`, 200)
	w.provider.SignIn(oidctest.Claims{"sub": "7", "preferred_username": "carl", "groups": []string{"dev"}})
	carl := w.secretOf(t)
	for range 2 { // the second is the answer to the first
		r := w.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"small"}`, "Authorization", "Bearer "+carl.Secret,
			"Idempotency-Key", "a-key-of-sixteen-bytes-or-more")
		if r.status != 202 {
			t.Fatalf("%+v", r)
		}
	}
	made, err := w.db.InstanceByName(t.Context(), seedbed.Named("acme", "web1"))
	if err != nil || made.Token != "" {
		t.Errorf("%+v, %v", made, err)
	}
	log := w.do(t, "GET", "/api/v1/audit?limit=1", "")
	if !strings.Contains(log.body, `"actor":"`+carl.Session.Actor()+`"`) || !strings.Contains(log.body, `"project":"acme"`) {
		t.Errorf("%s", log.body)
	}
}
