package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"seedbed"
)

func testEventsOfLife(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	b.endpoint("ready", seedbed.EventInstanceReady)
	a := createOf("web1")
	a.Delivery = delivery("msg_1", "x")
	get(b.Accept(ctx, a))(b)
	again := createOf("web1")
	again.Delivery = delivery("msg_1", "x")
	get(b.Accept(ctx, again))(b) // a duplicate sends no event
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "start", InstanceState: seedbed.InstanceRunning}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	get(b.Accept(ctx, removeOf(a.Instance.ID)))(b)
	j = b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(b.told("all"), []string{
		"1 job.accepted web1 pending", "2 job.started web1 pending", "3 job.stage web1 pending", "4 job.stage web1 pending",
		"5 job.succeeded web1 pending", "6 instance.ready web1 pending",
		"7 job.accepted web1 pending", "8 job.started web1 pending", "9 job.succeeded web1 pending", "10 instance.removed web1 pending",
	})
	b.equal(b.told("ready"), []string{"1 instance.ready web1 pending"})

	all := get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{}))(b)
	type told struct {
		Job struct {
			ID, Kind, State, Stage string
			Done, Total            int
		}
		Hook, Delivery string
		Instance       struct {
			ID, Name, Profile, Image, Node string
			NICs                           []struct{ Network, MAC, Addr string }
		}
	}
	read := func(seq int) (v told) {
		b.Helper()
		if seq == 6 || seq == 10 { // here, job is only the ID
			var i struct{ Instance json.RawMessage }
			b.must(json.Unmarshal(all[10-seq].Data, &i))
			b.must(json.Unmarshal(i.Instance, &v.Instance))
			return v
		}
		b.must(json.Unmarshal(all[10-seq].Data, &v))
		return v
	}
	accepted := read(1)
	b.equal([]any{accepted.Job.ID, accepted.Job.Kind, accepted.Job.State, accepted.Hook, accepted.Delivery},
		[]any{string(a.Job.ID), "create", "queued", "ci", "msg_1"})
	stage := read(4)
	b.equal([]any{stage.Job.State, stage.Job.Stage, stage.Job.Done, stage.Job.Total}, []any{"running", "start", 1, 2})
	b.equal(read(5).Job.State, "succeeded")
	ready := read(6).Instance
	b.equal([]any{ready.ID, ready.Name, ready.Profile, ready.Node, ready.NICs[0].Addr},
		[]any{string(a.Instance.ID), "web1", "web", node, "10.99.0.2"})
	b.equal(read(10).Instance.ID, string(a.Instance.ID))
	ids := map[string]bool{}
	for _, o := range all {
		ids[o.ID] = true
		for _, secret := range []string{"cloud-config", "AAAA", `"tok"`} {
			if strings.Contains(string(o.Data), secret) {
				b.Errorf("%s tells %s: %s", o.Type, secret, o.Data)
			}
		}
	}
	b.equal(len(ids), 10)
}

func testEventsOfUndo(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	fail := func(name, why string, cancel bool) seedbed.Outgoing {
		b.Helper()
		get(b.Accept(ctx, createOf(name)))(b)
		j := b.claim()
		if cancel {
			b.must(b.CancelJob(ctx, j.ID))
		}
		b.must(b.Undo(ctx, j.Ref(), why))
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
		return get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{Limit: 1}))(b)[0]
	}
	failed := fail("web1", "no KVM", false)
	b.equal(failed.Type, seedbed.EventJobFailed)
	for _, want := range []string{`"state":"rolled_back"`, `"error":"no KVM"`} {
		if !strings.Contains(string(failed.Data), want) {
			b.Errorf("%s does not tell %s", failed.Data, want)
		}
	}
	b.equal(fail("web2", "no KVM", true).Type, seedbed.EventJobCancelled)
}

// Events do not quote what a script has written. The job does, for those who may read it.
func testEventsOfScript(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	get(b.Accept(ctx, createOf("web1")))(b)
	j := b.claim()
	const why = "stage install: Error in script install() step: hush"
	b.must(b.Undo(ctx, j.Ref(), why))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	told := get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{Limit: 1}))(b)[0]
	b.equal(told.Type, seedbed.EventJobFailed)
	if data := string(told.Data); strings.Contains(data, "hush") ||
		!strings.Contains(data, `"error":"stage install: a provisioning script wrote this: `) ||
		!strings.Contains(data, `(seedbed job show `+string(j.ID)+`)"`) {
		b.Errorf("the event has %s", data)
	}
	b.equal(get(b.Job(ctx, j.ID))(b).Error, why)
}

// A refused request sends no events, and uses up no seq.
func testNoEvents(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	get(b.Accept(ctx, createOf("web1")))(b)
	_, err := b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrExists)
	get(b.Accept(ctx, createOf("web2")))(b)
	b.equal(b.told("all"), []string{"1 job.accepted web1 pending", "2 job.accepted web2 pending"})
}

func testEventsOfNodes(b *bench) {
	ctx := context.Background()
	b.endpoint("all", "node.*")
	b.equal(len(get(b.KnownMembers(ctx))(b)), 0)
	two := []seedbed.Member{{Node: "node2", Version: "1.2.3", CPUs: 8, Memory: seedbed.GiB}, {Node: "node1"}}
	b.must(b.ChangeMembers(ctx, two, nil))
	b.must(b.ChangeMembers(ctx, two[1:], []string{"node9"})) // known already, and never a member
	b.equal(get(b.KnownMembers(ctx))(b), []string{"node1", "node2"})
	b.must(b.ChangeMembers(ctx, []seedbed.Member{{Node: "node3"}}, []string{"node2"}))
	b.equal(get(b.KnownMembers(ctx))(b), []string{"node1", "node3"})
	b.equal(b.told("all"),
		[]string{"1 node.joined node2 pending", "2 node.joined node1 pending", "3 node.left node2 pending", "4 node.joined node3 pending"})
	all := get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{}))(b)
	b.equal(string(all[3].Data), `{"node":"node2","version":"1.2.3","cpus":8,"memory":"1GiB"}`)
	b.equal(string(all[1].Data), `{"node":"node2"}`)
}

func testEventsOfCleanup(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.endpoint("all", "cleanup.*")
	b.must(b.NotePresence(ctx, node, nil, day))
	b.equal(get(b.DropMapping(ctx, i.ID, day))(b), true)
	b.equal(get(b.DropMapping(ctx, i.ID, day))(b), false)
	b.must(b.CleanupFinished(ctx, map[string]int{"mappings": 1}))
	b.equal(b.told("all"), []string{"1 cleanup.released web1 pending", "2 cleanup.finished cleanup pending"})
	for at, want := range []string{`{"taken":{"mappings":1}}`, `"addr":"10.99.0.2"`} {
		if o := get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{}))(b)[at]; !strings.Contains(string(o.Data), want) {
			b.Errorf("%s: %s does not tell %s", o.Type, o.Data, want)
		}
	}
}

func testEventsOfNode(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.endpoint("all", "node.*")
	planned := seedbed.Maintenance{Code: "system-reboot", Description: "new kernel", NotBefore: day}
	one := get(b.AddMaintenance(ctx, node, "", planned))(b)
	two := get(b.AddMaintenance(ctx, node, "", planned))(b)
	get(b.AddMaintenance(ctx, "", i.ID, planned))(b) // an instance's event is not a node's
	get(b.EndMaintenance(ctx, one.ID, seedbed.MaintenanceCompleted))(b)
	get(b.EndMaintenance(ctx, two.ID, seedbed.MaintenanceCanceled))(b)
	b.equal(b.told("all"), []string{
		"1 node.maintenance.announced node1 pending", "2 node.maintenance.announced node1 pending",
		"3 node.maintenance.completed node1 pending", "4 node.maintenance.canceled node1 pending",
	})
	last := get(b.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{Limit: 1}))(b)[0]
	if !strings.Contains(string(last.Data), `"node":"node1"`) || !strings.Contains(string(last.Data), two.ID) {
		b.Errorf("it tells %s", last.Data)
	}
}

func testEndpoints(b *bench) {
	ctx := context.Background()
	e := endpointOf("ci", "job.*", seedbed.EventInstanceReady)
	e.CloudEvents, e.AllowPrivate, e.Insecure = true, true, true
	made := get(b.CreateEndpoint(ctx, e))(b)
	if made.Created.IsZero() || !made.Enabled || len(made.Keys) != 1 || made.Keys[0].ID == "" || string(made.Keys[0].Key) != string(key32) {
		b.Fatalf("made %+v", made)
	}
	want := e
	want.Enabled, want.Created, want.Keys = true, made.Created, made.Keys
	b.equal(made, want)
	b.equal(get(b.Endpoint(ctx, "ci"))(b), made)
	_, err := b.CreateEndpoint(ctx, e)
	b.want(err, seedbed.ErrExists, `"ci"`)
	b.equal(get(b.Endpoints(ctx))(b), []seedbed.Endpoint{made})
	for what, change := range map[string]func(*seedbed.Endpoint){
		"name":        func(e *seedbed.Endpoint) { e.Name = "../x" },
		"plain http":  func(e *seedbed.Endpoint) { e.URL = "http://x.example/" },
		"user":        func(e *seedbed.Endpoint) { e.URL = "https://u:hunter2@x.example/" },
		"no host":     func(e *seedbed.Endpoint) { e.URL = "https:///x" },
		"scheme":      func(e *seedbed.Endpoint) { e.URL = "file:///etc/passwd" },
		"line end":    func(e *seedbed.Endpoint) { e.URL = "https://x.example/\r\nX: y" },
		"fragment":    func(e *seedbed.Endpoint) { e.URL = "https://x.example/#a" },
		"no event":    func(e *seedbed.Endpoint) { e.Events = nil },
		"wrong event": func(e *seedbed.Endpoint) { e.Events = []string{"job.exploded"} },
		"wrong kind":  func(e *seedbed.Endpoint) { e.Events = []string{"hook.*"} },
		"no key":      func(e *seedbed.Endpoint) { e.Keys = nil },
		"two keys":    func(e *seedbed.Endpoint) { e.Keys = append(e.Keys, e.Keys[0]) },
		"no version":  func(e *seedbed.Endpoint) { e.Keys = []seedbed.EndpointKey{{Version: "v2", Key: key32}} },
		"long seed":   func(e *seedbed.Endpoint) { e.Keys = []seedbed.EndpointKey{{Version: "v1a", Key: make([]byte, 64)}} },
		"short key":   func(e *seedbed.Endpoint) { e.Keys = []seedbed.EndpointKey{{Key: key32[:23]}} },
	} {
		bad := endpointOf("other", "*")
		change(&bad)
		_, err := b.CreateEndpoint(ctx, bad)
		if err == nil {
			b.Errorf("%s: made", what)
			continue
		}
		b.want(err, seedbed.ErrInvalid)
		if strings.Contains(err.Error(), "hunter2") {
			b.Errorf("%s: %v tells the password", what, err)
		}
	}
	b.must(b.DeleteEndpoint(ctx, "ci"))
	for _, err := range []error{
		b.DeleteEndpoint(ctx, "ci"),
		second(b.Endpoint(ctx, "ci")), second(b.ChangeEndpoint(ctx, "ci", enabled)), second(b.ChangeEndpoint(ctx, "ci", disabled)),
		second(b.RotateEndpointKeys(ctx, "ci", hmacKey(key32), 0)), second(b.Resend(ctx, "ci", "x")), second(b.Replay(ctx, "ci", day, false)),
		second(b.OutgoingDeliveries(ctx, "ci", seedbed.OutgoingQuery{})),
	} {
		b.want(err, seedbed.ErrNotFound, `"ci"`)
	}
}

func hmacKey(key []byte) []seedbed.EndpointKey { return []seedbed.EndpointKey{{Key: key}} }

func second[T any](_ T, err error) error { return err }

func testEndpointRotation(b *bench) {
	ctx := context.Background()
	first := b.endpoint("ci", "*").Keys[0]
	e := get(b.RotateEndpointKeys(ctx, "ci", hmacKey([]byte("second key second key second key")), time.Hour))(b)
	if len(e.Keys) != 2 || e.Keys[0].ID != first.ID || time.Until(e.Keys[0].Expires) < 50*time.Minute || !e.Keys[1].Expires.IsZero() {
		b.Fatalf("keys %+v", e.Keys)
	}
	// A shorter overlap shortens that of the older keys too.
	e = get(b.RotateEndpointKeys(ctx, "ci", hmacKey(key32), time.Minute))(b)
	if len(e.Keys) != 3 || time.Until(e.Keys[0].Expires) > time.Minute {
		b.Fatalf("keys %+v", e.Keys)
	}
	get(b.RotateEndpointKeys(ctx, "ci", hmacKey(key32), time.Minute))(b)
	_, err := b.RotateEndpointKeys(ctx, "ci", hmacKey(key32), time.Minute)
	b.want(err, seedbed.ErrConflict, "4 keys")
	e = get(b.RotateEndpointKeys(ctx, "ci", hmacKey([]byte("last key last key last key last key")), 0))(b)
	if len(e.Keys) != 1 || !strings.HasPrefix(string(e.Keys[0].Key), "last") {
		b.Fatalf("keys %+v", e.Keys)
	}
	_, err = b.RotateEndpointKeys(ctx, "ci", hmacKey(key32), -1)
	b.want(err, seedbed.ErrInvalid)
	_, err = b.RotateEndpointKeys(ctx, "ci", hmacKey([]byte("short")), 0)
	b.want(err, seedbed.ErrInvalid)
}

// An endpoint changes from one version of signatures to another.
func testEndpointVersions(b *bench) {
	ctx := context.Background()
	e := endpointOf("ci", "*")
	e.Keys = append(e.Keys, seedbed.EndpointKey{Version: seedbed.SignV1a, Key: key32, Public: "whpk_x"})
	e = get(b.CreateEndpoint(ctx, e))(b)
	signs := e.Signs()
	slices.Sort(signs)
	b.equal(signs, []string{seedbed.SignV1, seedbed.SignV1a})
	for _, k := range e.Keys {
		b.equal(k.Public, map[string]string{seedbed.SignV1a: "whpk_x"}[k.Version])
	}
	only := []seedbed.EndpointKey{{Version: seedbed.SignV1a, Key: key32, Public: "whpk_y"}}
	e = get(b.RotateEndpointKeys(ctx, "ci", only, time.Hour))(b)
	b.equal(len(e.Keys), 3)
	b.equal(e.Signs(), []string{seedbed.SignV1a})
	e = get(b.RotateEndpointKeys(ctx, "ci", only, 0))(b)
	b.equal([]any{len(e.Keys), e.Keys[0].Public}, []any{1, "whpk_y"})
}

// Pending deliveries to an endpoint that is changed stay, in their order.
func testChangedEndpoint(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "cleanup.*")
	b.happen(2)
	c := b.due()
	b.must(b.RecordOutgoing(ctx, c, seedbed.Attempt{State: seedbed.OutgoingPending, Retry: time.Hour, Pause: time.Hour, Error: "x"}))
	e := get(b.ChangeEndpoint(ctx, "one", seedbed.EndpointChange{Events: &[]string{"node.*"}}))(b)
	b.equal(e.Events, []string{"node.*"})
	b.equal(e.Failures, 1) // its URL is unchanged
	b.happen(1)
	b.equal(b.told("one"), []string{"1 cleanup.finished cleanup pending", "2 cleanup.finished cleanup pending"})
	b.equal(b.idle() > 30*time.Minute, true)
	for what, change := range map[string]seedbed.EndpointChange{
		"events":     {Events: &[]string{}},
		"event":      {Events: &[]string{"job.exploded"}},
		"plain http": {URL: new("http://one.example/")},
		"user":       {URL: new("https://u:p@one.example/")},
	} {
		if _, err := b.ChangeEndpoint(ctx, "one", change); !errors.Is(err, seedbed.ErrInvalid) {
			b.Errorf("%s: %v", what, err)
		}
	}
	// At a new URL everything is due at once, and the old URL's answers do not count.
	e = get(b.ChangeEndpoint(ctx, "one", seedbed.EndpointChange{URL: new("http://10.0.0.1/"), AllowPrivate: new(true)}))(b)
	b.equal([]any{e.URL, e.AllowPrivate, e.Failures, e.OpenUntil.IsZero(), e.Enabled}, []any{"http://10.0.0.1/", true, 0, true, true})
	c = b.due()
	b.equal([]any{c.Outgoing.Seq, c.Outgoing.Attempts, c.Endpoint.URL}, []any{int64(1), 1, "http://10.0.0.1/"})
	get(b.ChangeEndpoint(ctx, "one", seedbed.EndpointChange{URL: new("https://two.example/"), Insecure: new(true)}))(b)
	b.want(b.RecordOutgoing(ctx, c, seedbed.Attempt{State: seedbed.OutgoingDead, Disable: "gone"}), seedbed.ErrStale)
	c = b.due()
	b.equal([]any{c.Outgoing.Seq, c.Endpoint.URL, c.Endpoint.Insecure}, []any{int64(1), "https://two.example/", true})
	b.must(b.RecordOutgoing(ctx, c, sent))
	b.equal(b.due().Outgoing.Seq, int64(2))
}

// The other endpoints are notified once that an endpoint was disabled.
func testDisabledAndTold(b *bench) {
	ctx := context.Background()
	b.endpoint("a", "endpoint.disabled")
	b.endpoint("m", "cleanup.*", "endpoint.*")
	b.endpoint("z", "endpoint.*")
	b.happen(1)
	b.must(b.RecordOutgoing(ctx, b.due(), seedbed.Attempt{Status: 410, State: seedbed.OutgoingDead, Disable: "it answered 410 Gone"}))
	get(b.ChangeEndpoint(ctx, "m", disabled))(b)
	b.equal(b.told("m"), []string{"1 cleanup.finished cleanup dead"})
	for _, name := range []string{"a", "z"} {
		b.equal(b.told(name), []string{"1 endpoint.disabled m pending"})
	}
	got := string(get(b.OutgoingDeliveries(ctx, "a", seedbed.OutgoingQuery{Limit: 1}))(b)[0].Data)
	b.equal(got, `{"endpoint":"m","reason":"it answered 410 Gone"}`)
	get(b.ChangeEndpoint(ctx, "z", disabled))(b)
	b.equal(b.told("a")[1], "2 endpoint.disabled z pending")
	b.equal(b.told("z"), []string{"1 endpoint.disabled m skipped"})
}
