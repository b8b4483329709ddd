package storetest

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var acceptCases = map[string]func(*bench){
	"create":               testCreate,
	"create refused":       testCreateRefused,
	"delivery":             testDelivery,
	"name taken":           testNameTaken,
	"MAC taken":            testMACTaken,
	"addresses":            testAddresses,
	"equal addresses":      testEqualAddresses,
	"NIC numbers":          testNICNumbers,
	"image not active":     testImageNotActive,
	"remove":               testRemove,
	"bad job":              testBadJob,
	"cancelled by context": testContext,
}

func testCreate(b *bench) {
	ctx := context.Background()
	b.world()
	before := b.Hint()
	a := createOf("web1")
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued})
	select {
	case <-before:
	default:
		b.Error("the hint was not given")
	}
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	wanted := *a.Instance
	wanted.State, wanted.Revision, wanted.Datasource = seedbed.InstanceProvisioning, 1, seedbed.DatasourceEC2
	wanted.Follow, wanted.Project = seedbed.FollowPinned, seedbed.DefaultProject
	wanted.Account = get(b.Project(ctx, seedbed.DefaultProject))(b).Number
	wanted.NICs = []seedbed.NIC{{ID: i.NICs[0].ID, MAC: a.Instance.NICs[0].MAC, Network: "default", Addr: netip.MustParseAddr("10.99.0.2")}}
	b.equal(i, wanted, cmpopts.IgnoreFields(seedbed.Instance{}, "Created", "Changed"))
	if i.NICs[0].ID < 1 || i.Created.IsZero() {
		b.Fatalf("NIC %d, created %v", i.NICs[0].ID, i.Created)
	}
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b), i)
	b.equal(get(b.Instances(ctx))(b), []seedbed.Instance{i})
	j := get(b.Job(ctx, a.Job.ID))(b)
	b.equal(j, seedbed.Job{ID: a.Job.ID, Kind: seedbed.JobCreate, State: seedbed.JobQueued, Project: seedbed.DefaultProject, Subject: "web1",
		Instance: i.ID, Node: node, Pool: "default"}, cmpopts.IgnoreFields(seedbed.Job{}, "Created"))
	events := get(b.Events(ctx, j.ID, 0, 10))(b)
	if len(events) != 1 || events[0].Seq != 1 || events[0].Level != "info" || events[0].Job != j.ID {
		b.Fatalf("events: %+v", events)
	}
	_, err := b.Instance(ctx, seedbed.NewInstanceID())
	b.want(err, seedbed.ErrNotFound)
	_, err = b.InstanceByName(ctx, seedbed.InDefault("web2"))
	b.want(err, seedbed.ErrNotFound, `instance "web2"`)
}

// A refused request leaves nothing behind.
func testCreateRefused(b *bench) {
	ctx := context.Background()
	b.world()
	jobs := len(get(b.Jobs(ctx, 0))(b))
	for name, change := range map[string]func(*seedbed.Instance){
		"bad name":          func(i *seedbed.Instance) { i.Name = "Web_1" },
		"bad ID":            func(i *seedbed.Instance) { i.ID = "x" },
		"no image":          func(i *seedbed.Instance) { i.Image = "none" },
		"volume's image":    func(i *seedbed.Instance) { i.Volumes[0].Image = "none" },
		"image elsewhere":   func(i *seedbed.Instance) { i.Volumes[0].Pool = "other" },
		"no network":        func(i *seedbed.Instance) { i.NICs[0].Network = "none" },
		"no MAC":            func(i *seedbed.Instance) { i.NICs[0].MAC = seedbed.MAC{} },
		"gateway's address": func(i *seedbed.Instance) { i.NICs[0].Addr = netip.MustParseAddr("10.99.0.1") },
		"foreign address":   func(i *seedbed.Instance) { i.NICs[0].Addr = netip.MustParseAddr("10.98.0.9") },
		"last address":      func(i *seedbed.Instance) { i.NICs[0].Addr = netip.MustParseAddr("10.99.0.255") },
		"much user-data":    func(i *seedbed.Instance) { i.UserData = make([]byte, seedbed.MaxDocument+1) },
		"much vendor-data":  func(i *seedbed.Instance) { i.VendorData = make([]byte, seedbed.MaxDocument+1) },
		"unknown source":    func(i *seedbed.Instance) { i.Datasource = "azure" },
		"unknown option":    func(i *seedbed.Instance) { i.Metadata.Endpoint = "off" },
		"bad tag":           func(i *seedbed.Instance) { i.Tags = map[string]string{"a b": "c"} },
		"bad spot":          func(i *seedbed.Instance) { i.Spot = &seedbed.Spot{Action: "pause", Time: day} },
		"many NICs":         func(i *seedbed.Instance) { i.NICs = make([]seedbed.NIC, 100) },
		"a MAC twice": func(i *seedbed.Instance) {
			i.NICs = append(i.NICs, seedbed.NIC{Index: 1, MAC: i.NICs[0].MAC, Network: "default"})
		},
		"an address twice": func(i *seedbed.Instance) {
			i.NICs[0].Addr = netip.MustParseAddr("10.99.0.9")
			i.NICs = append(i.NICs, seedbed.NIC{Index: 1, MAC: newMAC(), Network: "default", Addr: i.NICs[0].Addr})
		},
		"unknown ready": func(i *seedbed.Instance) { i.Ready = "soon" },
	} {
		a := createOf("web1")
		a.Delivery = delivery("msg_"+strings.ReplaceAll(name, " ", ""), "x")
		change(a.Instance)
		_, err := b.Accept(ctx, a)
		if err == nil {
			b.Errorf("%s: accepted", name)
			continue
		}
		b.want(err, seedbed.ErrInvalid)
	}
	b.equal(len(get(b.Jobs(ctx, 0))(b)), jobs)
	b.equal(get(b.Instances(ctx))(b), []seedbed.Instance{})
	b.equal(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b), []seedbed.Delivery{})
	get(b.Accept(ctx, createOf("web1")))(b)
}

func delivery(id, body string) *seedbed.Delivery {
	return &seedbed.Delivery{Hook: "ci", ID: id, SHA256: sha256.Sum256([]byte(body)), Received: time.Now().UTC().Truncate(time.Microsecond)}
}

func testDelivery(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	a.Delivery = delivery("msg_1", "body")
	first := get(b.Accept(ctx, a))(b)
	again := createOf("web1")
	again.Delivery = delivery("msg_1", "body")
	b.equal(get(b.Accept(ctx, again))(b), seedbed.Receipt{Job: first.Job, State: seedbed.JobQueued, Duplicate: true})
	b.claim()
	b.equal(get(b.Accept(ctx, again))(b), seedbed.Receipt{Job: first.Job, State: seedbed.JobRunning, Duplicate: true})
	other := createOf("web2")
	other.Delivery = delivery("msg_1", "another body")
	_, err := b.Accept(ctx, other)
	b.want(err, seedbed.ErrConflict, `"msg_1"`, first.Job.Short())
	elsewhere := createOf("web2")
	elsewhere.Delivery = delivery("msg_1", "another body")
	elsewhere.Delivery.Hook = "another"
	b.equal(get(b.Accept(ctx, elsewhere))(b).Duplicate, false)
	kept := get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)
	b.equal(len(kept), 2)
	wanted := *a.Delivery
	wanted.Job, wanted.Decision, wanted.Headers = first.Job, seedbed.DecisionAccepted, map[string]string{}
	b.equal(kept[1], wanted)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Limit: 1}))(b)), 1)
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b), wanted)
	b.equal(get(b.Delivery(ctx, "another", "msg_1"))(b), kept[0])
	for _, unknown := range []string{"", "msg_2", "MSG_1", "msg_1\x00"} {
		_, err := b.Delivery(ctx, "ci", unknown)
		b.want(err, seedbed.ErrNotFound, `hook "ci"`)
	}
	_, err = b.Delivery(ctx, "none", "msg_1")
	b.want(err, seedbed.ErrNotFound)
}

func testNameTaken(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	_, err := b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrExists, `instance "web1" is being made by job `+j.ID.Short())
	b.equal(holder(err), j.ID)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	_, err = b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrExists, `instance "web1" exists already (made by job `+j.ID.Short()+")")
	b.equal(holder(err), j.ID)
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b).ID, i.ID)
}

func testMACTaken(b *bench) {
	ctx := context.Background()
	b.world()
	a, c := createOf("web1"), createOf("web2")
	c.Instance.NICs[0].MAC = a.Instance.NICs[0].MAC
	get(b.Accept(ctx, a))(b)
	_, err := b.Accept(ctx, c)
	b.want(err, seedbed.ErrExists, a.Instance.NICs[0].MAC.String(), `"web1"`)
	b.equal(holder(err), a.Job.ID)
	c.Instance.NICs[0].MAC = newMAC()
	get(b.Accept(ctx, c))(b)
}

func testAddresses(b *bench) {
	ctx := context.Background()
	b.image("debian")
	b.network("default", "seedbed0", "10.99.0.0/29")
	at := func(i seedbed.Instance) string { return i.NICs[0].Addr.String() }
	first := b.instance("web1")
	b.equal(at(first), "10.99.0.2")
	fixed := createOf("web2")
	fixed.Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.4")
	get(b.Accept(ctx, fixed))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(at(b.instance("web3")), "10.99.0.3")
	b.equal(at(b.instance("web4")), "10.99.0.5")
	b.equal(at(b.instance("web5")), "10.99.0.6")
	_, err := b.Accept(ctx, createOf("web6"))
	b.want(err, seedbed.ErrFull, `network "default" (10.99.0.0/29) has no free address`)
	taken := createOf("web6")
	taken.Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.4")
	_, err = b.Accept(ctx, taken)
	b.want(err, seedbed.ErrExists, "10.99.0.4", `"web2"`)
	b.remove(first.ID)
	b.equal(at(b.instance("web6")), "10.99.0.2")
}

// remove removes an instance with a remove job.
func (b *bench) remove(id seedbed.InstanceID) {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, removeOf(id)))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
}

// Addresses of overlapping networks are independent, also if the names of the networks look like
// patterns.
func testEqualAddresses(b *bench) {
	ctx := context.Background()
	b.world()
	b.network("d_fault", "seedbed1", "10.99.0.0/24")
	b.network("dxfault", "seedbed2", "10.99.0.0/24")
	for _, n := range []string{"default", "dxfault", "d_fault"} {
		a := createOf("in-" + strings.ReplaceAll(n, "_", "-"))
		a.Instance.NICs[0].Network = n
		get(b.Accept(ctx, a))(b)
		b.equal(get(b.Instance(ctx, a.Instance.ID))(b).NICs[0].Addr.String(), "10.99.0.2")
	}
	two := createOf("two-nics")
	two.Instance.NICs = []seedbed.NIC{{MAC: newMAC(), Network: "default"}, {Index: 1, MAC: newMAC(), Network: "default"}}
	get(b.Accept(ctx, two))(b)
	nics := get(b.Instance(ctx, two.Instance.ID))(b).NICs
	b.equal([]string{nics[0].Addr.String(), nics[1].Addr.String()}, []string{"10.99.0.3", "10.99.0.4"})
}

func testNICNumbers(b *bench) {
	b.world()
	var last seedbed.NICID
	for n := range 4 {
		i := b.instance(nameN(n))
		if i.NICs[0].ID <= last {
			b.Fatalf("NIC %d came after %d", i.NICs[0].ID, last)
		}
		last = i.NICs[0].ID
		b.remove(i.ID)
	}

	// A node has an interface with a number that the database has not given yet, as after an older
	// copy of it was put back. A number that is far ahead is not a guest's.
	ahead := last + 7
	b.must(b.EnsureNode(context.Background(), node))
	note := func(highest seedbed.NICID) {
		b.must(b.NoteNode(context.Background(), node, seedbed.NodeReport{HighestNIC: highest}, "", time.Now()))
	}
	note(ahead)
	if id := b.instance("web5").NICs[0].ID; id != ahead+1 {
		b.Errorf("NIC %d was given after a node reported %d", id, ahead)
	}
	note(ahead - 1)
	note(ahead)
	if id := b.instance("web6").NICs[0].ID; id != ahead+2 {
		b.Errorf("NIC %d was given after %d", id, ahead+1)
	}
	note(1 << 30)
	if id := b.instance("web7").NICs[0].ID; id != ahead+3 {
		b.Errorf("NIC %d was given after a node reported one that is not a guest's", id)
	}
}

func testImageNotActive(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, importOf("coming")))(b)
	a := createOf("web1")
	a.Instance.Image, a.Instance.Volumes[0].Image = "coming", "coming"
	_, err := b.Accept(ctx, a)
	b.want(err, seedbed.ErrInvalid, `image "coming" is importing`)
}

func testRemove(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	a := removeOf(i.ID)
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
	j := get(b.Job(ctx, a.Job.ID))(b)
	b.equal([]string{j.Subject, j.Node}, []string{"web1", node})
	_, err := b.Accept(ctx, removeOf(i.ID))
	b.want(err, seedbed.ErrInUse)
	b.equal(holder(err), j.ID)
	_, err = b.Accept(ctx, removeOf(seedbed.NewInstanceID()))
	b.want(err, seedbed.ErrNotFound)
}

func testBadJob(b *bench) {
	ctx := context.Background()
	b.world()
	for name, change := range map[string]func(*seedbed.Acceptance){
		"no ID":           func(a *seedbed.Acceptance) { a.Job.ID = "" },
		"urn":             func(a *seedbed.Acceptance) { a.Job.ID = "urn:uuid:" + a.Job.ID },
		"unknown kind":    func(a *seedbed.Acceptance) { a.Job.Kind = "dance" },
		"no instance":     func(a *seedbed.Acceptance) { a.Instance = nil },
		"no image":        func(a *seedbed.Acceptance) { a.Job.Kind = seedbed.JobImport },
		"nothing to do":   func(a *seedbed.Acceptance) { a.Job.Kind = seedbed.JobRemove },
		"no delivery id":  func(a *seedbed.Acceptance) { a.Delivery = delivery("", "x") },
		"big delivery id": func(a *seedbed.Acceptance) { a.Delivery = delivery(strings.Repeat("x", 300), "x") },
	} {
		a := createOf("web1")
		change(&a)
		if _, err := b.Accept(ctx, a); err == nil {
			b.Errorf("%s: accepted", name)
		} else {
			b.want(err, seedbed.ErrInvalid)
		}
	}
	a := createOf("web1")
	get(b.Accept(ctx, a))(b)
	again := createOf("web2")
	again.Job.ID = a.Job.ID
	_, err := b.Accept(ctx, again)
	b.want(err, seedbed.ErrExists, string(a.Job.ID))
}

func testContext(b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	b.world()
	cancel()
	_, err := b.Accept(ctx, createOf("web1"))
	b.want(err, context.Canceled)
	_, err = b.Jobs(ctx, 1)
	b.want(err, context.Canceled)
	get(b.Accept(context.Background(), createOf("web1")))(b)
}

// testMatch checks that a job is accepted only if its object is the version that the request names.
func testMatch(b *bench) {
	ctx := context.Background()
	b.world()
	create := createOf("web1")
	get(b.Accept(ctx, create))(b)
	was := get(b.Instance(ctx, create.Instance.ID))(b)
	image := get(b.Images(ctx))(b)[0]
	for _, one := range []struct {
		job  seedbed.Acceptance
		want any
	}{
		{removeOf(was.ID), seedbed.Instance{ID: was.ID, Revision: was.Revision}}, {imageRemoveOf(image.Name), image},
	} {
		refused := seedbed.Errorf(seedbed.ErrConflict, "another version")
		var seen []any
		_, err := b.Accept(seedbed.WithChange(ctx, &seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin, Match: func(object any) error {
			seen = append(seen, object)
			return refused
		}}), one.job)
		b.want(err, seedbed.ErrConflict, "another version")
		b.equal(seen, []any{one.want})
		_, err = b.Job(ctx, one.job.Job.ID)
		b.want(err, seedbed.ErrNotFound)
	}
	b.equal(get(b.Instance(ctx, was.ID))(b), was)
	b.equal(get(b.Image(ctx, image.Name))(b), image)
	_, err := b.Accept(seedbed.WithChange(ctx, &seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin,
		Match: func(any) error { return nil }}), ovaRemoveOf("none"))
	b.want(err, seedbed.ErrNotFound, "none")
	get(b.Accept(seedbed.WithChange(ctx, &seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin,
		Match: func(any) error { return nil }}), removeOf(was.ID)))(b)
}
