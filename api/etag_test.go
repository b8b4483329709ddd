package api_test

import (
	"strings"
	"testing"

	"seedbed"
)

// TestIfMatch checks that a change with an outdated If-Match is refused.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "POST", "/api/v1/hooks", `{"name":"ci","profiles":["p"]}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	tag := func(path string) string {
		t.Helper()
		r := s.do(t, "GET", "/api/v1"+path, "")
		e := r.header.Get("ETag")
		if r.status != 200 || len(e) < 4 || e[0] != '"' || e[len(e)-1] != '"' {
			t.Fatalf("%s: %d with the ETag %s", path, r.status, e)
		}
		if again := s.do(t, "GET", "/api/v1"+path, "").header.Get("ETag"); again != e {
			t.Errorf("%s: ETag %s, and then %s", path, e, again)
		}
		return e
	}
	for path, change := range map[string]string{
		"/instances/web1":   `{"tags":{"a":"b"}}`,
		"/networks/default": `{"identity":"mac"}`,
		"/hooks/ci":         `{"rate":5}`,
	} {
		was := tag(path)
		r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", `"x", `+was)
		if is := r.header.Get("ETag"); r.status != 200 || is == was || is != tag(path) {
			t.Errorf("%s: %d %s, ETag %s, before %s", path, r.status, r.body, is, was)
		}
		for _, stale := range []string{was, "W/" + tag(path), "none", `""`} {
			if r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", stale); r.status != 412 || !strings.Contains(r.body, "read it again") ||
				!strings.Contains(r.body, `"kind":"conflict"`) {
				t.Errorf("%s with If-Match %s: %+v", path, stale, r)
			}
		}
		if r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", "*"); r.status != 200 {
			t.Errorf("%s with If-Match *: %+v", path, r)
		}
	}
	for _, path := range []string{"/hooks/ci", "/profiles/p", "/instances/web1"} {
		if r := s.do(t, "DELETE", "/api/v1"+path, "", "If-Match", `"1-2"`); r.status != 412 {
			t.Errorf("DELETE %s: %+v", path, r)
		}
		want := 204
		if path == "/instances/web1" {
			want = 202
		}
		if r := s.do(t, "DELETE", "/api/v1"+path, "", "If-Match", tag(path)); r.status != want {
			t.Errorf("DELETE %s: %+v", path, r)
		}
	}
	if r := s.do(t, "DELETE", "/api/v1/profiles/p", "", "If-Match", `"1"`); r.status != 404 {
		t.Errorf("what is not there: %+v", r)
	}
}

// TestETagOfAnother checks that a later profile or instance of the same name has another tag.
func TestETagOfAnother(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	var tags []string
	for range 2 {
		if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
			t.Fatalf("%+v", r)
		}
		tags = append(tags, s.do(t, "GET", "/api/v1/profiles/p", "").header.Get("ETag"))
		if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"p"}`); r.status != 202 {
			t.Fatalf("%+v", r)
		}
		tags = append(tags, s.do(t, "GET", "/api/v1/instances/web1", "").header.Get("ETag"))
		job := s.claim(t)
		if err := s.db.Undo(t.Context(), job.Ref(), "no"); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no", Drop: true}); err != nil {
			t.Fatal(err)
		}
		if r := s.do(t, "DELETE", "/api/v1/profiles/p", ""); r.status != 204 {
			t.Fatalf("%+v", r)
		}
	}
	if tags[0] == tags[2] || tags[1] == tags[3] {
		t.Errorf("ETags %v", tags)
	}
}
