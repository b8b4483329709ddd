package storetest

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// Listing is how long lists are read: in pages, and filtered.
type Listing interface {
	ListInstances(context.Context, seedbed.InstanceQuery) ([]seedbed.Instance, error)
	ListJobs(context.Context, seedbed.JobQuery) ([]seedbed.Job, error)
}

var listingCases = map[string]func(*bench){
	"instances":             testListInstances,
	"jobs":                  testListJobs,
	"jobs of one moment":    testListJobsOfOneMoment,
	"a job that is no more": testListAfterForgotten,
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

func testListInstances(b *bench) {
	b.world()
	b.equal(b.instancesOf(seedbed.InstanceQuery{Limit: 5}), []string(nil))
	for _, name := range []string{"db1", "web1", "web10", "web2"} {
		b.instance(name)
	}
	b.running("web3") // being made
	other := createOf("zoo")
	other.Instance.Profile = "other"
	get(b.Accept(context.Background(), other))(b)

	for _, c := range []struct {
		query seedbed.InstanceQuery
		want  []string
	}{
		{seedbed.InstanceQuery{}, []string{"db1", "web1", "web10", "web2", "web3", "zoo"}},
		{seedbed.InstanceQuery{Limit: 2}, []string{"db1", "web1"}},
		{seedbed.InstanceQuery{Limit: 2, After: "web1"}, []string{"web10", "web2"}},
		{seedbed.InstanceQuery{After: "web15"}, []string{"web2", "web3", "zoo"}},
		{seedbed.InstanceQuery{After: "zoo"}, nil},
		{seedbed.InstanceQuery{Prefix: "web1"}, []string{"web1", "web10"}},
		{seedbed.InstanceQuery{Prefix: "web", After: "web10", Limit: 1}, []string{"web2"}},
		{seedbed.InstanceQuery{Prefix: "%"}, nil},
		{seedbed.InstanceQuery{Prefix: "w_b"}, nil},
		{seedbed.InstanceQuery{State: seedbed.InstanceProvisioning}, []string{"web3", "zoo"}},
		{seedbed.InstanceQuery{State: seedbed.InstanceRunning, Limit: 3}, []string{"db1", "web1", "web10"}},
		{seedbed.InstanceQuery{Profile: "other"}, []string{"zoo"}},
		{seedbed.InstanceQuery{Profile: "web", State: seedbed.InstanceProvisioning}, []string{"web3"}},
		{seedbed.InstanceQuery{Profile: "web", State: seedbed.InstanceRunning, Prefix: "web", After: "web1", Limit: 1}, []string{"web10"}},
		{seedbed.InstanceQuery{Profile: "none"}, nil},
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
	b.world() // one import job
	at := time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)
	var ids []seedbed.JobID
	for n := range 4 {
		a := createOf(nameN(n))
		a.Job.Created = at.Add(time.Duration(n) * time.Minute)
		ids = append(ids, get(b.Accept(ctx, a))(b).Job)
	}
	first := b.claim()
	b.must(b.Finish(ctx, first.Ref(), seedbed.Outcome{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	imports := b.jobsOf(seedbed.JobQuery{Kind: seedbed.JobImport})
	if len(imports) != 1 {
		b.Fatalf("imports: %v", imports)
	}
	after := get(b.Job(ctx, ids[2]))(b).Cursor()
	for _, c := range []struct {
		query seedbed.JobQuery
		want  []seedbed.JobID
	}{
		{seedbed.JobQuery{}, []seedbed.JobID{ids[3], ids[2], ids[1], ids[0], imports[0]}},
		{seedbed.JobQuery{Limit: 2}, []seedbed.JobID{ids[3], ids[2]}},
		{seedbed.JobQuery{After: after, Limit: 2}, []seedbed.JobID{ids[1], ids[0]}},
		{seedbed.JobQuery{After: after, Kind: seedbed.JobImport}, imports},
		{seedbed.JobQuery{Kind: seedbed.JobCreate, Limit: 1}, ids[3:4]},
		{seedbed.JobQuery{Kind: seedbed.JobRemove}, nil},
		{seedbed.JobQuery{State: seedbed.JobSucceeded}, []seedbed.JobID{ids[0], imports[0]}},
		{seedbed.JobQuery{State: seedbed.JobQueued, After: after}, ids[1:2]},
		{seedbed.JobQuery{State: seedbed.JobSucceeded, Kind: seedbed.JobImport}, imports},
		{seedbed.JobQuery{State: seedbed.JobFailed, Kind: seedbed.JobImport}, nil},
	} {
		b.Logf("%+v", c.query)
		b.equal(b.jobsOf(c.query), c.want)
	}
}

// Jobs that were accepted at the same microsecond are each seen once.
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
		page := get(b.ListJobs(ctx, seedbed.JobQuery{Limit: 3, After: after}))(b)
		if len(page) == 0 {
			break
		}
		for _, j := range page {
			seen = append(seen, j.ID)
		}
		after = page[len(page)-1].Cursor()
	}
	b.equal(seen, b.jobsOf(seedbed.JobQuery{}))
	if len(seen) != 7 {
		b.Errorf("%d jobs: want 7", len(seen))
	}
}

// A page goes on after a job that was forgotten meanwhile.
func testListAfterForgotten(b *bench) {
	b.world()
	if got := b.jobsOf(seedbed.JobQuery{After: seedbed.JobCursor{Created: time.Now().Add(time.Hour), ID: seedbed.NewJobID()}}); len(got) != 1 {
		b.Errorf("jobs %v: want the one that is older", got)
	}
}
