package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRefused checks that a bad request gets one clear message, and creates nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	long := strings.Repeat("x", 5000)
	profile := func(field, value string) string {
		m := map[string]json.RawMessage{"name": []byte(`"p"`), "image": []byte(`"debian"`), "vcpus": []byte(`1`), "memory": []byte(`"512MiB"`)}
		m[field] = []byte(value)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	keys := func(key string) string { return "[" + quoted(key) + "]" }
	var nested []string
	for i := range 60 {
		nested = append(nested, fmt.Sprintf(`{"direction":"in","protocol":"tcp","ports":"%d","prefix":"2001:db8::/%d"}`, 2*i+1, 60+i))
	}
	tests := []struct {
		name, method, path, body string
		status                   int
		detail                   string
	}{
		{"rules that overlap in too many ways", "POST", "/security-groups", `{"name":"web","rules":[` + strings.Join(nested, ",") + `]}`, 422,
			"needs 1830 parts for them that do not overlap, expected at most 256"},
		{"no such path", "GET", "/nothing", "", 404, "no such path"},
		{"trailing slash", "GET", "/jobs/", "", 404, "no such path"},
		{"other case", "GET", "/Jobs", "", 404, "no such path"},
		{"slash in a name", "GET", "/images/a/b", "", 404, "no such path"},
		{"method", "PUT", "/jobs", "{}", 405, "method"},
		{"method on one", "POST", "/images/debian", "{}", 405, "method"},
		{"unknown image", "GET", "/images/nobody", "", 404, "nobody"},
		{"unknown profile", "GET", "/profiles/nobody", "", 404, "nobody"},
		{"unknown hook", "DELETE", "/hooks/nobody", "", 404, "nobody"},
		{"unknown instance", "GET", "/instances/nobody", "", 404, "nobody"},
		{"unknown console", "GET", "/instances/nobody/console", "", 404, "nobody"},
		{"unknown access", "GET", "/instances/nobody/access", "", 404, "nobody"},
		{"unknown metadata", "GET", "/instances/nobody/metadata", "", 404, "nobody"},
		{"remove unknown", "DELETE", "/instances/nobody", "", 404, "nobody"},
		{"percent in a name", "GET", "/images/%64ebian", "", 422, "%64ebian"},
		{"escaped slash", "GET", "/images/..%2F..%2Fetc", "", 422, "usable"},
		{"NUL in a name", "GET", "/profiles/a%00b", "", 422, "usable"},
		{"upper case host", "GET", "/instances/WEB1", "", 422, "host name"},
		{"huge name", "GET", "/hooks/" + long, "", 422, "usable"},
		{"unknown job", "GET", "/jobs/00000000", "", 404, "0000"},
		{"unknown whole job", "GET", "/jobs/00000000-0000-4000-8000-000000000000", "", 404, "0000"},
		{"short job", "GET", "/jobs/1234567", "", 422, "first 8"},
		{"no hexadecimal job", "GET", "/jobs/zzzzzzzz", "", 422, "first 8"},
		{"wildcard job", "GET", "/jobs/0000000%25", "", 422, "first 8"},
		{"cancel unknown", "POST", "/jobs/00000000/cancel", "", 404, "0000"},
		{"limit 0", "GET", "/jobs?limit=0", "", 422, "limit"},
		{"limit of letters", "GET", "/jobs?limit=many", "", 422, "limit"},
		{"limit too large", "GET", "/deliveries?limit=1001", "", 422, "1000"},
		{"empty limit", "GET", "/jobs?limit=", "", 422, "limit"},
		{"after", "GET", "/jobs/00000000/events?after=-1", "", 422, "after"},
		{"after overflows", "GET", "/jobs/00000000/events?after=99999999999999999999", "", 422, "after"},
		{"wait", "GET", "/jobs/00000000/events?wait=soon", "", 422, "wait"},
		{"negative wait", "GET", "/jobs/00000000/events?wait=-1s", "", 422, "wait"},
		{"tail", "GET", "/instances/web1/console?tail=2MiB", "", 422, "tail"},
		{"negative tail", "GET", "/instances/web1/console?tail=-1", "", 422, "tail"},
		{"metadata path", "GET", "/instances/web1/metadata?path=latest", "", 422, "path"},

		{"no JSON", "POST", "/profiles", "hello", 400, "JSON object"},
		{"array", "POST", "/profiles", "[]", 400, "JSON object"},
		{"null", "POST", "/profiles", "null", 400, "JSON object"},
		{"cut off", "POST", "/profiles", `{"name":"p"`, 400, "byte"},
		{"trailing data", "POST", "/hooks", `{"name":"p"}{}`, 400, "byte"},
		{"unknown member", "POST", "/profiles", profile("vcpu", "1"), 400, "/vcpu"},
		{"other case of a member", "POST", "/hooks", `{"Name":"p"}`, 400, "/Name"},
		{"duplicate member", "POST", "/hooks", `{"name":"a","name":"b"}`, 400, "/name"},
		{"duplicate in params", "POST", "/instances", `{"name":"a","profile":"p","params":{"vcpus":1,"vcpus":2}}`, 400, "/params/vcpus"},
		{"wrong type", "POST", "/profiles", profile("vcpus", `"two"`), 400, "whole number"},
		{"fraction", "POST", "/profiles", profile("vcpus", `1.5`), 400, "whole number"},
		{"overflow", "POST", "/profiles", profile("vcpus", `99999999999999999999`), 400, "whole number"},
		{"memory as a fraction", "POST", "/profiles", profile("memory", `536870912.5`), 422, "is not a size"},
		{"memory as a list", "POST", "/profiles", profile("memory", `[536870912]`), 422, "is not a size"},
		{"no base64", "POST", "/profiles", profile("user_data", `"***"`), 400, "base64"},
		{"action from outside", "POST", "/instances", `{"action":"remove","name":"a","profile":"p"}`, 400, "/action"},
		{"import with more", "POST", "/images", `{"name":"a","path":"/x","url":"http://x"}`, 400, "/url"},
		{"cleanup", "POST", "/cleanup", `{"dry_run":1}`, 400, "true or false"},
		{"too large", "POST", "/hooks", strings.Repeat(" ", 2<<20+1), 413, "2097152"},
		{"too large for two documents", "POST", "/profiles", strings.Repeat(" ", 5<<20), 413, "4893360"},

		{"datasource", "POST", "/profiles", profile("datasource", `"azure"`), 422, "datasource"},
		{"metadata option", "POST", "/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB","metadata":{"http_tokens":"yes"}}`,
			422, "http_tokens"},
		{"unknown metadata option", "POST", "/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB","metadata":{"tokens":"yes"}}`,
			400, "/metadata/tokens"},
		{"tag", "POST", "/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB","tags":{"a/b":"c"}}`, 422, "a/b"},
		{"template", "POST", "/profiles",
			profile("user_data", quoted(base64.StdEncoding.EncodeToString([]byte("## template: seedbed\n${HOME}")))), 422, "line 2, column 1"},
		{"change unknown", "PATCH", "/instances/nobody", `{}`, 404, "nobody"},
		{"change by another name", "PATCH", "/instances/WEB1", `{}`, 422, "host name"},
		{"change what cannot", "PATCH", "/instances/nobody", `{"vcpus":2}`, 400, "/vcpus"},
		{"unknown spot", "PATCH", "/instances/nobody", `{"spot":{"when":1}}`, 400, "/when"},
		{"maintenance of an unknown node", "POST", "/nodes/nobody/maintenance",
			`{"code":"system-reboot","not_before":"2026-01-02T00:00:00Z"}`, 404, "nobody"},
		{"maintenance of an unknown instance", "GET", "/instances/nobody/maintenance", "", 404, "nobody"},
		{"maintenance without a time", "POST", "/nodes/host1/maintenance", `{"code":"system-reboot"}`, 422, "not_before"},
		{"maintenance code", "POST", "/nodes/host1/maintenance", `{"code":"boom","not_before":"2026-01-02T00:00:00Z"}`, 422, "boom"},
		{"complete unknown", "POST", "/maintenance/instance-event-0/complete", "", 404, "instance-event-0"},
		{"network unknown", "PATCH", "/networks/nobody", `{}`, 404, "nobody"},
		{"network identity", "PATCH", "/networks/default", `{"identity":"ip"}`, 422, "tap or mac"},
		{"network allowance", "PATCH", "/networks/default", `{"allow":{"all":true}}`, 400, "/allow/all"},
		{"no certificate", "GET", "/certificates/identity", "", 404, "not signed"},
		{"access kind", "GET", "/instances/nobody/access?kind=x", "", 404, "nobody"},

		{"profile name", "POST", "/profiles", profile("name", `"A/b"`), 422, "profile name"},
		{"NUL in JSON", "POST", "/profiles", profile("name", `"a\u0000b"`), 422, "profile name"},
		{"huge name in JSON", "POST", "/profiles", profile("name", quoted(long)), 422, "5000 bytes"},
		{"no image", "POST", "/profiles", profile("image", `""`), 422, "image name"},
		{"image that is not there", "POST", "/profiles", profile("image", `"nobody"`), 422, "nobody"},
		{"network", "POST", "/profiles", profile("network", `"no net"`), 422, "network name"},
		{"network that is not there", "POST", "/profiles", profile("network", `"nobody"`), 422, "nobody"},
		{"no vcpus", "POST", "/profiles", profile("vcpus", `0`), 422, "vcpus"},
		{"negative vcpus", "POST", "/profiles", profile("vcpus", `-1`), 422, "vcpus"},
		{"many vcpus", "POST", "/profiles", profile("vcpus", `256`), 422, "vcpus"},
		{"size", "POST", "/profiles", profile("memory", `"lots"`), 422, "/memory"},
		{"little memory", "POST", "/profiles", profile("memory", `"1MiB"`), 422, "memory"},
		{"much memory", "POST", "/profiles", profile("memory", `"65TiB"`), 422, "memory"},
		{"small disk", "POST", "/profiles", profile("disk_size", `"1KiB"`), 422, "disk_size"},
		{"odd disk", "POST", "/profiles", profile("disk_size", `"1048577"`), 422, "disk_size"},
		{"ready", "POST", "/profiles", profile("ready", `"soon"`), 422, "ready"},
		{"user-data that cannot report", "POST", "/profiles",
			`{"name":"p","image":"debian","vcpus":1,"memory":"512MiB","ready":"report","user_data":"` +
				base64.StdEncoding.EncodeToString([]byte("what is this")) + `"}`, 422, "user_data"},
		{"large user-data", "POST", "/profiles", profile("user_data", quoted(base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1)))),
			422, "user_data"},
		{"key of two lines", "POST", "/profiles", profile("ssh_keys", keys(sshKey+"\n"+sshKey)), 422, "ssh_keys[0]"},
		{"private key", "POST", "/profiles", profile("ssh_keys", keys("-----BEGIN OPENSSH PRIVATE KEY-----")), 422, "ssh_keys[0]"},
		{"too many keys", "POST", "/profiles", profile("ssh_keys", "["+strings.Repeat(`"x",`, 100)+`"x"]`), 422, "101 keys"},

		{"hook name", "POST", "/hooks", `{"name":""}`, 422, "hook name"},
		{"hook profile", "POST", "/hooks", `{"name":"h","profiles":["a b"]}`, 422, "profile name"},
		{"hook profile that is not there", "POST", "/hooks", `{"name":"h","profiles":["nobody"]}`, 422, "nobody"},
		{"hook profile twice", "POST", "/hooks", `{"name":"h","profiles":["p","p"]}`, 422, "twice"},
		{"hook action", "POST", "/hooks", `{"name":"h","actions":["explode"]}`, 422, "explode"},
		{"hook action twice", "POST", "/hooks", `{"name":"h","actions":["create","create"]}`, 422, "create"},
		{"negative tolerance", "POST", "/hooks", `{"name":"h","tolerance":-1}`, 422, "tolerance"},
		{"endless tolerance", "POST", "/hooks", fmt.Sprintf(`{"name":"h","tolerance":%d}`, int64(25*3600*1e9)), 422, "tolerance"},

		{"image name", "POST", "/images", `{"name":"../x","path":"/x"}`, 422, "image name"},
		{"relative path", "POST", "/images", `{"name":"x","path":"x"}`, 422, "absolute"},
		{"NUL in the path", "POST", "/images", `{"name":"x","path":"/x\u0000"}`, 422, "absolute"},
		{"digest", "POST", "/images", `{"name":"x","path":"/x","sha256":"abc"}`, 422, "sha256"},
		{"pool", "POST", "/images", `{"name":"x","path":"/x","pool":"a b"}`, 422, "pool"},
		{"path and volume", "POST", "/images", `{"name":"x","path":"/x","from":"data"}`, 422, "those of a file"},
		{"generalised file", "POST", "/images", `{"name":"x","path":"/x","generalise":true}`, 422, "only an image of a volume"},
		{"image of what is not", "POST", "/images", `{"name":"x","from":"none"}`, 404, "none"},
		{"plan of both", "POST", "/plan/import", `{"name":"x","path":"/x","from":"data"}`, 422, "those of a file"},
		{"plan of a generalised file", "POST", "/plan/import", `{"name":"x","path":"/x","generalise":true}`, 422, "only an image of a volume"},
		{"image that is there", "POST", "/images", `{"name":"debian","path":"/x"}`, 409, "debian"},

		{"host name", "POST", "/instances", `{"name":"Web_1","profile":"p"}`, 422, "host name"},
		{"no profile", "POST", "/instances", `{"name":"web1"}`, 422, "profile name"},
		{"profile that is not there", "POST", "/instances", `{"name":"web1","profile":"nobody"}`, 422, "nobody"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := s.do(t, test.method, "/api/v1"+test.path, test.body)
			var p struct {
				Status       int
				Title, Kind  string
				Detail, Type string
			}
			if err := json.Unmarshal([]byte(r.body), &p); err != nil {
				t.Fatalf("%d %q: %v", r.status, r.body, err)
			}
			if r.status != test.status || p.Status != r.status || p.Title == "" || p.Kind == "" || !strings.Contains(p.Detail, test.detail) ||
				len(p.Detail) > 600 {
				t.Errorf("%d %s, want %d with %q", r.status, r.body, test.status, test.detail)
			}
			if r.status == 405 && r.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	for _, path := range []string{"/profiles", "/hooks", "/instances"} {
		if r := s.do(t, "GET", "/api/v1"+path, ""); r.body != "[]" {
			t.Errorf("%s were made: %s", path, r.body)
		}
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]struct {
		header []string
		status int
	}{
		"no type":    {[]string{"Content-Type", ""}, 415},
		"form":       {[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"plain text": {[]string{"Content-Type", "text/plain"}, 415},
		"multipart":  {[]string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		"gzip":       {[]string{"Content-Encoding", "gzip"}, 415},
		"charset":    {[]string{"Content-Type", "application/json; charset=utf-8"}, 200},
	} {
		if r := s.do(t, "POST", "/api/v1/cleanup", `{"dry_run":true}`, test.header...); r.status != test.status {
			t.Errorf("%s: %d %s, want %d", name, r.status, r.body, test.status)
		}
	}
}
