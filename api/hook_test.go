package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

// TestHookLife covers the life of a hook and of its deliveries. Each answer is compared with the
// description.
func TestHookLife(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	expect := func(method, path, body string, status int, parts ...string) string {
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
		return r.body
	}
	expect("POST", "/profiles", `{"name":"small","image":"debian","vcpus":1,"memory":"512MiB"}`, 201)
	expect("POST", "/hooks", `{"name":"forge","scheme":"github","cidrs":["192.0.2.0/24"],"rate":2.5,"max_body":"64KiB","keep_payload":true,
		"when":"body.go == true","mapping":"{'action': 'create', 'name': body.name, 'profile': 'small'}"}`, 201,
		`"scheme":"github"`, `"cidrs":["192.0.2.0/24"]`, `"rate":2.5`, `"max_body":"64KiB"`, `"secret":"whsec_BwcH"`, `"declared":false`)
	expect("POST", "/hooks", `{"name":"pay","scheme":"stripe","secret":"whsec_0123456789abcdef"}`, 201)
	expect("POST", "/hooks", `{"name":"own","scheme":"generic","form":{"signature_header":"X-Sig","timestamp_header":"X-Time"}}`,
		201, `"signature_header":"X-Sig"`)
	expect("POST", "/hooks", `{"name":"open","scheme":"none"}`, 422, "insecure")
	expect("POST", "/hooks", `{"name":"bad","scheme":"github","when":"body."}`, 422, "when: line 1")
	expect("POST", "/hooks", `{"name":"bad","scheme":"sha1"}`, 422, "sha1")
	expect("PATCH", "/hooks/forge", `{"rate":0,"cidrs":[],"profiles":["small"],"tolerance":60000000000}`,
		200, `"profiles":["small"]`, `"tolerance":60000000000`, `"when":"body.go == true"`)
	expect("PATCH", "/hooks/forge", `{"profiles":["nobody"]}`, 422, "nobody")
	if got := expect("GET", "/hooks/forge", "", 200, `"profiles":["small"]`); strings.Contains(got, "192.0.2") ||
		strings.Contains(got, "BwcH") {
		t.Errorf("hook %s", got)
	}
	expect("PATCH", "/hooks/forge", `{"scheme":"slack"}`, 409, "github")
	expect("PATCH", "/hooks/forge", `{"secret":"another secret of some length"}`, 422, "rotated")
	expect("POST", "/hooks/forge/rotate", `{"secret":"another secret of some length","overlap":3600000000000}`, 200, `"not_after"`)
	expect("POST", "/hooks/forge/rotate", `{"overlap":-1}`, 422, "overlap")
	expect("POST", "/hooks/forge/test", `{"body":"{\"go\":true,\"name\":\"web1\"}"}`, 200, `"matched":true`, `"name":"web1"`, `"problems":[]`)
	expect("POST", "/hooks", `{"name":"nets","actions":["network-add"]}`, 201, `"actions":["network-add"]`)
	expect("POST", "/hooks/nets/test", `{"body":"{\"action\":\"network-add\",\"name\":\"lab\",\"network\":{\"prefix\":\"10.77.0.0/24\"}}"}`,
		200, `"network":{`, `"prefix":"10.77.0.0/24"`)
	expect("POST", "/hooks/forge/test", `{"body":"{}","when":"false"}`, 200, `{"matched":false}`)
	expect("POST", "/hooks/forge/test", `{"body":"{}","mapping":"1 +"}`, 422, "mapping: line 1")
	expect("POST", "/plan", `{"name":"web1","profile":"small"}`, 200, `"vcpus":1`, `"addr":"10.99.0.2"`)
	expect("POST", "/plan", `{"name":"web1","profile":"none"}`, 200, `"problems":["profile`)

	d := seedbed.Delivery{Hook: "forge", ID: "d/1", Decision: seedbed.DecisionIgnored,
		Headers: map[string]string{"content-type": "application/json"}, Payload: []byte(`{"go":true,"name":"web1"}`)}
	if err := s.db.RecordDelivery(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := expect("GET", "/deliveries", "", 200, `"decision":"ignored"`); strings.Contains(got, "payload") {
		t.Errorf("a list with payloads: %s", got)
	}
	expect("GET", "/hooks/forge/deliveries", "", 200, `"id":"d/1"`)
	expect("GET", "/hooks/pay/deliveries", "", 200, `[]`)
	expect("GET", "/hooks/forge/deliveries/d%2F1", "", 200, `"payload":"eyJnbyI6`)
	expect("GET", "/hooks/forge/deliveries/d2", "", 404)
	var again seedbed.Redelivery
	if err := json.Unmarshal([]byte(expect("POST", "/hooks/forge/deliveries/d%2F1/redeliver", "", 202, `"decision":"accepted"`)),
		&again); err != nil {
		t.Fatal(err)
	}
	if job, err := s.db.Job(t.Context(), again.Job); err != nil || job.Subject != "web1" {
		t.Errorf("job %+v, %v", job, err)
	}
	expect("POST", "/instances/web1/stop", "", 409, "in the hands of create job")
	expect("POST", "/instances/web2/start", "", 404)
}
