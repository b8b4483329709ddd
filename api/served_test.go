package api_test

import (
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// TestServed changes what a running guest is served, with every route that does so.
func TestServed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	expect := func(method, path, body string, status int, parts ...string) response {
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
		return r
	}
	expect("POST", "/profiles",
		`{"name":"small","image":"debian","vcpus":1,"memory":"512MiB","vendor_data":"IyF4","vendor_data_in_user_data":true,`+
			`"datasource":"nocloud","metadata":{"http_tokens":"required","http_put_response_hop_limit":2},"tags":{"a":"b"}}`, 201,
		`"vendor_data":"IyF4"`, `"vendor_data_in_user_data":true`, `"datasource":"nocloud"`,
		`"metadata":{"http_tokens":"required","http_put_response_hop_limit":2}`, `"tags":{"a":"b"}`)
	expect("POST", "/profiles", `{"name":"bare","image":"debian","vcpus":1,"memory":"512MiB"}`, 201, `"datasource":"ec2"`,
		`"metadata":{}`, `"tags":{}`, `"vendor_data":""`)
	expect("POST", "/instances?force=true",
		`{"name":"web1","profile":"small","params":{"user_data_base64":"AP8=","datasource":"openstack","tags":{"c":"d"},`+
			`"http_tokens":"optional"}}`, 202)
	expect("GET", "/instances/web1", "", 200, `"datasource":"openstack"`, `"tags":{"a":"b","c":"d"}`,
		`"http_tokens":"optional","http_put_response_hop_limit":2`)
	expect("POST", "/instances", `{"name":"web2","profile":"small","params":{"colour":"red"}}`, 422, "colour")

	expect("PATCH", "/instances/web1", `{"metadata":{"http_endpoint":"disabled"}}`, 200, `"http_endpoint":"disabled","http_tokens":"optional"`)
	expect("PATCH", "/instances/web1", `{"tags":{"a":null,"e":"f"}}`, 200, `"tags":{"c":"d","e":"f"}`, `"http_endpoint":"disabled"`)
	expect("PATCH", "/instances/web1", `{"spot":{"action":"stop","time":"2026-01-02T00:00:00Z"}}`,
		200, `"spot":{"action":"stop","time":"2026-01-02T00:00:00Z"}`)
	expect("PATCH", "/instances/web1", `{}`, 200, `"spot":{"action":"stop"`)
	if r := expect("PATCH", "/instances/web1", `{"spot":null}`, 200); strings.Contains(r.body, "spot") {
		t.Errorf("the notice is still there: %s", r.body)
	}
	expect("PATCH", "/instances/web1", `{"metadata":{"instance_id":"uuid"}}`, 409, `"kind":"conflict"`, "repeat its first boot")
	expect("PATCH", "/instances/web1", `{"metadata":{"http_put_response_hop_limit":65}}`, 422, "1 to 64")
	expect("PATCH", "/instances/web1", `{"spot":{"action":"stop"}}`, 422, "has no time")

	event := `{"code":"system-reboot","description":"new kernel","not_before":"2026-01-02T00:00:00Z","not_after":"2026-01-02T01:00:00Z"}`
	for _, of := range []string{"/nodes/host1", "/instances/web1"} {
		var m seedbed.Maintenance
		if err := json.Unmarshal([]byte(expect("POST", of+"/maintenance", event, 201, `"state":"active"`).body), &m); err != nil {
			t.Fatal(err)
		}
		expect("GET", of+"/maintenance", "", 200, m.ID, "new kernel")
		expect("POST", "/maintenance/"+m.ID+"/complete", "", 200, `"state":"completed"`)
		expect("POST", "/maintenance/"+m.ID+"/cancel", "", 409, "completed already")
		expect("POST", of+"/maintenance", `{"code":"system-reboot","not_before":"2026-01-02T00:00:00Z","not_after":"2026-01-01T00:00:00Z"}`,
			422, "ends before")
	}

	expect("GET", "/networks/default", "", 200, `"identity":"tap"`)
	expect("PATCH", "/networks/default", `{"identity":"mac","allow":{"dhcp_server":true}}`, 200, `"identity":"mac"`,
		`"allow":{"dhcp_server":true}`)
	expect("PATCH", "/networks/default", `{"allow":{}}`, 200, `"identity":"mac"`)
	if r := expect("GET", "/networks", "", 200); strings.Contains(r.body, "allow") {
		t.Errorf("the allowance is still there: %s", r.body)
	}

	if err := s.db.SetSite(t.Context(), seedbed.Site{Certificate: []byte("DER")}); err != nil {
		t.Fatal(err)
	}
	r := expect("GET", "/certificates/identity", "", 200)
	if block, _ := pem.Decode([]byte(r.body)); block == nil || string(block.Bytes) != "DER" {
		t.Errorf("certificate %q", r.body)
	}
}

func TestAccessFilter(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	s.do(t, "POST", "/api/v1/profiles", `{"name":"small","image":"debian","vcpus":1,"memory":"512MiB"}`)
	s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"small"}`)
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	var events []seedbed.GuestEvent
	for n, path := range []string{"/latest/meta-data/", "/latest/none", "/openstack", "/latest/user-data"} {
		e := seedbed.GuestEvent{Seq: int64(n + 1), Instance: i.ID, Kind: seedbed.GuestAccess,
			At: at.Add(time.Duration(n) * time.Minute), Method: "GET", Path: path, Status: 200}
		if n == 1 {
			e.Status = 404
		}
		if n == 3 {
			e.Kind = seedbed.GuestUserData
		}
		events = append(events, e)
	}
	if err := s.db.AddGuestEvents(t.Context(), "host1", "s", events); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                                    "4321",
		"?kind=user-data":                     "4",
		"?kind=lease":                         "",
		"?path=/latest/":                      "421",
		"?path=/latest/&limit=2":              "42",
		"?status=404":                         "2",
		"?status=4xx":                         "2",
		"?status=2xx&kind=access":             "31",
		"?since=2026-01-02T00:02:00Z":         "43",
		"?since=2026-01-02T00:02:00Z&limit=1": "4",
	} {
		r := s.do(t, "GET", "/api/v1/instances/web1/access"+query, "")
		var all []seedbed.GuestEvent
		if err := json.Unmarshal([]byte(r.body), &all); err != nil {
			t.Fatalf("%s: %s", query, r.body)
		}
		got := ""
		for _, e := range all {
			got += string(rune('0' + e.Seq))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{
		"?kind=all", "?status=40", "?status=6xx", "?status=xx", "?since=yesterday", "?path=" + strings.Repeat("x", 5000),
	} {
		if r := s.do(t, "GET", "/api/v1/instances/web1/access"+query, ""); r.status != 422 {
			t.Errorf("%.40s: %d %s", query, r.status, r.body)
		}
	}
}
