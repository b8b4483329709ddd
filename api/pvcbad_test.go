package api_test

import (
	"net/url"
	"strings"
	"testing"

	"seedbed"
)

// TestPVCBadInput checks that bad input gets 400 or 404 with a message, and changes nothing.
func TestPVCBadInput(t *testing.T) {
	t.Parallel()
	s := composable(t)
	names := []string{"", "a%", "a_%", "../x", "a/b", "a\x00b", "\xff", "a b", "ä", strings.Repeat("a", 10000), "-a", "a\n"}
	for _, name := range names {
		n := url.QueryEscape(name)
		for _, c := range []struct{ path, form string }{
			{"/template/system", "vcpus=1&vram=512&serial=1&vnc=0&name=" + n},
			{"/template/network", "name=" + n}, {"/template/storage", "name=" + n},
			{"/userdata", "data=x&name=" + n}, {"/script", "data=x&name=" + n}, {"/template/network/lan/net", "vni=" + n},
			{"/template/storage/root/disk", "pool=default&disk_size=1&disk_id=" + n},
			{"/template/storage/root/disk", "disk_id=sdz&disk_size=1&pool=" + n},
			{"/profile", "profile_type=provisioner&system_template=small&network_template=lan&storage_template=root&script=empty&name=" + n},
			{"/profile/x", "profile_type=provisioner&network_template=lan&storage_template=root&script=empty&system_template=" + n},
			{"/create", "profile=web&name=" + n}, {"/create", "name=x&profile=" + n},
		} {
			r := s.do(t, "POST", "/api/v1/provisioner"+c.path, c.form, "Content-Type", formType)
			if r.status != 400 || !strings.HasPrefix(r.body, `{"message":`) {
				t.Errorf("%s with the name %.20q: %d %s", c.path, name, r.status, r.body)
			}
		}
		if name == "" || len(name) > 1000 {
			continue
		}
		at := url.PathEscape(name)
		for _, path := range []string{"/template/system/", "/template/network/", "/template/storage/", "/userdata/",
			"/script/", "/profile/", "/template/network/lan/net/", "/template/storage/root/disk/"} {
			if r := s.do(t, "GET", "/api/v1/provisioner"+path+at, ""); r.status != 404 || !strings.HasPrefix(r.body, `{"message":`) {
				t.Errorf("GET %s%.20q: %d %s", path, name, r.status, r.body)
			}
			if r := s.do(t, "DELETE", "/api/v1/provisioner"+path+at, ""); r.status != 400 {
				t.Errorf("DELETE %s%.20q: %d %s", path, name, r.status, r.body)
			}
		}
	}
	for name, form := range map[string]string{
		"vcpus=0": "vram=512", "vcpus=-1": "vram=512", "vcpus=256": "vram=512", "vcpus=99999999999999999999": "vram=512", "vcpus=1.5": "vram=512",
		"vram=0": "vcpus=1", "vram=-5": "vcpus=1", "vram=99999999999999": "vcpus=1", "vram=63": "vcpus=1",
		"migration_max_downtime=-1": "vcpus=1&vram=512",
		"migration_max_downtime=x":  "vcpus=1&vram=512", "migration_max_downtime=9999999999999": "vcpus=1&vram=512",
		"migration_method=cold": "vcpus=1&vram=512", "node_selector=best": "vcpus=1&vram=512",
		"node_limit=a%2Fb": "vcpus=1&vram=512", "vnc_bind=all": "vcpus=1&vram=512&vnc=1",
	} {
		r := s.do(t, "POST", "/api/v1/provisioner/template/system/bad?serial=1&vnc=1", form+"&"+name, "Content-Type", formType)
		if strings.Contains(form, "vnc=1") {
			r = s.do(t, "POST", "/api/v1/provisioner/template/system/bad?serial=1", form+"&"+name, "Content-Type", formType)
		}
		if r.status != 400 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for _, mac := range []string{"x", "{prefix}", "{prefix}:XX:XX:{vmid}{netid}", "{a}", "{", "}",
		"{prefix:9999}", "{vmid!r}", "01:00:00:00:00:0{netid}", strings.Repeat("{vmid}", 1000)} {
		if r := s.do(t, "POST", "/api/v1/provisioner/template/network/bad",
			"mac_template="+url.QueryEscape(mac), "Content-Type", formType); r.status != 400 {
			t.Errorf("%.40s: %d %s", mac, r.status, r.body)
		}
	}
	for name, req := range map[string][3]string{
		"a query that is none":     {"?name=%zz", "", ""},
		"a form that is none":      {"", "name=%zz", formType},
		"a body of no kind":        {"", "name=x", "text/plain"},
		"a JSON list":              {"", `["name"]`, "application/json"},
		"a JSON member twice":      {"", `{"name":"x","name":"y"}`, "application/json"},
		"a JSON object within":     {"", `{"name":{"a":1}}`, "application/json"},
		"a JSON list within":       {"", `{"name":[["a"]]}`, "application/json"},
		"JSON that ends":           {"", `{"name":"x"`, "application/json"},
		"multipart without bounds": {"", "--x\r\n", "multipart/form-data"},
		"multipart that ends":      {"", "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nabc", "multipart/form-data; boundary=x"},
		"a name twice":             {"?name=a", "name=b", formType},
		"too many":                 {"?" + strings.Repeat("a&", 1001), "", ""},
	} {
		r := s.do(t, "POST", "/api/v1/provisioner/template/storage"+req[0], req[1], "Content-Type", req[2])
		if r.status != 400 && r.status != 415 || !strings.HasPrefix(r.body, `{"message":`) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := s.do(t, "POST", "/api/v1/provisioner/userdata/big", "data="+strings.Repeat("x", 1<<20+1), "Content-Type",
		formType); r.status != 400 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.do(t, "POST", "/api/v1/provisioner/userdata/big", "data="+strings.Repeat("x", 6<<20), "Content-Type",
		formType); r.status != 413 || !strings.HasPrefix(r.body, `{"message":"The body`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	r := s.do(t, "GET", "/api/v1/provisioner/template", "")
	if strings.Count(r.body, `"name"`) != 3 || strings.Contains(r.body, "bad") {
		t.Errorf("something was kept: %s", r.body)
	}
	if strings.Contains(s.log.String(), "status=500") {
		t.Error(s.log.String())
	}
}

func TestPVCBodies(t *testing.T) {
	t.Parallel()
	s := composable(t)
	mime := "Content-Type: multipart/mixed; boundary=\"==b==\"\nMIME-Version: 1.0\n\n--==b==\n" +
		"Content-Type: text/cloud-config\n\n#cloud-config\n--==b==--\n"
	form := "--x\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n" + mime +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nzzz\r\n--x--\r\n"
	if r := s.do(t, "POST", "/api/v1/provisioner/userdata/multi", form, "Content-Type", "multipart/form-data; boundary=x"); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	docs, err := s.db.UserDataDocuments(t.Context(), seedbed.ExactName("multi"))
	if err != nil || len(docs) != 1 || docs[0].Data != mime {
		t.Errorf("%+v, %v", docs, err)
	}
	body := `{"vcpus":3,"vram":768,"serial":true,"vnc":false,"node_limit":"host1","node_selector":null,"migration_max_downtime":400}`
	if r := s.do(t, "POST", "/api/v1/provisioner/template/system/json", body); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	s.pvc(t, call{"GET", "/provisioner/template/system/json", "", 200, `[{"id":#,"name":"json","vcpu_count":3,"vram_mb":768,` +
		`"serial":true,"vnc":false,"vnc_bind":null,"node_limit":"host1","node_selector":null,` +
		`"node_autostart":false,"migration_method":null,"ova":null,"migration_max_downtime":400}]`})
	if r := s.do(t, "PUT", "/api/v1/provisioner/profile/web", `{"arg":["a=1","b=x"]}`); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	profiles, err := s.db.ScriptedProfiles(t.Context(), seedbed.ExactName("web"))
	if err != nil || strings.Join(profiles[0].Arguments, " ") != "a=1 b=x" {
		t.Errorf("%+v, %v", profiles, err)
	}
}
