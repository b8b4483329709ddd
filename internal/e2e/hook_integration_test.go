//go:build integration

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/webhook/signature"
)

// sender is an external system with a hook's secret.
type sender struct {
	url    string
	key    []byte
	client *http.Client // nil is http.DefaultClient
}

// answer is what the webhook listener said.
type answer struct {
	Status    int
	Job       string `json:"job"`
	Duplicate bool   `json:"duplicate"`
	URL       string `json:"url"`
	Detail    string `json:"detail"`
}

// newSender adds a hook to the stack and returns its sender.
func newSender(t *testing.T, s *lab.Stack, r wire.HookRequest) sender {
	t.Helper()
	made, err := s.API.AddHook(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseSecret(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return sender{url: s.Hooks + "/hooks/" + r.Name, key: key}
}

// post signs body as delivery id at the time ts, and sends it.
func (h sender) post(t *testing.T, id string, ts time.Time, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", fmt.Sprint(ts.Unix()))
	req.Header.Set("webhook-signature", signature.Sign(h.key, id, ts, []byte(body)))
	resp, err := cmp.Or(h.client, http.DefaultClient).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{Status: resp.StatusCode}
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("answer %d %q: %v", resp.StatusCode, b, err)
	}
	return a
}

// hostStack is a stack on a host of its own, so that other tests can run beside it.
func hostStack(t *testing.T, o lab.StackOptions) *lab.Stack {
	t.Helper()
	o.Host = lab.NewHost(t)
	o.Host.Libvirt()
	return lab.NewStack(t, o)
}

// longest is how long a job may take that boots a guest on a busy computer. It only ends tests that
// hang: jobs have limits of their own.
const longest = 15 * time.Minute

// waitJob follows a job to its end.
func waitJob(t testing.TB, s *lab.Stack, id string) seedbed.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	job, err := s.API.WaitJob(ctx, id, func(e seedbed.Event, _ seedbed.Job) {
		t.Logf("job %s %s: %s", e.Job.Short(), e.Stage, e.Msg)
	})
	if err != nil {
		t.Fatalf("job %s: %v\n%s", id, err, s.Logs())
	}
	return job
}

// addImage imports an image and waits for it.
func addImage(t testing.TB, s *lab.Stack, name, path string) {
	t.Helper()
	receipt, err := s.API.ImportImage(t.Context(), wire.ImageRequest{Name: name, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
		t.Fatalf("import of %s: %s: %s", path, job.State, job.Error)
	}
}

// addProfile makes a profile.
func addProfile(t testing.TB, s *lab.Stack, p seedbed.Profile) {
	t.Helper()
	if _, err := s.API.CreateProfile(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// removeInstance removes an instance with everything it has.
func removeInstance(t testing.TB, s *lab.Stack, name string) {
	t.Helper()
	receipt, err := s.API.RemoveInstance(t.Context(), name, "")
	if err != nil {
		t.Fatalf("remove %s: %v", name, err)
	}
	if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
		t.Fatalf("remove %s: %s: %s", name, job.State, job.Error)
	}
}
