package storetest

import (
	"context"
	"encoding/json"
	"strings"

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
