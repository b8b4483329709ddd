package api_test

import (
	"strings"
	"testing"

	"seedbed"
)

// TestPVCInAProject uses PVC's provisioner with a token of a project: the project's own objects and those that the
// default project publishes have names without a project, and what is made is the project's.
func TestPVCInAProject(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.publish(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	s.expect(t, "POST", "/projects", `{"name":"shop"}`, 201)
	secret := s.newTokenIn(t, "acme", "ci", seedbed.RoleOperator)
	asked := s.by(t, secret)
	ask := func(method, path, body string, status int, parts ...string) string {
		t.Helper()
		return asked(method, "/provisioner"+path, body, status, parts...).body
	}
	// What is not published does not exist. The empty document and script are published.
	for _, path := range []string{"/template/system", "/template/network/lan", "/template/storage/root/disk", "/profile", "/profile/web"} {
		ask("GET", path, "", 404)
	}
	ask("GET", "/script", "", 200, `[{"id":0,"name":"empty","script":""}]`)
	ask("POST", "/create?name=web1&profile=web", "", 400, `Profile \"web\" is not valid.`)

	// The project makes its own, with the names that others have.
	ask("POST", "/template/system?name=small&vcpus=4&vram=512&serial=True&vnc=False", "", 200, `Added new system template \"small\".`)
	ask("POST", "/template/system?name=a/b&vcpus=4&vram=512&serial=True&vnc=False", "", 400, "is not usable")
	ask("POST", "/template/system?name=b&vcpus=4&vram=512&serial=True&vnc=False&node_limit=host1", "", 403, "cannot choose a node")
	ask("PUT", "/template/system/small?vcpus=3", "", 200, `Modified system template \"small\".`)
	ask("PUT", "/template/system/small?node_limit=host1", "", 403, "cannot choose a node")
	ask("PUT", "/template/system/small?vnc=True&vnc_bind=0.0.0.0", "", 403, "vnc_bind 0.0.0.0 is an address of the hosts")
	ask("POST", "/template/network?name=lan", "", 200)
	ask("POST", "/template/network/lan/net/default", "", 200)
	ask("POST", "/template/storage?name=root", "", 200)
	ask("POST", "/template/storage/root/disk/sda?pool=default&source_volume=debian", "", 200)
	ask("POST", "/script", "name=install&data=def+install()%3A+pass", 200, `Created provisioning script \"install\".`)
	ask("PUT", "/script/install/options?network=true", "", 403, "network of the hosts")
	ask("POST", "/userdata", "name=cloud&data=%23cloud-config%0A", 200)
	ask("POST", "/profile?name=own&profile_type=provisioner&system_template=small&network_template=lan&storage_template=root"+
		"&userdata=cloud&script=install&arg=pw%3D1", "", 200, `Created VM profile \"own\".`)
	ask("GET", "/template/system?limit=^sm", "", 200, `"id":0,"name":"small","vcpu_count":3`)
	ask("GET", "/template/storage/root/disk", "", 200, `"source_volume":"default/debian"`)
	ask("GET", "/profile/own", "", 200, `{"id":0,"name":"own"`, `"system_template":"small"`,
		`"userdata":"cloud"`, `"script":"install"`, `"pw=1"`)
	s.expect(t, "GET", "/templates/system/small", "", 200, `"vcpus":1`)
	s.expect(t, "GET", "/templates/system/acme%2Fsmall", "", 200, `"vcpus":3`)

	// It uses what is published to it, and does not change it.
	s.expect(t, "PUT", "/profiles/web/published", `{"projects":["acme"]}`, 200)
	s.expect(t, "PUT", "/templates/system/small/published", `{"all":true}`, 200)
	got := ask("GET", "/profile", "", 200, `"name":"own"`, `"name":"web"`)
	if strings.Index(got, `"own"`) > strings.Index(got, `"web"`) || strings.Contains(got, "acme") {
		t.Errorf("%s: want short names, sorted", got)
	}
	if all := ask("GET", "/template", "", 200); strings.Count(all, `"name":"small"`) != 1 || !strings.Contains(all, `"vcpu_count":3`) {
		t.Errorf("%s: want the project's own template only", all)
	}
	ask("PUT", "/profile/web?userdata=cloud", "", 403, `profile \"default/web\" belongs to project default`)
	ask("DELETE", "/profile/web", "", 403)
	s.expect(t, "PUT", "/provisioner/template/system/small?node_limit=host1", "", 200)
	ask("POST", "/create?name=web1&profile=web", "", 202)
	asked("POST", "/vm/web1/meta?limit=", "", 403, "cannot choose a node") // nor lift the limit that another project has set
	ask("POST", "/create?name=web2&profile=own", "", 202)
	s.expect(t, "GET", "/instances?profile=acme/own&all_projects=true", "", 200, `"name":"web2"`)
	ask("DELETE", "/template/system/small", "", 400, `Failed to delete entry \"small\"`, `is used by profile \"acme/own\"`)
	ask("DELETE", "/profile/own", "", 200, `Removed VM profile \"own\".`)
	ask("DELETE", "/template/system/small", "", 200)
	ask("GET", "/template/system/small", "", 200, `"vcpu_count":1`)
	s.expect(t, "PUT", "/templates/system/small/published", `{}`, 200)
	ask("GET", "/template/system/small", "", 404, "No system templates found.")
}
