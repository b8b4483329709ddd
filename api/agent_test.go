package api_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestGuestExec runs programs in a guest, as who may and as who may not.
func TestGuestExec(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	run := func(body string, header ...string) response {
		return s.do(t, "POST", "/api/v1/instances/web1/exec", body, header...)
	}
	for body, want := range map[string]string{
		`{"path":"echo","arguments":["hunter2"]}`: base64.StdEncoding.EncodeToString([]byte("hunter2\n")),
		`{"path":"cat","data":"aHVudGVyMg=="}`:    "aHVudGVyMg==",
	} {
		begun := run(body, "Idempotency-Key", rand.Text())
		var p seedbed.GuestProcess
		if err := json.Unmarshal([]byte(begun.body), &p); err != nil || begun.status != 200 {
			t.Fatalf("%+v: %v", begun, err)
		}
		if diff := cmp.Diff(seedbed.GuestProcess{ID: p.ID}, p); diff != "" {
			t.Errorf("the answer that is kept has more than the ID (-want +got):\n%s", diff)
		}
		at := fmt.Sprintf("/api/v1/instances/web1/exec/%d", p.ID)
		if r := s.do(t, "HEAD", at, ""); r.status != 200 {
			t.Errorf("%+v", r)
		}
		for range 2 {
			if r := s.do(t, "GET", at, ""); r.status != 200 || !strings.Contains(r.body, want) {
				t.Errorf("%+v; want %s", r, want)
			}
		}
	}
	operator := "Bearer " + s.newToken(t, "op", seedbed.RoleOperator)
	if r := run(`{"path":"echo"}`, "Authorization", operator); r.status != 403 {
		t.Errorf("an operator: %+v", r)
	}
	for body, status := range map[string]int{`{"path":""}`: 422, `{}`: 422, `{"path":"none"}`: 409, `{"path":"echo","env":{}}`: 400} {
		if r := run(body); r.status != status {
			t.Errorf("%s: %+v; want %d", body, r, status)
		}
	}
	for path, status := range map[string]int{"/x": 422, "/77": 409} {
		if r := s.do(t, "GET", "/api/v1/instances/web1/exec"+path, ""); r.status != status {
			t.Errorf("%s: %+v; want %d", path, r, status)
		}
	}
	s.audited(t, " in instance web1", map[string]int{`token admin run "echo" in instance web1`: 1,
		`token admin run "cat" in instance web1`: 1, `token admin run "none" in instance web1`: 1})
	all, err := s.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if text := string(e.Asked) + e.What; strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("the audit log has a secret: %s", text)
		}
	}
}

// TestGuestFile copies a file to a guest and back, and loses the right to.
func TestGuestFile(t *testing.T) {
	t.Parallel()
	s, i := consoleWorld(t, nil)
	c, err := client.New(client.Options{URL: s.url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.terminals.Run(i.ID); err != nil {
		t.Fatal(err)
	}
	const opened = `token admin open the file "/etc/motd", to write, of instance web1`
	s.terminals.SetAgent(i.ID, func(request []byte) ([]byte, error) {
		if strings.Contains(string(request), "guest-file-open") {
			s.audited(t, "the file", map[string]int{opened: 1}) // before the file is emptied
			s.terminals.SetAgent(i.ID, s.terminals.Agent.Answer)
		}
		return s.terminals.Agent.Answer(request)
	})
	to, err := c.OpenFile(t.Context(), "web1", wire.FileRequest{Path: "/etc/motd", Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.WriteString(to.Conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := client.EndFile(to); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(to); err != nil {
		t.Errorf("write: %v", err)
	}
	from, err := c.OpenFile(t.Context(), "web1", wire.FileRequest{Path: "/etc/motd"})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if got, err := io.ReadAll(from); string(got) != "hello" || err != nil {
		t.Errorf("read: %q, %v", got, err)
	}
	s.audited(t, "the file", map[string]int{
		opened: 1,
		`token admin end the file "/etc/motd", to write, of instance web1`: 1,
		`token admin open the file "/etc/motd", to read, of instance web1`: 1,
		`token admin end the file "/etc/motd", to read, of instance web1`:  1,
	})
	if _, err := c.OpenFile(t.Context(), "web1", wire.FileRequest{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("no path: %v", err)
	}
	s.terminals.SetAgent(i.ID, nil)
	none, err := c.OpenFile(t.Context(), "web1", wire.FileRequest{Path: "/etc/motd"})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := io.ReadAll(none); !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "no guest agent") {
		t.Errorf("without an agent: %v", err)
	}
	s.audited(t, "the file", map[string]int{opened: 1,
		`token admin end the file "/etc/motd", to write, of instance web1`: 1,
		`token admin open the file "/etc/motd", to read, of instance web1`: 2,
		`token admin end the file "/etc/motd", to read, of instance web1`:  2,
	})
}
