package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/provision/worker/drivertest"
)

const onceKey = "0b6f3c1e-6c0f-4ef6-9d39-6d6a5f1f6c60"

// TestOnce checks that requests with an idempotency key are carried out once, and that each gets
// the whole answer, also over a restart.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	const path, body = "/api/v1/tokens", `{"name":"ci","role":"viewer"}`
	post := func(path, body, key string) response { return s.do(t, "POST", path, body, "Idempotency-Key", key) }
	first := post(path, body, onceKey)
	if first.status != 201 || first.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%+v", first)
	}
	again := func(when string) {
		t.Helper()
		r := post(path, body, onceKey)
		if r.status != first.status || r.body != first.body || r.header.Get("Idempotent-Replayed") != "true" ||
			r.header.Get("Location") != first.header.Get("Location") || r.header.Get("Content-Type") != first.header.Get("Content-Type") ||
			r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %+v; want %+v", when, r, first)
		}
	}
	again("again")
	s.restart(t, s.config())
	again("after a restart")
	for name, c := range map[string]struct {
		path, body, key string
		status          int
		want            string
	}{
		"another body":     {path, `{"name":"cd","role":"viewer"}`, onceKey, 409, "another request"},
		"another path":     {"/api/v1/userdata", `{"name":"ci","data":"x"}`, onceKey, 409, "another request"},
		"another query":    {path + "?x=1", body, onceKey, 409, "another request"},
		"short":            {path, body, "1", 422, "16 to 255"},
		"long":             {path, body, strings.Repeat("x", 256), 422, "16 to 255"},
		"not visible":      {path, body, onceKey + " 2", 422, "visible ASCII"},
		"a key of its own": {path, body, onceKey + "2", 409, "exists already"},
	} {
		if r := post(c.path, c.body, c.key); r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %+v; want %d and %s", name, r, c.status, c.want)
		}
	}
	if r := s.do(t, "GET", "/api/v1/tokens", "", "Idempotency-Key", "1"); r.status != 200 || strings.Count(r.body, `"name"`) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestOnceOfCallers checks that the keys of two callers have nothing to do with each other.
func TestOnceOfCallers(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.newToken(t, "other", seedbed.RoleOperator)
	const path = "/api/v1/userdata"
	mine := s.do(t, "POST", path, `{"name":"a","data":"#cloud-config"}`, "Idempotency-Key", onceKey)
	its := s.do(t, "POST", path, `{"name":"b","data":"#cloud-config"}`, "Idempotency-Key", onceKey,
		"Authorization", "Bearer "+other)
	if mine.status != 201 || its.status != 201 || !strings.Contains(its.body, `"b"`) {
		t.Errorf("%+v\n%+v", mine, its)
	}
}

// TestOnceFailed checks that a failed request that changed nothing is carried out when it is sent
// again.
func TestOnceFailed(t *testing.T) {
	t.Parallel()
	s := start(t)
	post := func() response {
		return s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"p"}`, "Idempotency-Key", onceKey)
	}
	if r := post(); r.status != 422 && r.status != 404 {
		t.Fatalf("%+v", r)
	}
	s.importImage(t, "debian")
	if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	first, again := post(), post()
	if first.status != 202 || again.status != 202 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v\n%+v", first, again)
	}
}

// TestOnceAtOnce checks that of many equal requests at once one is carried out, and that each gets
// its answer.
func TestOnceAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	var all sync.WaitGroup
	var answers [12]response
	for i := range answers {
		all.Go(func() {
			answers[i] = s.do(t, "POST", "/api/v1/tokens", `{"name":"ci","role":"viewer"}`, "Idempotency-Key", onceKey)
		})
	}
	all.Wait()
	for _, r := range answers {
		if r.status != 201 || r.body != answers[0].body {
			t.Errorf("%+v; want %+v", r, answers[0])
		}
	}
}

// TestOnceIsSealed checks that the database has neither the key nor the secrets of an answer.
func TestOnceIsSealed(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.do(t, "POST", "/api/v1/tokens", `{"name":"ci","role":"viewer"}`, "Idempotency-Key", onceKey)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || made.Secret == "" {
		t.Fatal(r, err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.socket), "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := false
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // a socket
		}
		found = found || bytes.Contains(b, []byte("keyed_request"))
		for _, hidden := range []string{made.Secret, onceKey} {
			if bytes.Contains(b, []byte(hidden)) {
				t.Errorf("%s has %s", name, hidden)
			}
		}
	}
	if !found {
		t.Errorf("no file of %v is the database", files)
	}
}

// TestOnceUpload checks that an upload may have an idempotency key.
func TestOnceUpload(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	path, _ := drivertest.BootableFile(t)
	disk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	post := func() response {
		return s.do(t, "POST", "/api/v1/images/up/content", string(disk), "Content-Type", "application/octet-stream",
			"Idempotency-Key", onceKey)
	}
	first, again := post(), post()
	if first.status != 202 || again.status != 202 || again.body != first.body {
		t.Errorf("%+v\n%+v", first, again)
	}
}

// TestOnceCutOff checks that a client whose connection breaks before the answer gets the answer to
// the one request that was carried out.
func TestOnceCutOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Int64
	through := httputil.NewSingleHostReverseProxy(to)
	through.ModifyResponse = func(r *http.Response) error {
		if served.Add(1) > 1 {
			return nil
		}
		_, err := io.Copy(io.Discard, r.Body) // the request was carried out
		return errors.Join(err, http.ErrAbortHandler)
	}
	through.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	proxy := httptest.NewServer(through)
	t.Cleanup(proxy.Close)
	c, err := client.New(client.Options{URL: proxy.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.AddToken(t.Context(), wire.TokenRequest{Name: "ci", Role: seedbed.RoleViewer})
	if err != nil || made.Secret == "" || served.Load() != 2 {
		t.Errorf("%+v, %v after %d answers", made, err, served.Load())
	}
	if r := s.do(t, "GET", "/api/v1/health", "", "Authorization", "Bearer "+made.Secret); r.status != 200 {
		t.Errorf("the token that was answered: %+v", r)
	}
	all, err := s.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 10})
	if err != nil || len(all) != 1 {
		t.Errorf("changes: %+v, %v", all, err)
	}
}
