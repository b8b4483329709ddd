package api_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestBadInputOfEveryRoute sends bad names in paths, and bad types in bodies. Every described route
// must refuse them with a message, and none may fail.
func TestBadInputOfEveryRoute(t *testing.T) {
	t.Parallel()
	s := composable(t)
	doc := description(t)
	names := []string{"a%", "_", "%", "a/b", "a\x00b", "\xff", strings.Repeat("a", 10000), "-", "..", "a\nb", "ä", "' OR 1=1 --"}
	wrong := []string{`null`, `true`, `-1`, `1e300`, `1.5`, `""`, `"a\u0000b"`, `"%"`, `[]`, `[null]`,
		`{}`, `{"a":{}}`, `"` + strings.Repeat("x", 10000) + `"`}
	sent := 0
	ask := func(method, path, body string) {
		sent++
		told := `"detail":`
		at, _, _ := strings.Cut("/api/v1"+path, "?")
		if pvcPath.MatchString(at) {
			told = `"message":`
		}
		// Some routes accept more than is described: PVC's routes are lenient.
		status, answer := s.send(t, method, "/api/v1"+path, body)
		if status >= 500 || status >= 400 && !strings.Contains(answer, told) {
			t.Errorf("%s %.100s with %.100s: %d %.300s", method, path, body, status, answer)
		}
	}
	for _, path := range doc.Paths.InMatchingOrder() {
		// The test's own cleanup fails on purpose, and a stream does not end.
		if path == "/cleanup" || path == "/doctor" || strings.HasSuffix(path, "/events") || strings.HasSuffix(path, "/output") {
			continue
		}
		item := doc.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			if strings.Contains(path, "{") {
				for _, name := range names {
					ask(method, fill(path, name), bodyOf(item.GetOperation(method)))
				}
			}
			for _, body := range wrongBodies(item.GetOperation(method), wrong) {
				ask(method, fill(path, "web"), body)
			}
			for _, p := range item.GetOperation(method).Parameters {
				if p.Value.In != "query" {
					continue
				}
				for _, v := range []string{"", "%", "-1", "99999999999999999999", "a\x00b", "\xff", strings.Repeat("x", 1000)} {
					ask(method, fill(path, "web")+"?"+p.Value.Name+"="+url.QueryEscape(v), bodyOf(item.GetOperation(method)))
				}
			}
		}
	}
	if sent < 1000 {
		t.Errorf("only %d requests were sent", sent)
	}
}

// send makes one request. It does not compare the answer with the description.
func (s *server) send(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	var res *http.Response
	for tries := 1; ; tries++ {
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if res, err = s.client.Do(req); err == nil {
			break
		}
		// The server closes the connection of a path that is too long, perhaps before all of it is written.
		if len(path) < 8<<10 || tries == 10 {
			t.Fatal(err)
		}
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

// fill replaces the parameters of a path by a name.
func fill(path, name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if strings.HasPrefix(part, "{") {
			part = url.PathEscape(name)
		}
		b.WriteString("/" + part)
	}
	return b.String()
}

// bodyOf returns a body for an operation that accepts one.
func bodyOf(o *openapi3.Operation) string {
	if o.RequestBody == nil || o.RequestBody.Value.Content.Get("application/json") == nil {
		return ""
	}
	return "{}"
}

// wrongBodies returns bodies in which each value replaces each member, and bodies that consist of
// one value.
func wrongBodies(o *openapi3.Operation, values []string) (all []string) {
	if bodyOf(o) == "" {
		return nil
	}
	all = append(all, "{", "[]", `"x"`, "null", `{"":1}`, `{"nobody":1}`)
	schema := o.RequestBody.Value.Content.Get("application/json").Schema
	for _, name := range slices.Sorted(maps.Keys(schema.Value.Properties)) {
		member, _ := json.Marshal(name) // a string always encodes
		for _, v := range values {
			all = append(all, "{"+string(member)+":"+v+"}")
		}
	}
	return all
}
