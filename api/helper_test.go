package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/internal/lab/leak"
	"seedbed/provision"
	"seedbed/provision/cleanup"
	"seedbed/provision/intake"
	"seedbed/provision/record"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
	"seedbed/store/sqldb/sqldbtest"
	"seedbed/webhook"
	"seedbed/webhook/outbox"
	"seedbed/webhook/signature"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	token  = "correct horse battery staple"
	sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKHEChSnMVTXeZ/rV8Dm3A/KSOWpuLrv4Ls0o9JX8xZ5 you@host"
)

// server is an API with a real store and intake.
type server struct {
	db     *store.DB
	intake *intake.Intake
	url    string
	socket string
	shelf  shelf
	// terminals has the consoles.
	terminals *drivertest.Terminals
	client    *http.Client
	routes    routers.Router
	log       *lockedBuffer
	stop      func()
	// asked holds the methods and paths of the calls of pvc.
	asked []string
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

// consoles answers for a worker. It fails if 13 bytes are requested, and has no console if 14 are.
type consoles struct{}

func (consoles) Console(_ context.Context, node string, _ seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	if tail == 13 || node != testNode {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker does not answer")
	}
	if tail == 14 {
		return nil, nil
	}
	return []byte("login: \xff<script>"), nil
}

// testDomain is a domain's definition as libvirt writes it. ID stands for the instance's ID.
const testDomain = `<domain type='kvm' xmlns:q='urn:q'>
  <name>web1</name>
  <uuid>ID</uuid>
  <metadata><seedbed:instance xmlns:seedbed="urn:seedbed">"secret"</seedbed:instance></metadata>
  <memory unit='KiB'>524288</memory>
  <currentMemory unit='KiB'>524288</currentMemory>
  <vcpu placement='static'>1</vcpu>
  <os><type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type></os>
  <cpu mode='host-model' check='partial'/>
  <devices>
    <emulator>/usr/bin/qemu</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='/pools/default/volumes/ID-0.qcow2'><privateData>secret</privateData></source>
      <target dev='sda' bus='scsi'/>
    </disk>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='seedbed0'/>
      <model type='virtio'/>
    </interface>
    <graphics type='vnc' port='-1' passwd='secret' passwdValidTo='soon'/>
  </devices>
  <q:commandline><q:env name='K' value='secret'/></q:commandline>
</domain>`

// DomainXML has the definition of each domain of testNode whose node answers.
func (consoles) DomainXML(_ context.Context, of map[string][]seedbed.InstanceID) map[seedbed.InstanceID]string {
	all := map[seedbed.InstanceID]string{}
	for _, id := range of[testNode] {
		all[id] = strings.ReplaceAll(testDomain, "ID", string(id))
	}
	return all
}

// testNode is the only node.
const testNode = "host1"

// testReport is the report of testNode's worker.
var testReport = seedbed.NodeReport{CPUs: 4, Memory: 16 * seedbed.GiB, MemoryFree: 12 * seedbed.GiB,
	Domains: 1, Arch: "x86_64", Hypervisor: "QEMU 7.2.0 (kvm)",
	Pools: []seedbed.PoolInfo{{Name: "default", Type: "dir", Size: 1060, Free: 40}}}

func start(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "seedbed.db")
	if err := sqldbtest.Make(path); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	_, err = db.CreateNetwork(t.Context(), seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), DHCP: true,
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.EnsureNode(t.Context(), testNode); err != nil {
		t.Fatal(err)
	}
	if err := db.NoteNode(t.Context(), testNode, testReport, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	disks := shelf{drivertest.NewPool(), new([]seedbed.TrashItem)}
	s := &server{db: db, intake: provision.NewIntake(db, intake.Serving{Node: testNode, Network: "default",
		Snapshots: disks.Snapshots, Backups: drivertest.Targets{Node: testNode}}),
		socket: filepath.Join(dir, "control.sock"), log: &lockedBuffer{}, shelf: disks}
	if s.terminals, err = drivertest.NewTerminals(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.terminals.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.serve(t, api.New(s.config()))
	s.routes = routes(t, s.url)
	return s
}

func (s *server) config() api.Config {
	return api.Config{
		Store: s.db, Intake: s.intake, Pools: []string{"default"}, VolumeJobs: s.intake, OVAs: s.intake, Uploads: s.shelf,
		MaxUpload: maxUpload, Adoptions: s.intake, Strangers: strangers{}, Snapshots: s.shelf, Trash: s.shelf, Console: consoles{},
		Backups: drivertest.Targets{Node: testNode}, BackupJobs: s.intake,
		Schedules: cleanup.NewScheduler(s.db, nil, s.intake, slog.New(slog.DiscardHandler)),
		Domains:   consoles{}, Terminals: s.terminals, Usage: s.terminals.Usage, Fencing: fences{s.db},
		Metadata: func(_ context.Context, i seedbed.Instance, path string) ([]byte, string, bool, error) {
			return []byte(i.Name + path), "text/plain", path != "/nothing", nil
		},
		Clean: func(_ context.Context, dryRun, force bool) (seedbed.CleanupReport, error) {
			if !dryRun && !force {
				return seedbed.CleanupReport{Refused: "libvirt does not answer"}, nil
			}
			if dryRun && force {
				return seedbed.CleanupReport{}, errors.New("disk I/O error in /var/lib")
			}
			return seedbed.CleanupReport{Items: []seedbed.CleanupItem{{Task: "mappings", Action: "drop", Subject: "web1", Detail: "gone"}}}, nil
		},
		Checks: []func(context.Context) []seedbed.Check{
			func(context.Context) []seedbed.Check { return []seedbed.Check{{Name: "store", OK: true}} },
			func(context.Context) []seedbed.Check { return nil },
			func(context.Context) []seedbed.Check {
				return []seedbed.Check{{Name: "port 80", Detail: "nginx", Hint: "stop it"}}
			},
		},
		Deliveries: outbox.New(outbox.Config{Store: s.db, Directory: s.db, Node: testNode, Log: slog.New(slog.DiscardHandler)}),
		Receiving:  s.receiving(),
		Metrics:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") }),
		SigningKey: func(version, given string) (seedbed.EndpointKey, string, error) {
			if given == "" && version == seedbed.SignV1 {
				return seedbed.EndpointKey{Version: version, Key: bytes.Repeat([]byte{7}, 32)}, "whsec_BwcH", nil
			}
			return signature.EndpointKey(version, given)
		},
		CheckProfile: s.intake.CheckProfile, CheckDocument: s.intake.CheckDocument,
		Change: func(ctx context.Context, name seedbed.InstanceName, change func(*seedbed.Instance) error) (seedbed.Instance, error) {
			return s.db.ChangeInstance(ctx, name, change, record.Renderer{}.Of)
		},
		DefaultNetwork: "default", DefaultPool: "default", PVCUplink: "br-pvc",
		NetworkPrefixes: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("fd12:3456:789a::/48")},
		Resolvers:       []netip.Addr{netip.MustParseAddr("192.0.2.53")},
		Token:           []byte(token + "\n"), Version: "1.2.3", Node: testNode,
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
}

// serve starts the API on a TCP port and on the socket.
func (s *server) serve(t *testing.T, a *api.Server) {
	t.Helper()
	s.serveOn(t, listen(t), a)
}

// listen listens on a port of its own.
func listen(t *testing.T) net.Listener {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return tcp
}

func (s *server) serveOn(t *testing.T, tcp net.Listener, a *api.Server) {
	t.Helper()
	unix, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + tcp.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Serve(ctx, tcp); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := a.ServeSocket(ctx, unix); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	s.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(func() { s.stop(); transport.CloseIdleConnections() })
}

// restart serves the API again, with the configuration c.
func (s *server) restart(t *testing.T, c api.Config) {
	t.Helper()
	s.stop()
	s.serve(t, api.New(c))
	s.routes = routes(t, s.url)
}

type response struct {
	status int
	header http.Header
	body   string
}

// do makes one request, with the token unless header replaces it, and compares the answer with the
// description.
func (s *server) do(t *testing.T, method, path, body string, header ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := response{res.StatusCode, res.Header, string(raw)}
	req.Body = io.NopCloser(strings.NewReader(body))
	s.described(t, req, r)
	return r
}

// pvcPath matches the paths whose answers have PVC's form.
var pvcPath = regexp.MustCompile(`^/api/v1(/?$|/(login|logout|auth|status|tasks|provisioner|vm|node|network|storage|` +
	`faults|backup|restore|initialize|metrics|sriov)(/|$))`)

// described compares an answer, and the request if it was accepted, with the description.
func (s *server) described(t *testing.T, req *http.Request, r response) {
	t.Helper()
	want := "application/problem+json"
	if pvcPath.MatchString(req.URL.Path) {
		want = "application/json"
	}
	if kind := r.header.Get("Content-Type"); r.status >= 400 && kind != want {
		t.Errorf("%s %s: %d with content type %q", req.Method, req.URL, r.status, kind)
	}
	if req.Method == http.MethodHead {
		return // the answer to GET without its body
	}
	route, params, err := s.routes.FindRoute(req)
	if err != nil {
		if r.status != 404 && r.status != 405 && r.status != 401 {
			t.Errorf("%s %s: %d from a route that is not described", req.Method, req.URL, r.status)
		}
		return
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	for name, v := range params {
		if plain, err := url.PathUnescape(v); err == nil {
			params[name] = plain // the router has the path as it was sent
		}
	}
	request := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	if r.status < 300 {
		if err := openapi3filter.ValidateRequest(t.Context(), request); err != nil {
			t.Errorf("%s %s was taken, but is not as described: %v", req.Method, req.URL, err)
		}
	}
	input := &openapi3filter.ResponseValidationInput{RequestValidationInput: request, Status: r.status, Header: r.header, Options: options}
	input.SetBodyBytes([]byte(r.body))
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s %s: %d %s\nis not as described: %v", req.Method, req.URL, r.status, r.body, err)
	}
}

// importImage runs an import job to its end, as the engine would.
func (s *server) importImage(t *testing.T, name string) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := s.do(t, "POST", "/api/v1/images", `{"name":"`+name+`","path":"/img.qcow2"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	job := s.claim(t)
	must(s.db.Step(ctx, job.Ref(), seedbed.Step{Next: "import", Total: 1}))
	must(s.db.Step(ctx, job.Ref(), seedbed.Step{Done: "import", Total: 1, Image: &seedbed.ImageInfo{
		Pool: "default", Name: name, Job: job.ID, Size: seedbed.GiB, Format: "qcow2", SHA256: strings.Repeat("ab", 32)}}))
	must(s.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
}

func (s *server) claim(t *testing.T) *seedbed.Job {
	t.Helper()
	job, err := s.db.ClaimJob(t.Context(), "test", time.Minute)
	if err != nil || job == nil {
		t.Fatalf("job %v, error %v", job, err)
	}
	return job
}

// receiving returns a receiver of webhooks whose new secrets are always the same.
func (s *server) receiving() api.Receiving {
	hooks := webhook.New(webhook.Config{Hooks: s.db, History: s.db, Jobs: s.db, Intake: s.intake, Log: slog.New(slog.DiscardHandler),
		Networks: webhook.Networks{Store: s.db}})
	return api.Receiving{
		Check: hooks.CheckHook, CheckKeys: webhook.CheckKeys, ParseKey: signature.ParseKey, DryRun: hooks.DryRun, Redeliver: hooks.Redeliver,
		NewKey: func(seedbed.HookSettings) ([]byte, string, error) {
			return bytes.Repeat([]byte{7}, 32), "whsec_BwcH", nil
		},
	}
}
