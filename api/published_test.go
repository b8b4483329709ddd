package api_test

import (
	"net/http"
	"strings"
	"testing"

	"seedbed"
)

// publish publishes the image and the network of the tests to all projects.
func (s *server) publish(t *testing.T) {
	t.Helper()
	s.expect(t, "PUT", "/images/debian/published", `{"all":true}`, 200)
	s.expect(t, "PUT", "/networks/default/published", `{"all":true}`, 200)
}

// importIn makes an active image of a project.
func (s *server) importIn(t *testing.T, project, name string) {
	t.Helper()
	if r := s.do(t, "POST", "/api/v1/images", `{"name":"`+name+`","path":"/img.qcow2"}`, "Seedbed-Project", project); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	job := s.claim(t)
	if job.Project != project || job.Subject != seedbed.Qualified(project, name) {
		t.Errorf("job %+v: want it to be of project %s", job, project)
	}
	if err := s.db.Step(t.Context(), job.Ref(), seedbed.Step{Next: "import", Total: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Step(t.Context(), job.Ref(), seedbed.Step{Done: "import", Total: 1, Image: &seedbed.ImageInfo{
		Pool: "default", Name: job.Subject, Job: job.ID, Size: seedbed.GiB, Format: "qcow2", SHA256: strings.Repeat("ab", 32)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
		t.Fatal(err)
	}
}

// TestPublishedImages follows an image of a project that is a draft, is published to another one, and is
// withdrawn.
func TestPublishedImages(t *testing.T) {
	t.Parallel()
	s, _, acme := tenants(t)
	s.expect(t, "POST", "/projects", `{"name":"shop"}`, 201)
	s.publish(t)
	shop := map[seedbed.Role]string{}
	for _, role := range seedbed.Roles() {
		shop[role] = s.newTokenIn(t, "shop", "shop-"+string(role), role)
	}
	s.importIn(t, "acme", "debian")
	s.importIn(t, "acme", "own")
	operator, other := s.by(t, acme[seedbed.RoleOperator]), s.by(t, shop[seedbed.RoleOperator])

	// A draft is its project's. The short name is the project's own image, and otherwise the default's.
	operator("GET", "/images/debian", "", 200, `"name":"acme/debian"`, `"published":{"all":false,"projects":[]}`)
	operator("GET", "/images/default%2Fdebian", "", 200, `"name":"debian"`)
	other("GET", "/images/debian", "", 200, `"name":"debian"`)
	other("GET", "/images/acme%2Fown", "", 404, `image \"acme/own\" does not exist`)
	other("POST", "/instances", `{"name":"web1","image":"acme/own"}`, 422, `image \"acme/own\" does not exist`)
	s.expect(t, "GET", "/images/acme%2Fown", "", 200, `"published"`)
	s.expect(t, "POST", "/instances", `{"name":"web9","image":"acme/own"}`, 422, `image \"acme/own\" does not exist`)
	for secret, want := range map[string]string{
		acme[seedbed.RoleOperator]: "acme/debian acme/own debian", shop[seedbed.RoleOperator]: "debian",
	} {
		var names []string
		for _, part := range strings.Split(s.by(t, secret)("GET", "/images", "", 200).body, `"name":"`)[1:] {
			names = append(names, part[:strings.IndexByte(part, '"')])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("images %q, want %q", got, want)
		}
	}
	if r := other("GET", "/images/debian", "", 200); strings.Contains(r.body, "published") {
		t.Errorf("%s: want no publication", r.body)
	}

	// Its project publishes it by name, and others do not.
	s.by(t, acme[seedbed.RoleViewer])("PUT", "/images/own/published", `{"projects":["shop"]}`, 403)
	operator("PUT", "/images/own/published", `{"all":true}`, 403, "only the default project publishes to all")
	operator("PUT", "/images/own/published", `{"projects":["a b"]}`, 422)
	operator("PUT", "/images/default%2Fdebian/published", `{"projects":["shop"]}`, 403, `belongs to project default`)
	operator("PUT", "/images/own/published", `{"projects":["shop","none"]}`, 200, `"projects":["none","shop"]`)
	other("PUT", "/images/acme%2Fown/published", `{"projects":[]}`, 403, `image \"acme/own\" belongs to project acme`)
	other("DELETE", "/images/acme%2Fown", "", 403)
	shown := other("GET", "/images/acme%2Fown", "", 200)
	if strings.Contains(shown.body, "published") {
		t.Errorf("%s: want no publication", shown.body)
	}
	other("POST", "/instances", `{"name":"web1","image":"acme/own"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})

	// It is not removed while the other project uses it, and is withdrawn for what is made later.
	r := operator("DELETE", "/images/own", "", 409, "used by other projects")
	if strings.Contains(r.body, "shop") || strings.Contains(r.body, "web1") {
		t.Errorf("%s: it names who uses it", r.body)
	}
	s.expect(t, "DELETE", "/images/acme%2Fown", "", 409, "web1.shop")
	operator("PUT", "/images/own/published", `{}`, 200)
	other("POST", "/instances", `{"name":"web2","image":"acme/own"}`, 422, `image \"acme/own\" does not exist`)
	other("POST", "/instances/web1/rebuild", `{}`, 422, `image \"acme/own\" does not exist`)
	other("GET", "/images/acme%2Fown", "", 404)
	other("GET", "/instances/web1", "", 200, `"state":"running"`)
	operator("DELETE", "/images/debian", "", 202)
}

// TestImagesOfTenants checks what belongs to the installation: files of hosts, and nodes.
func TestImagesOfTenants(t *testing.T) {
	t.Parallel()
	s, _, tokens := tenants(t)
	for _, test := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/images", `{"name":"a","path":"/img.qcow2"}`, 403, "upload the image"},
		{"POST", "/images", `{"name":"default/a","path":"/img.qcow2"}`, 404, "does not exist"},
		{"POST", "/images/a/content?node=hv1", "data", 403, "cannot choose a node"},
		{"POST", "/images/default%2Fa/content", "data", 404, "does not exist"},
		{"POST", "/plan/import", `{"name":"a","path":"/img.qcow2"}`, 200, "upload the image"},
		{"POST", "/plan/import", `{"name":"a","size":"1MiB"}`, 200, `"problems":[]`},
		{"POST", "/plan/import", `{"name":"a","node":"hv1"}`, 403, "cannot choose a node"},
		{"POST", "/plan/import", `{"name":"a","ova":true}`, 200, "did not find an 'ova'"},
		{"POST", "/ovas/a/content?node=hv1", "data", 403, "cannot choose a node"},
		{"POST", "/ovas/default%2Fa/content", "data", 404, "does not exist"},
		{"PUT", "/networks/default/published", `{"all":true}`, 403, "does not have network.publish"},
	} {
		kind := "application/json"
		if strings.Contains(test.path, "/content") {
			kind = "application/octet-stream"
		}
		r := s.do(t, test.method, "/api/v1"+test.path, test.body, "Authorization", "Bearer "+tokens[seedbed.RoleOperator], "Content-Type", kind)
		if r.status != test.status || !strings.Contains(r.body, test.says) {
			t.Errorf("%s %s %s: %d %s, want %d and %s", test.method, test.path, test.body, r.status, r.body, test.status, test.says)
		}
		if test.status == http.StatusOK && strings.Contains(r.body, `"node":"h`) {
			t.Errorf("%s %s: %s names a node", test.method, test.path, r.body)
		}
	}
}

// by returns a function that sends a request with a token, and returns its answer. Another status ends the test.
// The answer must hold the parts. The body is a file where one is uploaded, a form on PVC's paths, and otherwise JSON.
func (s *server) by(t *testing.T, secret string) func(method, path, body string, status int, parts ...string) response {
	t.Helper()
	return func(method, path, body string, status int, parts ...string) response {
		t.Helper()
		header := []string{"Authorization", "Bearer " + secret}
		switch {
		case strings.Contains(path, "/content"):
			header = append(header, "Content-Type", "application/octet-stream")
		case body != "" && strings.HasPrefix(path, "/provisioner"):
			header = append(header, "Content-Type", "application/x-www-form-urlencoded")
		}
		r := s.do(t, method, "/api/v1"+path, body, header...)
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
}
