package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"seedbed"
	"seedbed/api/client"

	"github.com/google/go-cmp/cmp"
)

// TestProfileChange checks that a profile with parameters and expressions passes through the API
// unchanged, is replaced as a whole, and that errors in it have their place.
func TestProfileChange(t *testing.T) {
	t.Parallel()
	s := composable(t)
	const declared = `"params":[{"name":"gib","type":"int","default":2},` +
		`{"name":"role","type":"enum","values":["db","web"],"required":true},{"name":"phrase","type":"secret"}]`
	body := func(more string) string {
		return `{"name":"sized","image":"debian","expressions":{"memory":"$(param.gib)GiB"},"vcpus":1,` + declared + more + `}`
	}
	if r := s.do(t, "POST", "/api/v1/profiles", body(`,"userdata":"live","protected":true,"hold":true`)); r.status != 201 ||
		!strings.Contains(r.body, `"default":"2"`) {
		t.Fatalf("%+v", r)
	}
	r := s.do(t, "GET", "/api/v1/profiles/sized", "")
	var p seedbed.Profile
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || len(p.Params) != 3 || p.Expressions["memory"] == "" ||
		p.Follow != seedbed.FollowLive || !p.Protected || !p.Hold {
		t.Fatalf("%s: %v", r.body, err)
	}
	was := r.header.Get("ETag")
	r = s.do(t, "PUT", "/api/v1/profiles/sized", body(`,"userdata":"pinned"`), "If-Match", was)
	if r.status != 200 || r.header.Get("ETag") == was || !strings.Contains(r.body, `"revision":2`) ||
		!strings.Contains(r.body, `"hold":false`) {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "PUT", "/api/v1/profiles/sized", body(``), "If-Match", was); r.status != 412 {
		t.Errorf("%+v", r)
	}
	for name, tt := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"another name":    {"sized", strings.Replace(body(""), `"sized"`, `"other"`, 1), 422, "a profile keeps its name"},
		"no such profile": {"none", strings.Replace(body(""), `"name":"sized",`, "", 1), 404, `profile \"none\" does not exist`},
		"expression":      {"sized", body(`,"expressions":{"memory":"$(param.gb)GiB"}`), 400, "is given twice"},
		"unknown in a field": {"sized", strings.Replace(body(""), "param.gib)", "param.gb)", 1), 422,
			"memory line 1, column 1: $(param.gb) reads param.gb, which is unknown"},
		"unknown template": {
			"sized", body(`,"system_template":"none"`), 422, `the system template \"none\" for profile \"sized\" does not exist`,
		},
		"bad name":          {"sized", body(`,"storage_template":"a/%\u0000b"`), 422, "storage template"},
		"bad way to follow": {"sized", body(`,"userdata":"always"`), 422, "expected live or pinned"},
		"param of no type":  {"sized", strings.Replace(body(""), `"type":"int"`, `"type":"x"`, 1), 422, "param gib: type"},
		"unknown member":    {"sized", strings.Replace(body(""), `"type":"int"`, `"type":"int","colour":1`, 1), 400, "colour"},
		"default of a list": {"sized", strings.Replace(body(""), `"default":2`, `"default":[2]`, 1), 422, "default"},
	} {
		r := s.do(t, "PUT", "/api/v1/profiles/"+tt.path, tt.body)
		if r.status != tt.status || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s: %d %s; want %d with %q", name, r.status, r.body, tt.status, tt.want)
		}
	}
	if r := s.do(t, "GET", "/api/v1/profiles/sized", ""); !strings.Contains(r.body, `"revision":2`) {
		t.Errorf("something was stored: %s", r.body)
	}
	if r := s.do(t, "GET", "/api/v1/profiles", ""); r.status != 200 || !strings.Contains(r.body, `"name":"sized"`) {
		t.Errorf("%+v", r)
	}

	// An instance's secret parameters are in no list, job or audit entry.
	create := `{"name":"web1","profile":"sized","params":{"role":"db","phrase":"correct horse"}}`
	if r := s.do(t, "POST", "/api/v1/instances", create); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	s.do(t, "POST", "/api/v1/instances", strings.Replace(create, "web1", "web1_", 1))
	for _, path := range []string{"/instances/web1", "/jobs", "/audit", "/instances"} {
		if r := s.do(t, "GET", "/api/v1"+path, ""); r.status != 200 || strings.Contains(r.body, "horse") {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if r := s.do(t, "GET", "/api/v1/audit", ""); !strings.Contains(r.body, `"phrase":"(13 bytes)"`) ||
		!strings.Contains(r.body, `"role":"db"`) {
		t.Errorf("%s", r.body)
	}
	if strings.Contains(s.log.String(), "horse") {
		t.Error("the log tells the secret")
	}
}

// TestProtected checks that removing or rebuilding a protected instance requires its name.
func TestProtected(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":2,"memory":"512MiB"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "PATCH", "/api/v1/instances/web1", `{"protected":true,"userdata":"live"}`); r.status != 200 ||
		!strings.Contains(r.body, `"protected":true`) || !strings.Contains(r.body, `"userdata":"live"`) {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "PATCH", "/api/v1/instances/web1", `{"userdata":"x"}`); r.status != 422 {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct {
		method, path, body string
		want               string
	}{
		{"DELETE", "/instances/web1", "", "confirm=web1"},
		{"DELETE", "/instances/web1?confirm=web2", "", `is not its name`},
		{"DELETE", "/instances/web1?confirm=%00", "", `is not its name`},
		{"POST", "/instances/web1/rebuild", `{"profile":"p"}`, "is protected"},
		{"POST", "/instances/web1/rebuild", `{"profile":"p","confirm":"web"}`, "is not its name"},
	} {
		r := s.do(t, tt.method, "/api/v1"+tt.path, tt.body)
		if r.status != http.StatusConflict || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s %s: %+v", tt.method, tt.path, r)
		}
	}
	if r := s.do(t, "DELETE", "/api/v1/instances/web1?confirm=web1", ""); r.status != 202 {
		t.Errorf("%+v", r)
	}
}

// TestTokenQuota checks that concurrent creates with one token never exceed its quota.
func TestTokenQuota(t *testing.T) {
	t.Parallel()
	s := composable(t)
	if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":2,"memory":"512MiB"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	r := s.do(t, "POST", "/api/v1/tokens", `{"name":"ci","role":"operator","quota":{"max_vcpus":5,"max_memory":"8GiB"}}`)
	var made struct {
		Secret string
		Token  seedbed.Token
	}
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 201 || made.Token.Quota.VCPUs != 5 ||
		made.Token.Quota.Memory != 8*seedbed.GiB {
		t.Fatalf("%+v, %v", r, err)
	}
	var mu sync.Mutex
	answers := map[int]int{}
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			r := s.do(t, "POST", "/api/v1/instances", fmt.Sprintf(`{"name":"web%d","profile":"p"}`, n), "Authorization", "Bearer "+made.Secret)
			mu.Lock()
			defer mu.Unlock()
			answers[r.status]++
			if r.status == 403 && !strings.Contains(r.body, `over its quota of vcpus: it has 4, this wants 2 more, and 5 is the most`) {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	if answers[202] != 2 || answers[403] != 10 {
		t.Errorf("answered %v", answers)
	}
	if r := s.do(t, "PUT", "/api/v1/tokens/ci/quota", `{"max_instances":3}`); r.status != 200 ||
		!strings.Contains(r.body, `"max_instances":3`) || strings.Contains(r.body, "max_vcpus") {
		t.Errorf("%+v", r)
	}
	for _, body := range []string{`{"max_instances":-1}`, `{"max_memory":"much"}`, `{"instances":1}`, `[]`} {
		if r := s.do(t, "PUT", "/api/v1/tokens/ci/quota", body); r.status != 400 && r.status != 422 {
			t.Errorf("%s: %+v", body, r)
		}
	}
	if r := s.do(t, "PUT", "/api/v1/tokens/ci/quota", `{}`, "Authorization", "Bearer "+made.Secret); r.status != 403 {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "PUT", "/api/v1/tokens/none/quota", `{}`); r.status != 404 {
		t.Errorf("%+v", r)
	}
}

// TestProfileComesBackWhole checks that a profile that the client reads and sends back stays
// unchanged. This includes on_failure, and the difference between no parameters and any parameters.
func TestProfileComesBackWhole(t *testing.T) {
	t.Parallel()
	s := composable(t)
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"on-failure": `"on_failure":"retry:5:30s"`,
		"no-params":  `"params":[]`,
		"any-params": `"hold":true`,
	} {
		r := s.do(t, "POST", "/api/v1/profiles", `{"name":"`+name+`","image":"debian","vcpus":1,"memory":"1GiB",`+body+`}`)
		if r.status != 201 {
			t.Fatalf("%+v", r)
		}
		was, err := c.Profile(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if (was.Params == nil) != (name != "no-params") || (was.OnFailure == seedbed.OnFailure{}) != (name != "on-failure") {
			t.Errorf("%s: read %+v", name, was)
		}
		is, err := c.ChangeProfile(t.Context(), was)
		if err != nil {
			t.Fatal(err)
		}
		was.Revision, was.Changed = is.Revision, is.Changed
		if diff := cmp.Diff(was, is); diff != "" || is.Revision != 2 {
			t.Errorf("%s: revision %d (-was +is)\n%s", name, is.Revision, diff)
		}
		stored, err := s.db.Profile(t.Context(), name)
		if err != nil || (stored.Params == nil) != (was.Params == nil) || stored.OnFailure != was.OnFailure {
			t.Errorf("%s: stored %+v, error %v", name, stored, err)
		}
	}
	for _, member := range []string{`"revision":2`, `"created":"2026-01-02T15:04:05Z"`, `"changed":"2026-01-02T15:04:05Z"`} {
		r := s.do(t, "POST", "/api/v1/profiles", `{"name":"mine","image":"debian","vcpus":1,"memory":"1GiB",`+member+`}`)
		if r.status != 400 {
			t.Errorf("%s: %+v", member, r)
		}
	}
}

// TestProfileNICs checks that a profile has a list of NICs, in the installation's own network unless they name another, and that the list
// stands alone.
func TestProfileNICs(t *testing.T) {
	t.Parallel()
	s := composable(t)
	body := func(more string) string {
		return `{"name":"p","image":"debian","vcpus":2,"memory":"512MiB",` + more + `}`
	}
	for name, tt := range map[string]struct {
		more   string
		status int
		want   string
	}{
		"MAC address":     {`"nics":[{"mac":"52:54:00:00:00:01"}]`, 422, "NIC 0 has the MAC address 52:54:00:00:00:01, which all instances"},
		"address":         {`"nics":[{},{"addr":"10.9.0.9"}]`, 422, "nics: NIC 1 has the address 10.9.0.9, which all instances would have"},
		"other member":    {`"nics":[{"ip":"10.9.0.9"}]`, 400, "ip"},
		"not a list":      {`"nics":{}`, 400, "nics"},
		"bad name":        {`"nics":[{"network":"a b"}]`, 422, "network name"},
		"no such network": {`"nics":[{"network":"none"}]`, 422, `NIC 0: network \"none\" does not exist`},
		"both":            {`"network":"default","nics":[{}]`, 422, "the network default is given as well"},
		"expression":      {`"expressions":{"network":"${vm.name}"},"nics":[{}]`, 422, "the network ${vm.name} is given as well"},
		"template":        {`"network_template":"lan","nics":[{}]`, 422, "the network template lan is given as well"},
		"too many":        {`"nics":[{}` + strings.Repeat(",{}", 16) + `]`, 422, "there are 17: expected at most 16"},
	} {
		r := s.do(t, "POST", "/api/v1/profiles", body(tt.more))
		if r.status != tt.status || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s: %d %s; want %d with %q", name, r.status, r.body, tt.status, tt.want)
		}
	}
	const nics = `"nics":[{"network":"default","secondary_count":1,"security_groups":["open"]},{"network":"default","bandwidth_in":"10Mbit"}]`
	r := s.do(t, "POST", "/api/v1/profiles", body(strings.ReplaceAll(nics, `"network":"default",`, "")))
	if r.status != 201 || !strings.Contains(r.body, nics) || !strings.Contains(r.body, `"network":""`) {
		t.Fatalf("%+v", r)
	}
	// What a client reads, it can write.
	var p seedbed.Profile
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	p.VCPUs = 3
	p, err = c.ChangeProfile(t.Context(), p)
	if err != nil || p.Revision != 2 || len(p.NICs) != 2 || p.NICs[0].SecondaryCount != 1 || p.NICs[1].BandwidthIn != 10_000_000 {
		t.Errorf("%+v, %v", p, err)
	}
	// Without the list, the profile is in the installation's own network again.
	if r := s.do(t, "PUT", "/api/v1/profiles/p", body(`"nics":[]`)); r.status != 200 || strings.Contains(r.body, `"nics"`) ||
		!strings.Contains(r.body, `"network":"default"`) {
		t.Errorf("%+v", r)
	}
}
