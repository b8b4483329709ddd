package api_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// TestUserDataIsCheckedWhenSaved checks that user-data which cloud-init could not read is refused by
// every route that saves it, unless it is forced. PVC's routes save it, and warn.
func TestUserDataIsCheckedWhenSaved(t *testing.T) {
	t.Parallel()
	const (
		broken   = "#cloud-config\npackages: [nginx\n"
		headless = "packages: [nginx]\n"
		good     = "#cloud-config\npackages: [nginx]\n"
		template = "## template: seedbed\n#cloud-config\nhostname: ${vm.name}\n"
	)
	s := start(t)
	s.importImage(t, "debian")
	encoded := func(doc string) string { return base64.StdEncoding.EncodeToString([]byte(doc)) }
	profile := func(name, doc string, vcpus int) string {
		return fmt.Sprintf(`{"name":%q,"image":"debian","vcpus":%d,"memory":"512MiB","user_data":%q}`, name, vcpus, encoded(doc))
	}
	create := func(name, doc string) string {
		return fmt.Sprintf(`{"name":%q,"profile":"good","params":{"user_data":%q}}`, name, doc)
	}
	create64 := func(name, document, doc string) string {
		return fmt.Sprintf(`{"name":%q,"profile":"good","params":{"%s_base64":%q}}`, name, document, encoded(doc))
	}
	rebuild := func(doc string) string { return fmt.Sprintf(`{"params":{"user_data":%q}}`, doc) }
	document := func(name, doc string) string { return fmt.Sprintf(`{"name":%q,"data":%q}`, name, doc) }
	const yaml, head = `is not YAML: line 2: did not find expected`, `begins with \"packages: [nginx]\", which cloud-init does not know`
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/userdata", document("d", broken), 422, yaml},
		{"POST", "/userdata", document("d", headless), 422, head},
		{"POST", "/userdata?force=yes", document("d", broken), 422, "expected true or false"},
		{"POST", "/userdata", document("d", good), 201, ""},
		{"POST", "/userdata", document("t", template), 201, ""},
		{"PUT", "/userdata/d", document("d", broken), 422, yaml},
		{"PUT", "/userdata/d?force=true", document("d", broken), 200, ""},
		{"POST", "/profiles", profile("web", broken, 1), 422, "user_data " + yaml},
		{"POST", "/profiles", strings.Replace(profile("web", headless, 1), "user_data", "vendor_data", 1), 422, "vendor_data " + head},
		{"POST", "/profiles", profile("good", good, 1), 201, ""},
		{"PUT", "/profiles/good", profile("good", headless, 1), 422, "user_data " + head},
		{"POST", "/profiles?force=true", profile("web", headless, 1), 201, ""},
		{"PUT", "/profiles/web", profile("web", headless, 2), 200, ""}, // it had that before
		{"POST", "/plan", create("web1", broken), 200, `"user_data ` + yaml},
		{"POST", "/plan?force=true", create("web1", broken), 200, `"problems":[]`},
		{"POST", "/instances", create("web1", broken), 422, yaml},
		{"POST", "/instances", create("web1", headless), 422, head},
		{"POST", "/instances", create("web1", good), 202, ""},
		{"POST", "/instances?force=true", create("web2", headless), 202, ""},
		{"POST", "/plan", create64("web3", "user_data", broken), 200, `"user_data ` + yaml},
		{"POST", "/plan?force=true", create64("web3", "user_data", broken), 200, `"problems":[]`},
		{"POST", "/instances", create64("web3", "user_data", broken), 422, "user_data " + yaml},
		{"POST", "/instances", create64("web3", "vendor_data", headless), 422, "vendor_data " + head},
		{"POST", "/instances", create64("web3", "user_data", "\x00\xff"), 422, "user_data is binary"},
		{"POST", "/instances", `{"name":"web3","profile":"good","params":{"user_data_base64":"cGFja2FnZXM6%"}}`, 422, "is not base64"},
		{"POST", "/instances", create64("web3", "user_data", template), 202, ""},
		{"POST", "/instances?force=true", create64("web4", "user_data", headless), 202, ""},
		{"POST", "/instances/web2/rebuild", `{"params":{"user_data_base64":"` + encoded(broken) + `"}}`, 422, "user_data " + yaml},
		{"POST", "/plan", `{"action":"rebuild","name":"web2",` + rebuild(broken)[1:], 200, `"user_data ` + yaml},
		{"POST", "/instances/web2/rebuild", rebuild(broken), 422, yaml},
		{"POST", "/instances/web2/rebuild", strings.Replace(rebuild(headless), "user_data", "vendor_data", 1), 422, "vendor_data " + head},
		{"POST", "/instances/web2/rebuild?force=true", rebuild(headless), 409, "in the hands of create job"}, // or else accepted
		{"POST", "/provisioner/userdata/p?data=packages%3A", "", 200, `Created userdata document \"p\". Warning: it begins with \"packages:\"`},
		{"PUT", "/provisioner/userdata/p?data=%23%21/bin/sh", "", 200, `"Updated userdata document \"p\"."`},
	} {
		r := s.do(t, tt.method, "/api/v1"+tt.path, tt.body)
		if r.status != tt.status || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s %s %s: %d %s; want %d with %s", tt.method, tt.path, tt.body, r.status, r.body, tt.status, tt.want)
		}
		if r.status == 422 && strings.Contains(tt.want, "nginx") && !strings.Contains(r.body, "--force") {
			t.Errorf("%s %s: %s does not say how to save it still", tt.method, tt.path, r.body)
		}
	}
}
