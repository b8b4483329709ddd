package webhook

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/internal/lab/leak"
	"seedbed/webhook/signature"
)

func TestMain(m *testing.M) { leak.Main(m) }

// directory is a Hooks with fixed contents.
type directory struct {
	hooks     map[string]seedbed.Hook
	instances map[string]seedbed.Instance
	err       error
}

func (d directory) Hook(_ context.Context, name string) (seedbed.Hook, error) {
	if d.err != nil {
		return seedbed.Hook{}, d.err
	}
	h, ok := d.hooks[name]
	if !ok {
		return h, seedbed.Errorf(seedbed.ErrNotFound, "hook %q does not exist", name)
	}
	return h, nil
}

func (d directory) InstanceByName(_ context.Context, n seedbed.InstanceName) (seedbed.Instance, error) {
	i, ok := d.instances[n.Name]
	if !ok {
		return i, seedbed.Errorf(seedbed.ErrNotFound, "instance %q does not exist", n.Name)
	}
	return i, nil
}

// Resolve finds each name in the project itself.
func (d directory) Resolve(_ context.Context, _ seedbed.PublishedKind, project, name string) (string, error) {
	return seedbed.Qualified(cmp.Or(project, seedbed.DefaultProject), name), nil
}

// ledger is a Submit that answers every request with err, or a new job.
type ledger struct {
	mu       sync.Mutex
	err      error
	requests []seedbed.Request
	last     seedbed.Delivery
}

func (l *ledger) Submit(_ context.Context, req seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return seedbed.Receipt{}, l.err
	}
	l.requests, l.last = append(l.requests, req), *d
	return seedbed.Receipt{Job: "11111111-2222-4333-8444-555555555555", State: seedbed.JobQueued}, nil
}

// Plan implements Intake.
func (l *ledger) Plan(_ context.Context, req seedbed.Request) (seedbed.Plan, error) {
	return seedbed.Plan{Project: req.Project, Name: req.Name, Profile: req.Profile, VCPUs: 2, Problems: []string{}}, l.err
}

// intakeFunc is an Intake of one function.
type intakeFunc func(context.Context, seedbed.Request, *seedbed.Delivery) (seedbed.Receipt, error)

func (f intakeFunc) Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error) {
	return f(ctx, r, d)
}

func (f intakeFunc) Plan(context.Context, seedbed.Request) (seedbed.Plan, error) {
	return seedbed.Plan{}, nil
}

// memory is a History and Jobs of this process.
type memory struct {
	mu  sync.Mutex
	all []seedbed.Delivery
	// rejected are counts, as they were written.
	rejected []seedbed.Rejection
	jobs     map[seedbed.JobID]seedbed.Job
	hint     chan struct{}
}

func (m *memory) RecordDelivery(_ context.Context, d seedbed.Delivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, d)
	return nil
}

func (m *memory) RecordRejections(_ context.Context, all []seedbed.Rejection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = append(m.rejected, all...)
	return nil
}

func (m *memory) Delivery(_ context.Context, hook, id string) (seedbed.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.all {
		if d.Hook == hook && d.ID == id {
			return d, nil
		}
	}
	return seedbed.Delivery{}, seedbed.Errorf(seedbed.ErrNotFound, "no such delivery")
}

func (m *memory) EarlierReceipt(_ context.Context, d seedbed.Delivery) (*seedbed.Receipt, error) {
	first, err := m.Delivery(context.Background(), d.Hook, d.ID)
	if err != nil || first.Job == "" {
		return nil, nil
	}
	return &seedbed.Receipt{Job: first.Job, Duplicate: true}, nil
}

func (m *memory) Job(_ context.Context, id seedbed.JobID) (seedbed.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.jobs[id], nil
}

func (m *memory) Hint() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hint == nil {
		m.hint = make(chan struct{})
	}
	return m.hint
}

// end makes a job end, and tells those who wait.
func (m *memory) end(id seedbed.JobID, state seedbed.JobState) {
	hint := m.Hint()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = map[seedbed.JobID]seedbed.Job{id: {ID: id, State: state}}
	if hint == m.hint {
		close(m.hint)
		m.hint = nil
	}
}

// keys is one key that always counts.
func keys(secret []byte) []seedbed.HookKey { return []seedbed.HookKey{{ID: "k1", Secret: secret}} }

// of is settings of a scheme.
func of(s seedbed.Scheme) seedbed.HookSettings { return seedbed.HookSettings{Scheme: s} }

// service is a running Server.
type service struct {
	addr   string
	log    *lockedBuffer
	server *Server
	stop   func() error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start serves until the test ends, after the server was changed by all of those.
func start(t testing.TB, c Config, change ...func(*Server)) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, ln, c, change...)
}

// startOn is start on a listener.
func startOn(t testing.TB, ln net.Listener, c Config, change ...func(*Server)) *service {
	t.Helper()
	s := &service{addr: ln.Addr().String(), log: &lockedBuffer{}}
	c.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.APIBase = "http://127.0.0.1:7370"
	remembered := &memory{}
	if c.History == nil {
		c.History = remembered
	}
	if c.Jobs == nil {
		c.Jobs = remembered
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var result error
	s.server = New(c)
	for _, f := range change {
		f(s.server)
	}
	go func() {
		defer close(done)
		result = s.server.Serve(ctx, ln)
	}()
	s.stop = func() error { cancel(); <-done; return result }
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// signed is a request as a well-behaved sender makes it.
func signed(key []byte, id string, at time.Time, body string) map[string]string {
	return map[string]string{
		"Host": "seedbed", "Content-Type": "application/json", "Content-Length": fmt.Sprint(len(body)),
		"webhook-id": id, "webhook-timestamp": fmt.Sprint(at.Unix()), "webhook-signature": signature.Sign(key, id, at, []byte(body)),
	}
}

// answer is what a server said, and whether it keeps the connection.
type answer struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (a answer) problem(t testing.TB) httpserve.Problem {
	t.Helper()
	var p httpserve.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" || p.Status != a.status {
		t.Errorf("content type %q, status %d in the body of a %d", got, p.Status, a.status)
	}
	return p
}

// raw writes a request byte for byte on a connection of its own.
func (s *service) raw(t testing.TB, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return exchange(t, conn, bufio.NewReader(conn), request)
}

func exchange(t testing.TB, conn net.Conn, r *bufio.Reader, request string) answer {
	t.Helper()
	conn.SetDeadline(time.Now().Add(time.Minute))
	// A server that refuses early may close before everything is written.
	_, sent := io.WriteString(conn, request)
	a, err := receive(r)
	if err == nil && a.status == http.StatusContinue {
		a, err = receive(r)
	}
	if err != nil {
		t.Fatalf("no answer: %v (sending: %v)", err, sent)
	}
	return a
}

// receive reads one answer, be it the interim one.
func receive(r *bufio.Reader) (answer, error) {
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), res.Close}, err
}

func message(method, path string, header map[string]string, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
	for k, v := range header {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	return b.String() + "\r\n" + body
}
