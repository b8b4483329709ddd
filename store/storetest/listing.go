package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"seedbed"
)

var listingCases = map[string]func(*bench){
	"instances":             testListInstances,
	"profiles":              testListProfiles,
	"jobs":                  testListJobs,
	"jobs of one moment":    testListJobsOfOneMoment,
	"a job that is no more": testListAfterForgotten,
	"a census":              testCounts,
	"events of all jobs":    testEventsOfAll,
	"events as they come":   testEventsRace,
}

func (b *bench) instancesOf(q seedbed.InstanceQuery) (names []string) {
	b.Helper()
	for _, i := range get(b.ListInstances(context.Background(), q))(b) {
		names = append(names, i.Name)
		if len(i.NICs) != 1 || len(i.Volumes) != 1 {
			b.Errorf("%s has NICs %v and volumes %v", i.Name, i.NICs, i.Volumes)
		}
	}
	return names
}

func testListProfiles(b *bench) {
	ctx := context.Background()
	b.world()
	p := webProfile()
	for _, name := range []string{"web", "a.b", "web_1", "webs", "Big"} {
		p.Name = name
		get(b.CreateProfile(ctx, p))(b)
	}
	names := func(q seedbed.ProfileQuery) (names []string) {
		q.Scope = seedbed.AllProjects()
		for _, p := range get(b.ListProfiles(ctx, q))(b) {
			names = append(names, p.Name)
		}
		return names
	}
	all := names(seedbed.ProfileQuery{})
	for _, c := range []struct {
		query seedbed.ProfileQuery
		want  []string
	}{
		{seedbed.ProfileQuery{Limit: 2}, []string{"Big", "a.b"}},
		{seedbed.ProfileQuery{Limit: 2, After: "a.b"}, all[2:4]},
		{seedbed.ProfileQuery{Prefix: "web_"}, []string{"web_1"}},
		{seedbed.ProfileQuery{Prefix: "webs", After: "webs"}, nil},
		{seedbed.ProfileQuery{Prefix: "%"}, nil},
	} {
		b.equal(names(c.query), c.want)
	}
}

func testCounts(b *bench) {
	ctx := context.Background()
	since := time.Now().UTC().Add(-time.Hour).Truncate(time.Microsecond)
	if c := get(b.Counts(ctx, seedbed.AllProjects(), since))(b); c.Total().Count != 0 || c.Volumes != 0 || c.Disks != 0 || c.Failed != 0 {
		b.Errorf("of nothing there is %+v", c)
	}
	b.world()
	i := b.instance("web1")
	b.instance("web2")
	j, _ := b.running("web3")
	b.must(b.Undo(ctx, j.Ref(), "full"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "full", Drop: true}))
	b.running("web4")
	c := get(b.Counts(ctx, seedbed.AllProjects(), since))(b)
	b.equal(c.Total(seedbed.InstanceRunning), seedbed.InstanceCounts{Count: 2, VCPUs: 2 * i.VCPUs, Memory: 2 * i.Memory})
	b.equal(c.Total().Count, 3)
	b.equal(c.Jobs, map[seedbed.JobState]int{seedbed.JobRunning: 1})
	if c.Failed != 1 || c.Volumes != 3 || c.Disks != 3*i.Volumes[0].Size || c.Images != 1 || c.Networks != 1 {
		b.Errorf("%+v", c)
	}
	b.equal(get(b.Counts(ctx, seedbed.AllProjects(), time.Now().Add(time.Hour)))(b).Failed, 0)
}

func testListInstances(b *bench) {
	b.world()
	b.equal(b.instancesOf(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Limit: 5}), []string(nil))
	for _, name := range []string{"db1", "web1", "web10", "web2"} {
		b.instance(name)
	}
	b.running("web3") // being made
	other := createOf("zoo")
	other.Instance.Profile, other.Instance.Node = "other", "node2"
	get(b.Accept(context.Background(), other))(b)

	for _, c := range []struct {
		query seedbed.InstanceQuery
		want  []string
	}{
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects()}, []string{"db1", "web1", "web10", "web2", "web3", "zoo"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Limit: 2}, []string{"db1", "web1"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Limit: 2, After: seedbed.InDefault("web1")}, []string{"web10", "web2"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), After: seedbed.InDefault("web15")}, []string{"web2", "web3", "zoo"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), After: seedbed.InDefault("zoo")}, nil},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "web1"}, []string{"web1", "web10"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "web", After: seedbed.InDefault("web10"), Limit: 1}, []string{"web2"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "%"}, nil},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "w_b"}, nil},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceProvisioning}, []string{"web3", "zoo"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceRunning, Limit: 3}, []string{"db1", "web1", "web10"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "other"}, []string{"zoo"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", State: seedbed.InstanceProvisioning}, []string{"web3"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", State: seedbed.InstanceRunning, Prefix: "web",
			After: seedbed.InDefault("web1"), Limit: 1}, []string{"web10"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web"}, []string{"db1", "web1", "web10", "web2", "web3"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", After: seedbed.InDefault("web10"), Limit: 2},
			[]string{"web2", "web3"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", Prefix: "web", Limit: 1}, []string{"web1"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "none"}, nil},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Node: "node2"}, []string{"zoo"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Node: node, State: seedbed.InstanceProvisioning}, []string{"web3"}},
		{seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Node: "none"}, nil},
	} {
		b.Logf("%+v", c.query)
		b.equal(b.instancesOf(c.query), c.want)
	}
}

func (b *bench) jobsOf(q seedbed.JobQuery) (ids []seedbed.JobID) {
	b.Helper()
	for _, j := range get(b.ListJobs(context.Background(), q))(b) {
		ids = append(ids, j.ID)
	}
	return ids
}

func testListJobs(b *bench) {
	ctx := context.Background()
	b.world() // with one import job
	at := time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)
	var ids []seedbed.JobID
	for n := range 4 {
		a := createOf(nameN(n))
		a.Job.Created = at.Add(time.Duration(n) * time.Minute)
		ids = append(ids, get(b.Accept(ctx, a))(b).Job)
	}
	first := b.claim()
	b.must(b.Finish(ctx, first.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	imports := b.jobsOf(seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobImport})
	if len(imports) != 1 {
		b.Fatalf("imports: %v", imports)
	}
	after := get(b.Job(ctx, ids[2]))(b).Cursor()
	for _, c := range []struct {
		query seedbed.JobQuery
		want  []seedbed.JobID
	}{
		{seedbed.JobQuery{Scope: seedbed.AllProjects()}, []seedbed.JobID{ids[3], ids[2], ids[1], ids[0], imports[0]}},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), Limit: 2}, []seedbed.JobID{ids[3], ids[2]}},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), After: after, Limit: 2}, []seedbed.JobID{ids[1], ids[0]}},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), After: after, Kind: seedbed.JobImport}, imports},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobCreate, Limit: 1}, ids[3:4]},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobRemove}, nil},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobSucceeded}, []seedbed.JobID{ids[0], imports[0]}},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobQueued, After: after}, ids[1:2]},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobSucceeded, Kind: seedbed.JobImport}, imports},
		{seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobFailed, Kind: seedbed.JobImport}, nil},
	} {
		b.Logf("%+v", c.query)
		b.equal(b.jobsOf(c.query), c.want)
	}
}

// Each of several jobs that were accepted in the same microsecond is listed once.
func testListJobsOfOneMoment(b *bench) {
	ctx := context.Background()
	b.network("default", "seedbed0", "10.99.0.0/24")
	at := time.Now().UTC().Truncate(time.Microsecond)
	for n := range 7 {
		a := importOf(fmt.Sprintf("image%d", n))
		a.Job.Created = at
		get(b.Accept(ctx, a))(b)
	}
	var after seedbed.JobCursor
	var seen []seedbed.JobID
	for {
		page := get(b.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.AllProjects(), Limit: 3, After: after}))(b)
		if len(page) == 0 {
			break
		}
		for _, j := range page {
			seen = append(seen, j.ID)
		}
		after = page[len(page)-1].Cursor()
	}
	b.equal(seen, b.jobsOf(seedbed.JobQuery{Scope: seedbed.AllProjects()}))
	if len(seen) != 7 {
		b.Errorf("%d jobs: want 7", len(seen))
	}
}

// A page may continue after a job that has been deleted since.
func testListAfterForgotten(b *bench) {
	b.world()
	after := seedbed.JobCursor{Created: time.Now().Add(time.Hour), ID: seedbed.NewJobID()}
	if got := b.jobsOf(seedbed.JobQuery{Scope: seedbed.AllProjects(), After: after}); len(got) != 1 {
		b.Errorf("jobs %v: want the one that is older", got)
	}
}

var placementGroupCases = map[string]func(*bench){
	"groups":   testPlacementGroups,
	"resumed":  testPlacementResumed,
	"policies": testPlacementPolicies,
}

func testPlacementGroups(b *bench) {
	ctx := context.Background()
	b.world()
	b.equal(len(get(b.PlacementGroups(ctx))(b)), 0)
	web := get(b.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "web", Policy: seedbed.AntiAffinity, Description: "apart"}))(b)
	b.equal(web.Instances, []string{})
	_, err := b.CreatePlacementGroup(ctx, web)
	b.want(err, seedbed.ErrExists, `placement group "web" exists already`)
	for text, g := range map[string]seedbed.PlacementGroup{
		"expected affinity, anti-affinity, soft-affinity, soft-anti-affinity": {Name: "a", Policy: "near"},
		"is not usable": {Name: "a b", Policy: seedbed.Affinity},
		"one line":      {Name: "a", Policy: seedbed.Affinity, Description: "a\nb"},
	} {
		_, err := b.CreatePlacementGroup(ctx, g)
		b.want(err, seedbed.ErrInvalid, text)
	}
	_, err = b.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "none/web", Policy: seedbed.Affinity})
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = b.PlacementGroup(ctx, "none")
	b.want(err, seedbed.ErrNotFound, `placement group "none" does not exist`)

	profile := webProfile()
	profile.PlacementGroup = "none"
	_, err = b.CreateProfile(ctx, profile)
	b.want(err, seedbed.ErrInvalid, `placement group "none" does not exist`)
	profile.PlacementGroup = "web"
	b.equal(get(b.CreateProfile(ctx, profile))(b).PlacementGroup, "web")
	b.want(b.DeletePlacementGroup(ctx, "web"), seedbed.ErrInUse, `placement group "web" is used by profile web: change these first`)
	b.must(b.DeleteProfile(ctx, "web"))

	a := createOf("web1")
	a.Instance.PlacementGroup = "web"
	get(b.Accept(ctx, a))(b)
	b.want(b.DeletePlacementGroup(ctx, "web"), seedbed.ErrInUse, `is used by instance web1`)
	b.equal(get(b.PlacementGroup(ctx, "web"))(b).Instances, []string{"web1"})
	b.equal(get(b.PlacementGroups(ctx))(b)[0].Instances, []string{"web1"})
	b.equal(get(b.GroupMembers(ctx))(b), []seedbed.GroupMember{{Group: "web", Instance: a.Instance.ID, Node: a.Instance.Node}})
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})

	// A change to another group, which is not removed before the job has ended.
	get(b.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "db", Policy: seedbed.Affinity}))(b)
	set := setOf(*a.Instance, seedbed.HardwareChange{Group: new("db")})
	get(b.Accept(ctx, set))(b)
	b.want(b.DeletePlacementGroup(ctx, "db"), seedbed.ErrInUse, "a change of the placement group of instance web1")
	j := b.claim()
	var spec seedbed.HardwareJob
	b.must(json.Unmarshal(j.Spec, &spec))
	b.equal(spec.Changed, []string{"placement_group"})
	b.must(b.SetHardware(ctx, j.Ref(), *spec.To, nil))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(get(b.Instance(ctx, a.Instance.ID))(b).PlacementGroup, "db")
	b.must(b.DeletePlacementGroup(ctx, "web", func(g seedbed.PlacementGroup) error {
		b.equal(g, web)
		return nil
	}))
	b.want(b.DeletePlacementGroup(ctx, "web"), seedbed.ErrNotFound)
}

func testPlacementPolicies(b *bench) {
	ctx := context.Background()
	b.world()
	for _, n := range []string{"node2", "node3"} {
		get(b.AddNode(ctx, seedbed.Node{Name: n, Worker: "https://" + n + ".example:7375"}))(b)
	}
	for _, policy := range seedbed.PlacementPolicies() {
		get(b.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: string(policy), Policy: policy}))(b)
	}
	first := map[seedbed.PlacementPolicy]seedbed.Instance{}
	on := func(policy seedbed.PlacementPolicy, name, node string) (seedbed.Acceptance, error) {
		a := createOf(name)
		a.Instance.PlacementGroup, a.Instance.Node = string(policy), node
		_, err := b.Accept(ctx, a)
		return a, err
	}
	for _, policy := range seedbed.PlacementPolicies() {
		a, err := on(policy, string(policy)+"-1", "node3")
		b.must(err)
		b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
		first[policy] = *a.Instance
	}
	for _, test := range []struct {
		policy   seedbed.PlacementPolicy
		node     string
		accepted bool
	}{
		{seedbed.Affinity, "node2", false}, {seedbed.Affinity, "node3", true}, {seedbed.AntiAffinity, "node3", false},
		{seedbed.AntiAffinity, "node2", true}, {seedbed.SoftAffinity, "node2", true}, {seedbed.SoftAntiAffinity, "node3", true},
	} {
		_, err := on(test.policy, string(test.policy)+"-2", test.node)
		if !test.accepted {
			b.want(err, seedbed.ErrConflict, "placement group \""+string(test.policy))
			continue
		}
		b.must(err)
		b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	}
	goes := func(i seedbed.Instance) error {
		_, err := b.Accept(ctx, migrateOf(i, seedbed.InstanceRunning))
		return err
	}
	b.want(goes(first[seedbed.AntiAffinity]), seedbed.ErrConflict, "has another instance on that node now")
	b.want(goes(first[seedbed.Affinity]), seedbed.ErrConflict, "has its instances on another node")
	// Those with affinity follow each other from a node that is cordoned.
	get(b.ChangeNode(ctx, "node3", func(n *seedbed.Node) error {
		n.Cordoned = true
		return nil
	}))(b)
	b.must(goes(first[seedbed.Affinity]))
}

// testPlacementResumed checks that a migration that is resumed keeps to the placement group as one that is requested.
func testPlacementResumed(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://node2.example:7375"}))(b)
	get(b.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "web", Policy: seedbed.AntiAffinity}))(b)
	made := func(name, node string) seedbed.Instance {
		a := createOf(name)
		a.Instance.PlacementGroup, a.Instance.Node = "web", node
		get(b.Accept(ctx, a))(b)
		b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
		return get(b.Instance(ctx, a.Instance.ID))(b)
	}
	a := migrateOf(made("web1", node), seedbed.InstanceRunning)
	get(b.Accept(ctx, a))(b)
	b.end(seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"})
	made("web2", "node2")
	_, err := b.ResumeJob(ctx, a.Job.ID)
	b.want(err, seedbed.ErrConflict, `placement group "web" (anti-affinity) has another instance on that node`)
	b.equal(get(b.Instance(ctx, a.Job.Instance))(b).Target, "")
}
