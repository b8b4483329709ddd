package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/internal/testdb"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/provision/network"
	"seedbed/provision/record"
	"seedbed/store"
	"seedbed/webhook"
	"seedbed/webhook/signature"
)

// The hook of the installation under test.
var hookKey = bytes.Repeat([]byte{42}, 32)

// installation is a store with an image, a network, a profile and a hook, and a webhook server on
// it.
type installation struct {
	db     *store.DB
	server *webhook.Server
	url    string
}

func install(t *testing.T) *installation {
	t.Helper()
	return installWith(t, webhook.Config{})
}

// installWith is install with some of a configuration.
func installWith(t *testing.T, c webhook.Config) *installation {
	t.Helper()
	return installOn(t, testdb.Open(t), c)
}

// installOn is installWith on a store, which it closes.
func installOn(t *testing.T, db *store.DB, c webhook.Config) *installation {
	t.Helper()
	t.Cleanup(func() { db.Close() })
	requests := provision.NewIntake(db, intake.Serving{Node: "host1"})
	furnish(t, db, requests)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c.Hooks, c.History, c.Jobs, c.Intake, c.Queue = db, db, db, requests, db
	c.ProjectRates = db.ProjectRates
	c.Networks = networksOf(db)
	c.Log, c.APIBase = slog.New(slog.DiscardHandler), "http://127.0.0.1:7370"
	server := webhook.New(c)
	go func() { done <- server.Serve(serving, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &installation{db: db, server: server, url: "http://" + ln.Addr().String() + "/hooks/ci"}
}

// networksOf gives hooks the networks of a store. Projects may have those within 10.128.0.0/9.
func networksOf(db *store.DB) webhook.Networks {
	return webhook.Networks{
		Rules: network.Rules{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}}, Store: db,
		Change: func(
			ctx context.Context, n seedbed.InstanceName, change func(*seedbed.Instance) error,
		) (seedbed.Instance, error) {
			return db.ChangeInstance(ctx, n, change, record.Renderer{}.Of)
		},
	}
}

// furnish adds what a create needs, and a hook.
func furnish(t *testing.T, db *store.DB, requests *intake.Intake) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := requests.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: "/debian.qcow2"}, seedbed.JobOptions{})
	must(err)
	job, err := db.ClaimJob(ctx, "test", time.Minute)
	must(err)
	must(db.Step(ctx, job.Ref(), seedbed.Step{Next: "import", Total: 1}))
	must(db.Step(ctx, job.Ref(), seedbed.Step{Done: "import", Total: 1, Image: &seedbed.ImageInfo{
		Pool: "default", Name: "debian", Job: job.ID, Size: seedbed.GiB, Format: "qcow2"}}))
	must(db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err = db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")})
	must(err)
	_, err = db.CreateProfile(ctx, seedbed.Profile{Name: "small", Image: "debian", VCPUs: 1, Memory: 512 * seedbed.MiB, Network: "default"})
	must(err)
	_, err = db.CreateHook(ctx, seedbed.Hook{Name: "ci", HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeStandard},
		Keys: []seedbed.HookKey{{ID: "k1", Secret: hookKey}}, Actions: []string{"create", "remove"}})
	must(err)
}

// reply is an answer of either kind.
type reply struct {
	status     int
	retryAfter string
	Job        seedbed.JobID    `json:"job"`
	State      seedbed.JobState `json:"state"`
	Duplicate  bool             `json:"duplicate"`
	Cancels    seedbed.JobID    `json:"cancels"`
	Detail     string           `json:"detail"`
	Decision   seedbed.Decision `json:"decision"`
	Error      string           `json:"error"`
}

func (i *installation) send(t *testing.T, client *http.Client, id, body string) reply {
	t.Helper()
	r, err := post(t, client, i.url, id, body)
	if err != nil {
		t.Error(err)
	}
	return r
}

// post signs a delivery and sends it, with more headers: names and values.
func post(t *testing.T, client *http.Client, url, id, body string, more ...string) (r reply, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signature.HeaderID, id)
	req.Header.Set(signature.HeaderTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(signature.HeaderSignature, signature.Sign(hookKey, id, now, []byte(body)))
	for pair := range slices.Chunk(more, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	r = reply{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After")}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// newClient is a client of its own, whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

func create(name string) string {
	return fmt.Sprintf(`{"action":"create","name":%q,"profile":"small","params":{"vcpus":2,"memory":"1GiB"}}`, name)
}

func TestDeliveryIsDurableAndRepeatable(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	first := i.send(t, client, "msg_1", create("web1"))
	if first.status != 202 || first.Duplicate || first.State != seedbed.JobQueued {
		t.Fatalf("first: %+v", first)
	}
	if job, err := i.db.Job(t.Context(), first.Job); err != nil || job.Subject != "web1" {
		t.Errorf("job %+v, error %v", job, err)
	}
	if inst, err := i.db.InstanceByName(t.Context(), seedbed.InDefault("web1")); err != nil || inst.VCPUs != 2 || inst.Memory != seedbed.GiB {
		t.Errorf("instance %+v, error %v", inst, err)
	}
	if again := i.send(t, client, "msg_1", create("web1")); again.status != 202 || !again.Duplicate || again.Job != first.Job {
		t.Errorf("same id, same body: %+v, want the job %s as a duplicate", again, first.Job)
	}
	if other := i.send(t, client, "msg_1", create("web2")); other.status != 409 {
		t.Errorf("same id, other body: %+v, want 409", other)
	}
	if taken := i.send(t, client, "msg_2", create("web1")); taken.status != 409 || taken.Job != first.Job {
		t.Errorf("name in use: %+v, want 409 with the holder %s", taken, first.Job)
	}
	all, err := i.db.Deliveries(t.Context(), seedbed.DeliveryQuery{Limit: 10})
	if err != nil || len(all) != 2 || all[1].Job != first.Job || all[1].Hook != "ci" || all[1].ID != "msg_1" ||
		all[0].Decision != seedbed.DecisionRefused {
		t.Errorf("deliveries %+v, error %v", all, err)
	}
}

func TestRefusedDeliveriesLeaveNothing(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	for body, status := range map[string]int{
		create("Not_A_Host"): 422,
		`{"action":"create","name":"web1","profile":"nobody"}`:                        422,
		`{"action":"create","name":"web1","profile":"small","params":{"evil":1}}`:     422,
		`{"action":"create","name":"web1","profile":"small","params":{"vcpus":"x"}}`:  422,
		`{"action":"create","name":"../../etc","profile":"small"}`:                    422,
		"{\"action\":\"create\",\"name\":\"a\\u0000b\",\"profile\":\"small\"}":        422,
		`{"action":"remove","name":"nobody"}`:                                         422,
		`{"action":"create","name":"web1","profile":"small","params":{"memory":"1"}}`: 422,
	} {
		if r := i.send(t, client, "msg_1", body); r.status != status || r.Detail == "" {
			t.Errorf("%s: %+v, want %d", body, r, status)
		}
	}
	if all, err := i.db.Jobs(t.Context(), 10); err != nil || len(all) != 1 {
		t.Errorf("%d jobs (%v), want the import alone", len(all), err)
	}
	if all, err := i.db.Deliveries(t.Context(), seedbed.DeliveryQuery{Limit: 10}); err != nil || len(all) != 1 ||
		all[0].Decision != seedbed.DecisionRefused || all[0].Detail == "" {
		t.Errorf("deliveries %+v (%v), want the last refusal alone", all, err)
	}
	if r := i.send(t, client, "msg_1", create("web1")); r.status != 202 || r.Duplicate {
		t.Errorf("%+v, want 202: the id was not used up", r)
	}
}

func TestParallelDuplicatesMakeOneJob(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	const n = 100
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() {
			replies[k] = i.send(t, client, "msg_1", create("web1"))
			for replies[k].status == http.StatusServiceUnavailable && sleep.For(t.Context(), 100*time.Millisecond) { // a busy database
				replies[k] = i.send(t, client, "msg_1", create("web1"))
			}
		})
	}
	wg.Wait()
	first := 0
	for _, r := range replies {
		if r.status != 202 || r.Job != replies[0].Job {
			t.Fatalf("%+v, want 202 for job %s", r, replies[0].Job)
		}
		if !r.Duplicate {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d of %d say they were first", first, n)
	}
	if all, err := i.db.Jobs(t.Context(), 200); err != nil || len(all) != 2 {
		t.Errorf("%d jobs (%v), want the import and one create", len(all), err)
	}
}

// Beyond the bound of the queue deliveries are put off; one that has its job is answered with that,
// and what is refused takes no place.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	i, client := installWith(t, webhook.Config{MaxQueued: 2}), newClient(t)
	if r := i.send(t, client, "msg_0", create("Not_A_Host")); r.status != 422 {
		t.Fatalf("%+v, want 422", r)
	}
	first := i.send(t, client, "msg_1", create("web1"))
	if second := i.send(t, client, "msg_2", create("web2")); first.status != 202 || second.status != 202 {
		t.Fatalf("%+v, %+v, want 202", first, second)
	}
	third := i.send(t, client, "msg_3", create("web3"))
	if third.status != 429 || third.retryAfter == "" || !strings.Contains(third.Detail, "2 jobs wait") {
		t.Errorf("%+v, want 429 with Retry-After", third)
	}
	if again := i.send(t, client, "msg_1", create("web1")); again.status != 202 || !again.Duplicate || again.Job != first.Job {
		t.Errorf("%+v, want the job %s as a duplicate", again, first.Job)
	}
	if third = i.send(t, client, "msg_3", create("web3")); third.status != 429 {
		t.Errorf("%+v, want 429: the duplicate has made no room", third)
	}
	if n, err := i.db.Queued(t.Context(), 10); err != nil || n != 2 {
		t.Errorf("%d jobs wait (%v), want 2", n, err)
	}
	if n, err := i.db.Queued(t.Context(), 1); err != nil || n != 1 {
		t.Errorf("%d jobs wait (%v), want no more counted than 1", n, err)
	}
	if _, err := i.db.ClaimJob(t.Context(), "test", time.Minute); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); third.status == 429 && time.Now().Before(deadline); {
		third = i.send(t, client, "msg_3", create("web3"))
	}
	if third.status != 202 {
		t.Errorf("%+v, want 202 once a job is worked on", third)
	}
}

func TestClosedStoreAcceptsNothing(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	i.db.Close()
	for k := range 3 {
		if r := i.send(t, client, fmt.Sprint("msg_", k), create("web1")); r.status != 503 || r.retryAfter == "" {
			t.Errorf("%+v, want 503 with Retry-After", r)
		}
	}
}

// A delivery that has a job keeps it, whatever the hook's rules say by then.
func TestDuplicateOfOlderRules(t *testing.T) {
	t.Parallel()
	i := install(t)
	client := newClient(t)
	const body = `{"action":"create","name":"web1","profile":"small"}`
	first := i.send(t, client, "msg_1", body)
	if first.status != http.StatusAccepted {
		t.Fatalf("answered %+v", first)
	}
	for name, change := range map[string]func(*seedbed.Hook){
		"another action": func(h *seedbed.Hook) { h.Actions = []string{"remove"} },
		"other rules":    func(h *seedbed.Hook) { h.When = "false" },
	} {
		h, err := i.db.Hook(t.Context(), "ci")
		if err != nil {
			t.Fatal(err)
		}
		change(&h)
		if _, err := i.db.UpdateHook(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if again := i.send(t, client, "msg_1", body); again.status != http.StatusAccepted || !again.Duplicate || again.Job != first.Job {
			t.Errorf("%s: answered %+v, want the job %s again", name, again, first.Job)
		}
		if other := i.send(t, client, "msg_1", body+" "); other.Job != "" {
			t.Errorf("%s: another body of the same id got a job: %+v", name, other)
		}
	}
}
