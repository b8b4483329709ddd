package api_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
)

// access is what a route answers without a token, to a viewer, to an operator and to an admin, and
// which of the secrets of secretWorld an operator reads there. A viewer reads none.
type access struct {
	none, viewer, operator, admin int
	secrets                       string
}

// secret returns what stands for a secret.
func secret(name string) string { return "hush-" + name + "-hush" }

// document returns a cloud-config with a secret.
func document(name string) []byte { return []byte("#cloud-config\n# " + secret(name) + "\n") }

// secretsIn returns the names of the secrets that are in an answer, as text or in base64.
func secretsIn(body string) string {
	var found []string
	for _, name := range []string{"user-data", "vendor-data", "argument", "document", "script", "url", "password", "report",
		"payload", "line", "traceback", "failure", "output"} {
		if strings.Contains(body, secret(name)) || strings.Contains(body, base64.StdEncoding.EncodeToString(document(name))) {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

// secretWorld returns a server with an object of each kind, with secrets wherever one may be, and the
// job of a script that failed.
func secretWorld(t *testing.T) (*server, seedbed.JobID) {
	t.Helper()
	ctx := t.Context()
	s := composable(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	post := func(path, body string) {
		t.Helper()
		if r := s.do(t, "POST", "/api/v1"+path, body); r.status >= 300 {
			t.Fatalf("POST %s: %d %s", path, r.status, r.body)
		}
	}
	encoded := func(name string) string { return base64.StdEncoding.EncodeToString(document(name)) }
	post("/userdata", fmt.Sprintf(`{"name":"doc","data":%q}`, document("document")))
	post("/scripts", fmt.Sprintf(`{"name":"scr","text":%q}`, "# "+secret("script")+"\n"))
	post("/profiles", fmt.Sprintf(`{"name":"small","image":"debian","vcpus":1,"memory":"512MiB","user_data":%q,"vendor_data":%q}`,
		encoded("user-data"), encoded("vendor-data")))
	post("/profiles", fmt.Sprintf(`{"name":"made","system_template":"small","storage_template":"root","script":"scr","arguments":[%q]}`,
		"pw="+secret("argument")))
	s.expect(t, "PUT", "/profiles/small/published", `{"all":true}`, 200)
	post("/hooks", `{"name":"ci","profiles":["small"],"keep_payload":true}`)
	post("/endpoints", fmt.Sprintf(`{"name":"out","url":%q,"events":["*"]}`, "https://hooks.example/"+secret("url")))
	must(s.db.RecordDelivery(ctx, seedbed.Delivery{Hook: "ci", ID: "d1", Decision: seedbed.DecisionIgnored,
		Payload: document("payload")}))

	post("/instances", `{"name":"web1","profile":"small"}`)
	s.guestDid(t, "web1")
	i, err := s.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	must(err)
	must(s.db.AddGuestEvents(ctx, testNode, "spool1", []seedbed.GuestEvent{
		{Seq: 4, Instance: i.ID, Kind: seedbed.GuestPassword, At: time.Now(), Fields: map[string]string{"password": secret("password")}},
		{Seq: 5, Instance: i.ID, Kind: seedbed.GuestReport, At: time.Now(), Fields: map[string]string{"a": secret("report")}},
	}))
	first := s.claim(t)
	must(s.db.Step(ctx, first.Ref(), seedbed.Step{Next: "volumes", Total: 1}))
	must(s.db.Finish(ctx, first.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))

	post("/instances", `{"name":"web2","profile":"made"}`)
	job := s.claim(t)
	must(s.db.Step(ctx, job.Ref(), seedbed.Step{Next: "install", Total: 1}))
	for _, e := range []seedbed.Event{{Level: "info", Msg: secret("line")}, {Level: "error", Msg: secret("traceback")}} {
		e.Job, e.Stage, e.At = job.ID, "install", time.Now()
		must(s.db.LogEvent(ctx, job.Ref(), e))
	}
	must(s.db.LogOutput(ctx, job.Ref(), "install", []seedbed.OutputLine{{Stream: "stdout", Text: secret("output")}}))
	must(s.db.Undo(ctx, job.Ref(), "stage install: "+secret("failure")))
	must(s.db.Undone(ctx, job.Ref(), "install", ""))
	must(s.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true, // as the engine ends it
		Error: "stage install: " + secret("failure")}))
	s.importImage(t, "last")
	return s, job.ID
}

// exampleOf returns a path of a route. One that is read has what secretWorld made; one that changes
// something has nothing, so that its answer is the same for each role that may call it.
func exampleOf(r api.Route, job seedbed.JobID) string {
	names := map[string]string{"profiles": "small", "hooks": "ci", "endpoints": "out", "instances": "web1", "jobs": string(job),
		"images": "debian", "userdata": "doc", "scripts": "scr",
		"script": "scr", "nodes": testNode, "node": testNode, "networks": "default", "network": "default",
		"deliveries": "d1", "domains": "old", "system": "small", "storage": "root", "profile": "made", "vm": "web1", "tasks": string(job),
		"status": string(job)}
	if strings.Contains(r.Path, "template") {
		names["network"] = "lan"
	}
	parts := strings.Split(r.Path, "/")
	for k, part := range parts {
		if !strings.HasPrefix(part, ":") {
			continue
		}
		parts[k] = "none"
		if r.Method == http.MethodGet && k > 0 && names[parts[k-1]] != "" {
			parts[k] = names[parts[k-1]]
		}
	}
	return "/api/v1" + strings.Join(parts, "/")
}

// TestEveryRouteOfEveryRole calls each route of the tables without a token and with one of each role,
// and compares the statuses with routeAccess. A route without a row fails. No answer to a viewer has a
// secret, and one to an operator has those of its row.
func TestEveryRouteOfEveryRole(t *testing.T) {
	t.Parallel()
	s, job := secretWorld(t)
	tokens := map[seedbed.Role]string{seedbed.RoleAdmin: token}
	for _, role := range []seedbed.Role{seedbed.RoleViewer, seedbed.RoleOperator} {
		tokens[role] = s.newToken(t, string(role), role)
	}
	rows := map[string]bool{}
	for _, route := range api.Routes() {
		name := route.Method + " " + route.Path
		rows[name] = true
		want, listed := routeAccess[name]
		var got access
		for _, one := range []struct {
			role   seedbed.Role
			status *int
		}{{"", &got.none}, {seedbed.RoleViewer, &got.viewer}, {seedbed.RoleOperator, &got.operator}, {seedbed.RoleAdmin, &got.admin}} {
			var body string
			*one.status, body = s.call(t, route.Method, exampleOf(route, job), tokens[one.role])
			found := secretsIn(body)
			if one.role == seedbed.RoleOperator {
				got.secrets = found
			} else if one.role != seedbed.RoleAdmin && found != "" {
				t.Errorf("%s tells the role %q: %s", name, one.role, found)
			}
		}
		if !listed {
			t.Errorf("%s has no row in routeAccess: %q: {%d, %d, %d, %d, %q},",
				name, name, got.none, got.viewer, got.operator, got.admin, got.secrets)
		} else if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	_, stream := s.read(t, "/api/v1/jobs/"+string(job)+"/events", tokens[seedbed.RoleViewer])
	if found := secretsIn(stream); found != "" || !strings.Contains(stream, "event: end") {
		t.Errorf("the stream of a job's events tells a viewer %q: %s", found, stream)
	}
	for name := range routeAccess {
		if !rows[name] {
			t.Errorf("%s is in routeAccess and is not a route", name)
		}
	}
}

// call makes a request without a body, and returns the status and the answer.
func (s *server) call(t *testing.T, method, path, secret string) (int, string) {
	t.Helper()
	if strings.HasSuffix(path, "/api/v1/events") {
		return s.read(t, path, secret)
	}
	sent := ""
	if secret != "" {
		sent = "Bearer " + secret
	}
	r := s.do(t, method, path, "", "Authorization", sent)
	return r.status, r.body
}

// read reads a stream of events from its beginning to its end, or to the events of the job that came
// after all others.
func (s *server) read(t *testing.T, path, secret string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path+"?after=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(res.Body); res.StatusCode == 200 && lines.Scan(); {
		text.WriteString(lines.Text())
		if strings.Contains(lines.Text(), `"subject":"last"`) {
			break
		}
	}
	return res.StatusCode, text.String()
}
