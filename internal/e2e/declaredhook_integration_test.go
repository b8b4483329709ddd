//go:build integration && libvirt

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/webhook/signature"
)

// TestDeclaredHook is the way of a webhook through the real daemon and out again:
// hooks of the configuration, with a secret in a file and by a certificate, take
// deliveries over TLS, and an endpoint is told of each job, signed and in order.
// Once as many jobs wait as may, deliveries are put off.
func TestDeclaredHook(t *testing.T) {
	dir, key := t.TempDir(), signature.NewSecret()
	holder, stranger := selfSigned(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "forge"), []byte(signature.FormatSecret(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := lab.NewStack(t, lab.StackOptions{
		URI: "test:///default", Jobs: "{lease: 1s, poll: 50ms, per_node: 1, max_queued: 2}",
		Webhook: fmt.Sprintf(`tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/cert.pem}, hooks: [
			{name: forge, keys: [{id: k1, secret_file: %[1]s/forge}]},
			{name: machine, scheme: none, insecure: true, subjects: [ci.example]}]`, dir),
	})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	lab.Await(t, lab.Patience, "the hooks are as they are declared", func() bool {
		hooks, err := s.API.Hooks(t.Context())
		return err == nil && len(hooks) == 2 && hooks[0].Declared && hooks[1].Declared
	})
	checks, err := s.API.Doctor(t.Context())
	if err != nil || !slices.ContainsFunc(checks, func(c seedbed.Check) bool { return c.Name == "clock" }) {
		t.Errorf("the clock, by which deliveries are judged, is not looked at: %+v, %v", checks, err)
	}
	told := newListener(t, s)

	at := strings.Replace(s.Hooks, "http:", "https:", 1) + "/hooks/"
	forge, machine, nobody := sender{at + "forge", key, stranger}, sender{at + "machine", nil, holder}, sender{at + "machine", nil, stranger}
	var jobs []string
	// send gives the answer to a request for that instance, and notes its job.
	send := func(from sender, name string) answer {
		t.Helper()
		a := from.post(t, "evt_"+name, time.Now(), `{"action":"create","name":"`+name+`","profile":"small"}`)
		if a.Status == http.StatusAccepted {
			jobs = append(jobs, a.Job)
		}
		return a
	}
	made := func(from sender, name string) {
		t.Helper()
		a := send(from, name)
		if a.Status != http.StatusAccepted {
			t.Fatalf("%s: %+v\n%s", name, a, s.Logs())
		}
		if job := waitJob(t, s, a.Job); job.State != seedbed.JobSucceeded {
			t.Fatalf("%s: %s: %s", name, job.State, job.Error)
		}
	}
	made(forge, "signed")
	if a := send(sender{forge.url, []byte("another key of 32 bytes in all.."), stranger}, "forged"); a.Status != http.StatusUnauthorized {
		t.Errorf("with another key: %+v", a)
	}
	if a := send(nobody, "nobody"); a.Status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %+v", a)
	}
	made(machine, "certified")

	// One runs, for the worker holds still, and two wait.
	t.Cleanup(func() { s.Signal(lab.Worker, syscall.SIGCONT) })
	s.Signal(lab.Worker, syscall.SIGSTOP)
	var first answer
	for _, name := range []string{"one", "two", "three"} {
		var a answer
		lab.Await(t, lab.Patience, name+" is accepted", func() bool { a = send(forge, name); return a.Status == http.StatusAccepted })
		if name == "one" {
			first = a
			lab.Await(t, lab.Patience, "it runs", func() bool {
				job, err := s.API.Job(t.Context(), a.Job)
				return err == nil && job.Job.State == seedbed.JobRunning
			})
		}
	}
	if a := send(forge, "four"); a.Status != http.StatusTooManyRequests || a.Detail != "2 jobs wait already: try again later" {
		t.Errorf("while two wait: %+v", a)
	}
	if a := forge.post(t, "evt_one", time.Now(),
		`{"action":"create","name":"one","profile":"small"}`); a.Status != http.StatusAccepted || !a.Duplicate || a.Job != first.Job {
		t.Errorf("one that has its job already: %+v, want %s", a, first.Job)
	}
	s.Signal(lab.Worker, syscall.SIGCONT)
	lab.Await(t, lab.Patience, "four is accepted", func() bool { return send(forge, "four").Status == http.StatusAccepted })
	for _, id := range jobs[2:] {
		if job := waitJob(t, s, id); job.State != seedbed.JobSucceeded {
			t.Errorf("%s: %s: %s", job.Subject, job.State, job.Error)
		}
	}
	told.check(t, jobs)
}

// selfSigned writes a certificate (lab.SelfSigned) in which both clients believe; the
// first holds it as well.
func selfSigned(t *testing.T, dir string) (holder, stranger *http.Client) {
	t.Helper()
	cert, roots := lab.SelfSigned(t, dir)
	of := func(own ...tls.Certificate) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: time.Minute}
	}
	return of(cert), of()
}

// listener is an external system that an endpoint leads to.
type listener struct {
	key  []byte
	mu   sync.Mutex
	came []delivery
}

// delivery is one request of the deliverer's.
type delivery struct {
	header http.Header
	body   []byte
}

// newListener serves on the loopback, and adds an endpoint for it to the stack.
func newListener(t *testing.T, s *lab.Stack) *listener {
	t.Helper()
	l := &listener{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/told" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.came = append(l.came, delivery{r.Header.Clone(), body})
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	made, err := s.API.AddEndpoint(t.Context(), wire.EndpointRequest{Name: "told", URL: server.URL + "/told", AllowPrivate: true,
		Events: []string{seedbed.EventJobAccepted, seedbed.EventJobStarted, seedbed.EventJobSucceeded}})
	if err != nil {
		t.Fatal(err)
	}
	if l.key, err = signature.ParseSecret(made.Secret); err != nil {
		t.Fatal(err)
	}
	return l
}

// check waits for what is told of the jobs, and looks at all of it: each delivery
// is signed, none is missing, and they are in order.
func (l *listener) check(t *testing.T, jobs []string) {
	t.Helper()
	events := []string{seedbed.EventJobAccepted, seedbed.EventJobStarted, seedbed.EventJobSucceeded}
	var came []delivery
	lab.Await(t, lab.Patience, "all events are told", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		came = slices.Clone(l.came)
		return len(came) >= len(events)*len(jobs)
	})
	got, want := map[string][]string{}, map[string][]string{}
	for i, d := range came {
		id := d.header.Get(signature.HeaderID)
		seconds, err := strconv.ParseInt(d.header.Get(signature.HeaderTimestamp), 10, 64)
		at := time.Unix(seconds, 0)
		if err != nil || id == "" || time.Since(at).Abs() > 5*time.Minute ||
			d.header.Get(signature.HeaderSignature) != signature.Sign(l.key, id, at, d.body) {
			t.Errorf("delivery %d is not signed: %v", i, d.header)
		}
		var event struct {
			Type string
			Seq  int
			Data struct {
				Job            struct{ ID string }
				Hook, Delivery string
			}
		}
		if err := json.Unmarshal(d.body, &event); err != nil || event.Seq != i+1 {
			t.Errorf("delivery %d: %v: %s", i, err, d.body)
		}
		job := event.Data.Job.ID
		got[job] = append(got[job], strings.TrimSpace(fmt.Sprint(event.Type, " ", event.Data.Hook, " ", event.Data.Delivery)))
	}
	for i, id := range jobs {
		name := []string{"signed", "certified", "one", "two", "three", "four"}[i]
		hook := "forge"
		if name == "certified" {
			hook = "machine"
		}
		want[id] = []string{fmt.Sprint(events[0], " ", hook, " evt_", name), events[1], events[2]}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the jobs were told (-want +got):\n%s", d)
	}
}
