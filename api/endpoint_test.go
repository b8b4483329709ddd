package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestEndpoints covers the life of an endpoint. Each answer is compared with the description.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t)
	expect := func(method, path, body string, status int, parts ...string) response {
		t.Helper()
		r := s.do(t, method, "/api/v1/endpoints"+path, body)
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
	status := atomic.Int64{}
	status.Store(204)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(receiver.Close)

	if r := expect("GET", "", "", 200); r.body != "[]" {
		t.Errorf("GET: %s, want an empty list", r.body)
	}
	r := expect("POST", "", `{"name":"ci","url":"`+receiver.URL+`","events":["job.*"],"allow_private":true}`,
		201, `"secret":"whsec_BwcH"`, `"enabled":true`)
	if got := r.header.Get("Location"); got != "/api/v1/endpoints/ci" {
		t.Errorf("Location %q", got)
	}
	expect("POST", "", `{"name":"ci","url":"https://x.example","events":["*"]}`, 409, "exists")
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	expect("POST", "",
		`{"name":"own","url":"https://x.example","events":["*"],"cloudevents":true,"insecure":false,"secret":"`+secret+`"}`, 201, secret)
	for _, bad := range []string{
		`{"name":"x","url":"http://x.example","events":["*"]}`,
		`{"name":"x","url":"https://u:p@x.example","events":["*"]}`,
		`{"name":"x","url":"https://x.example","events":[]}`,
		`{"name":"x","url":"https://x.example","events":["job"]}`,
		`{"name":"x","url":"https://x.example","events":["*"],"secret":"whsec_AAAA"}`,
		`{"name":"x","url":"https://x.example","events":["*"],"secret":"hunter2"}`,
		`{"name":"../x","url":"https://x.example","events":["*"]}`,
	} {
		if r := expect("POST", "", bad, 422); strings.Contains(r.body, "hunter2") {
			t.Errorf("the secret is told: %s", r.body)
		}
	}
	expect("POST", "", `{"name":"x","url":"https://x.example","events":["*"],"keys":[]}`, 400, "unknown")
	for _, path := range []string{"", "/ci", "/own"} {
		if r := expect("GET", path, "", 200, `"keys":[{"id":`); strings.Contains(r.body, "BwcH") || strings.Contains(r.body, secret) {
			t.Errorf("GET %s tells the key: %s", path, r.body)
		}
	}
	expect("POST", "/ci/rotate", `{"overlap":3600000000000}`, 200, `"expires"`, `"secret":"whsec_BwcH"`)
	expect("POST", "/own/rotate", `{"secret":"`+secret+`"}`, 200, secret)
	expect("POST", "/ci/rotate", `{"overlap":-1}`, 422)

	expect("POST", "/ci/test", "", 200, `"delivered":true,"status":204,"error":""`)
	status.Store(500)
	expect("POST", "/ci/test", "", 200, `"delivered":false,"status":500,"error":"it answered 500`)
	expect("POST", "/none/test", "", 404)

	s.importImage(t, "debian")
	r = expect("GET", "/ci/deliveries?state=pending&limit=10", "", 200, `"type":"job.accepted"`,
		`"type":"job.succeeded"`, `"subject":"debian"`, `"data":{"job":{`)
	var all []seedbed.Outgoing
	if err := json.Unmarshal([]byte(r.body), &all); err != nil || len(all) != 4 {
		t.Fatalf("%d deliveries (%v): %s", len(all), err, r.body)
	}
	expect("GET", "/ci/deliveries?state=lost", "", 422)
	expect("GET", "/none/deliveries", "", 404)
	expect("POST", "/ci/deliveries/"+all[0].ID+"/resend", "", 202, all[0].ID)
	expect("POST", "/ci/deliveries/msg_none/resend", "", 404)
	expect("PATCH", "/ci", `{"enabled":false}`, 200, `"enabled":false`, seedbed.DisabledByOperator)
	expect("PATCH", "/ci", `{}`, 422, "enabled")
	expect("GET", "/ci/deliveries?state=skipped", "", 200, `"state":"skipped"`)
	expect("POST", "/ci/replay", `{"since":"2026-01-01T00:00:00Z"}`, 409)
	expect("PATCH", "/ci", `{"enabled":true}`, 200, `"enabled":true`)
	expect("POST", "/ci/replay", `{"since":"2020-01-01T00:00:00Z","missed_only":true}`, 202, `{"deliveries":4}`)
	expect("POST", "/ci/replay", `{}`, 422, "since")
	expect("DELETE", "/ci", "", 204)
	expect("DELETE", "/ci", "", 404)
}

// TestEndpointClient checks that the server accepts the client's requests.
func TestEndpointClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	receiver := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(receiver.Close)
	made, err := c.AddEndpoint(ctx, wire.EndpointRequest{Name: "ci", URL: receiver.URL, Events: []string{"*"}, AllowPrivate: true})
	must(err)
	if !strings.HasPrefix(made.Secret, "whsec_") || made.Endpoint.Name != "ci" {
		t.Errorf("%+v", made)
	}
	made, err = c.RotateEndpoint(ctx, "ci", wire.EndpointRotation{Overlap: new(time.Duration)})
	must(err)
	if len(made.Endpoint.Keys) != 1 {
		t.Errorf("%+v", made)
	}
	tried, err := c.TestEndpoint(ctx, "ci")
	must(err)
	if tried.Delivered || tried.Status != 404 || tried.Took <= 0 {
		t.Errorf("%+v", tried)
	}
	s.importImage(t, "debian")
	all, err := c.Outgoing(ctx, "ci", seedbed.OutgoingPending, 2)
	must(err)
	if len(all) != 2 || all[0].Seq != 4 {
		t.Fatalf("%+v", all)
	}
	_, err = c.Resend(ctx, "ci", all[0].ID)
	must(err)
	n, err := c.Replay(ctx, "ci", all[0].At.AddDate(-1, 0, 0), true)
	must(err)
	if n != 0 {
		t.Errorf("%d replayed", n)
	}
	e, err := c.SetEndpoint(ctx, "ci", seedbed.EndpointChange{Enabled: new(bool)})
	must(err)
	if e.Enabled {
		t.Errorf("%+v", e)
	}
	list, err := c.Endpoints(ctx)
	must(err)
	if len(list) != 1 {
		t.Errorf("%+v", list)
	}
	_, err = c.Endpoint(ctx, "ci")
	must(err)
	must(c.DeleteEndpoint(ctx, "ci"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := start(t)
	for header, want := range map[string]int{"Bearer " + token: 200, "": 401} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want || (want == 200) != (string(body) == "up 1\n") {
			t.Errorf("%d %s (%v)", res.StatusCode, body, err)
		}
	}
}
