package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"seedbed"
)

var volumeCases = map[string]func(*bench){
	"volume job":          testVolumeJob,
	"volume job refused":  testVolumeJobRefused,
	"flattened":           testFlattened,
	"image remove":        testImageRemove,
	"image remove failed": testImageRemoveFailed,
	"nothing to drop":     testNothingToDrop,
	"instance names":      testInstanceNames,
}

func volumeJob(kind seedbed.JobKind, id seedbed.InstanceID, snapshot string) seedbed.Acceptance {
	j := seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, Instance: id}
	if snapshot != "" {
		j.Spec, _ = json.Marshal(seedbed.SnapshotJob{Name: snapshot})
	}
	return seedbed.Acceptance{Job: j}
}

func imageRemoveOf(name string) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: name, Node: node}}
}

func testVolumeJob(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	for _, kind := range []seedbed.JobKind{seedbed.JobSnapshot, seedbed.JobSnapshotRemove, seedbed.JobSnapshotRestore, seedbed.JobFlatten} {
		a := volumeJob(kind, i.ID, "s1")
		b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued})
		_, err := b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, "s2"))
		b.want(err, seedbed.ErrInUse, string(kind), a.Job.ID.Short())
		b.equal(holder(err), a.Job.ID)
		_, err = b.Accept(ctx, removeOf(i.ID))
		b.want(err, seedbed.ErrInUse)
		j := b.claim()
		if kind.Forward() {
			b.want(b.CancelJob(ctx, a.Job.ID), seedbed.ErrInvalid, string(kind))
		} else {
			b.must(b.CancelJob(ctx, a.Job.ID))
			b.must(b.Undo(ctx, j.Ref(), "cancelled"))
			j.State = seedbed.JobUndoing
		}
		b.equal([]any{j.Kind, j.Subject, j.Instance, j.Node, bytes.Contains(j.Spec, []byte(`"was":"running"`))},
			[]any{kind, "web1", i.ID, node, kind == seedbed.JobSnapshotRestore})
		out := seedbed.JobResult{State: seedbed.JobSucceeded}
		if j.State == seedbed.JobUndoing {
			out = seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled"}
		}
		b.must(b.Finish(ctx, j.Ref(), out))
		b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRunning)
	}
}

func testVolumeJobRefused(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	_, err := b.Accept(ctx, volumeJob(seedbed.JobFlatten, seedbed.NewInstanceID(), ""))
	b.want(err, seedbed.ErrNotFound)
	_, err = b.Accept(ctx, volumeJob(seedbed.JobFlatten, "../x", ""))
	b.want(err, seedbed.ErrInvalid)
	for _, name := range []string{"", "../x", "-d", "a b"} {
		_, err = b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, name))
		b.want(err, seedbed.ErrInvalid)
	}
	get(b.SetInstanceState(ctx, i, seedbed.InstanceGone))(b)
	_, err = b.Accept(ctx, volumeJob(seedbed.JobSnapshotRestore, i.ID, "s"))
	b.want(err, seedbed.ErrConflict, "gone")
	_, err = b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, "s"))
	b.want(err, seedbed.ErrConflict, "gone")
}

func testFlattened(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.instance("web1"), b.instance("web2")
	get(b.Accept(ctx, volumeJob(seedbed.JobFlatten, i.ID, "")))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "redefine", Flattened: true}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]string{now.Image, now.Volumes[0].Image}, []string{"debian", ""})
	b.equal(get(b.Instance(ctx, other.ID))(b).Volumes[0].Image, "debian")
	// A create may have copied its disks. A snapshot does not change them.
	r, made := b.running("web3")
	b.must(b.Step(ctx, r.Ref(), seedbed.Step{Next: "volumes", Flattened: true}))
	b.equal(get(b.Instance(ctx, made.ID))(b).Volumes[0].Image, "")
	get(b.Accept(ctx, volumeJob(seedbed.JobSnapshot, other.ID, "s")))(b)
	j = b.claim()
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Next: "snapshot", Flattened: true}), seedbed.ErrInvalid)
}

func testImageRemove(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	p := seedbed.Profile{Name: "web", Image: "debian", Network: "default", VCPUs: 1, Memory: seedbed.GiB}
	get(b.CreateProfile(ctx, p))(b)
	_, err := b.Accept(ctx, imageRemoveOf("none"))
	b.want(err, seedbed.ErrNotFound)
	_, err = b.Accept(ctx, imageRemoveOf("debian"))
	b.want(err, seedbed.ErrInUse, "profile web", "instance web1")
	b.must(b.DeleteProfile(ctx, "web"))
	_, err = b.Accept(ctx, imageRemoveOf("debian"))
	b.want(err, seedbed.ErrInUse, "instance web1")
	b.remove(i.ID)

	importer := get(b.Jobs(ctx, 0))(b)
	a := imageRemoveOf("debian")
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.Image(ctx, "debian"))(b).State, seedbed.ImageRemoving)
	_, err = b.Accept(ctx, imageRemoveOf("debian"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, "being removed")
	_, err = b.Accept(ctx, createOf("web2"))
	b.want(err, seedbed.ErrInvalid, "being removed")
	_, err = b.Accept(ctx, importOf("debian"))
	b.want(err, seedbed.ErrExists)
	b.want(b.CancelJob(ctx, a.Job.ID), seedbed.ErrInvalid)

	j := b.claim()
	var input seedbed.ImageRemoval
	b.must(json.Unmarshal(j.Spec, &input))
	b.equal(input, seedbed.ImageRemoval{Import: importer[len(importer)-1].ID, Was: seedbed.ImageActive})
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.Image(ctx, "debian")
	b.want(err, seedbed.ErrNotFound)
	b.image("debian") // its name is free
}

func testImageRemoveFailed(b *bench) {
	ctx := context.Background()
	b.world()
	for _, c := range []struct{ settled, want seedbed.ImageState }{{seedbed.ImageActive, seedbed.ImageActive}, {"", seedbed.ImageRemoving}} {
		get(b.Accept(ctx, imageRemoveOf("debian")))(b)
		j := b.claim()
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "it has clones", ImageState: c.settled}))
		b.equal(get(b.Image(ctx, "debian"))(b).State, c.want)
	}
	get(b.Accept(ctx, imageRemoveOf("debian")))(b) // it can be requested again
}

// Only a job that makes or removes an object can drop it.
func testNothingToDrop(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	get(b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, "s")))(b)
	j := b.claim()
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}), seedbed.ErrInvalid)
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, ImageState: seedbed.ImageActive}), seedbed.ErrInvalid)
	b.equal(get(b.Instance(ctx, i.ID))(b).Name, "web1")
}

func testInstanceNames(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	gone, here, never := b.instance("web1"), b.instance("web2"), seedbed.NewInstanceID()
	other := get(b.Accept(ctx, inProject("acme", "web2")))(b)
	elsewhere := get(b.Job(ctx, other.Job))(b).Instance
	b.remove(gone.ID)
	got := get(b.InstanceNames(ctx, []seedbed.InstanceID{here.ID, gone.ID, never, gone.ID, elsewhere}))(b)
	b.equal(got, map[seedbed.InstanceID]string{gone.ID: "web1", here.ID: "web2", elsewhere: "web2.acme"})
	b.equal(get(b.InstanceNames(ctx, nil))(b), map[seedbed.InstanceID]string{})
}

var resizeCases = map[string]func(*bench){
	"resize":                 testResize,
	"rename":                 testRename,
	"resize refused":         testResizeRefused,
	"resize has no way back": testResizeFinal,
	"resize and quota":       testResizeQuota,
	"resize raced for":       testResizeRace,
	"hardware":               testHardware,
}

func resizeOf(i seedbed.Instance, spec seedbed.ResizeSpec) seedbed.Acceptance {
	if spec.Size > 0 {
		spec.Pool, spec.Volume = i.Volumes[0].Pool, i.Volumes[0].Name
	}
	raw, _ := json.Marshal(spec)
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobResize, Instance: i.ID, Spec: raw}}
}

// off returns a stopped instance.
func (b *bench) off(name string) seedbed.Instance {
	b.Helper()
	i := b.instance(name)
	get(b.SetInstanceState(context.Background(), i, seedbed.InstanceStopped))(b)
	return get(b.Instance(context.Background(), i.ID))(b)
}

func testResize(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.off("web1"), b.off("web2")
	size := i.Volumes[0].Size + 3*seedbed.TiB
	get(b.Accept(ctx, resizeOf(i, seedbed.ResizeSpec{Size: size, VCPUs: 7, Memory: 3 * seedbed.TiB})))(b)
	j := b.claim()
	b.equal([]string{j.Subject, j.Node, j.Pool}, []string{"web1", node, i.Volumes[0].Pool})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 2}))
	b.equal(get(b.Instance(ctx, i.ID))(b).VCPUs, i.VCPUs)
	machine := seedbed.Step{Done: "redefine", Next: "grow", Final: true, Resized: &seedbed.ResizeSpec{VCPUs: 7, Memory: 3 * seedbed.TiB}}
	disk := seedbed.Step{Done: "grow", Resized: &seedbed.ResizeSpec{Pool: i.Volumes[0].Pool, Volume: i.Volumes[0].Name, Size: size}}
	b.must(b.Step(ctx, j.Ref(), machine))
	for range 2 {
		b.must(b.Step(ctx, j.Ref(), disk))
	}
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.VCPUs, now.Memory, now.Volumes[0].Size, now.State}, []any{7, 3 * seedbed.TiB, size, seedbed.InstanceStopped})
	same := get(b.Instance(ctx, other.ID))(b)
	b.equal([]any{same.VCPUs, same.Memory, same.Volumes[0].Size}, []any{other.VCPUs, other.Memory, other.Volumes[0].Size})

	get(b.Accept(ctx, resizeOf(now, seedbed.ResizeSpec{VCPUs: 2})))(b)
	j = b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "redefine", Resized: &seedbed.ResizeSpec{VCPUs: 2}}))
	b.equal(get(b.Instance(ctx, i.ID))(b).Memory, 3*seedbed.TiB)
	small := seedbed.Step{Next: "grow", Resized: &seedbed.ResizeSpec{Pool: i.Volumes[0].Pool, Volume: i.Volumes[0].Name, Size: seedbed.MiB}}
	b.want(b.Step(ctx, j.Ref(), small), seedbed.ErrConflict, "could have grown")
	strange := seedbed.Step{Next: "grow", Resized: &seedbed.ResizeSpec{Pool: i.Volumes[0].Pool, Volume: other.Volumes[0].Name, Size: 2 * size}}
	b.want(b.Step(ctx, j.Ref(), strange), seedbed.ErrConflict)
	r, _ := b.running("web3")
	b.want(b.Step(ctx, r.Ref(), seedbed.Step{Next: "volumes", Resized: &seedbed.ResizeSpec{VCPUs: 2}}), seedbed.ErrInvalid, "resizes nothing")
}

func testResizeRefused(b *bench) {
	ctx := context.Background()
	b.world()
	on, off := b.instance("web1"), b.off("web2")
	for name, c := range map[string]struct {
		a    seedbed.Acceptance
		kind error
		says string
	}{
		"vcpus while it runs": {resizeOf(on, seedbed.ResizeSpec{VCPUs: 9}), seedbed.ErrConflict, "while it is stopped"},
		"smaller":             {resizeOf(off, seedbed.ResizeSpec{Size: 512}), seedbed.ErrInvalid, "only become larger"},
		"nothing":             {resizeOf(off, seedbed.ResizeSpec{}), seedbed.ErrInvalid, "already"},
		"absent": {
			resizeOf(seedbed.Instance{ID: seedbed.NewInstanceID()}, seedbed.ResizeSpec{VCPUs: 9}), seedbed.ErrNotFound, "does not exist",
		},
	} {
		_, err := b.Accept(ctx, c.a)
		b.want(err, c.kind, c.says)
		if err != nil && strings.Contains(err.Error(), "scan") {
			b.Errorf("%s: %v", name, err)
		}
	}
	get(b.Accept(ctx, resizeOf(on, seedbed.ResizeSpec{Size: on.Volumes[0].Size + seedbed.GiB})))(b)
	_, err := b.Accept(ctx, resizeOf(on, seedbed.ResizeSpec{Size: on.Volumes[0].Size + seedbed.GiB}))
	b.want(err, seedbed.ErrInUse, "resize job")
}

func testResizeFinal(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	a := resizeOf(i, seedbed.ResizeSpec{Size: i.Volumes[0].Size + seedbed.GiB})
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "redefine", Next: "grow", Final: true}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "is already growing the disk")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no room"}))
	get(b.ResumeJob(ctx, j.ID))(b)
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "is already growing the disk")
	j = b.claim()
	b.equal([]any{j.State, j.Stage}, []any{seedbed.JobRunning, "grow"})

	second := b.instance("web2")
	get(b.Accept(ctx, resizeOf(second, seedbed.ResizeSpec{Size: second.Volumes[0].Size + seedbed.GiB})))(b)
	j = b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 2}))
	b.must(b.CancelJob(ctx, j.ID))
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Done: "redefine", Next: "grow", Final: true}), seedbed.ErrConflict, "cancelled")
}

func testResizeQuota(b *bench) {
	b.world()
	get(b.Accept(byToken(b.token("ci", seedbed.TokenQuota{Disk: 20 * seedbed.GiB})), createOf("web1")))(b)
	j := b.claim()
	b.must(b.Finish(context.Background(), j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	i := get(b.InstanceByName(context.Background(), seedbed.InDefault("web1")))(b)
	// The quota of the token that made the instance applies, whoever requests the resize.
	_, err := b.Accept(context.Background(), resizeOf(i, seedbed.ResizeSpec{Size: 20*seedbed.GiB + 512}))
	b.want(err, seedbed.ErrForbidden, `token "ci"`, "disk", "20GiB is the most")
	get(b.Accept(context.Background(), resizeOf(i, seedbed.ResizeSpec{Size: 20 * seedbed.GiB})))(b)
}

// Of several requests for the last free space, one gets it, even before it is used.
func testResizeRace(b *bench) {
	ctx := context.Background()
	b.world()
	const n = 4
	ci := b.token("ci", seedbed.TokenQuota{Disk: (n*10 + 3) * seedbed.GiB})
	var made []seedbed.Instance
	for i := range n {
		get(b.Accept(byToken(ci), createOf(nameN(i))))(b)
		j := b.claim()
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
		made = append(made, get(b.Instance(ctx, j.Instance))(b))
	}
	errs := make([]error, n)
	each(n, func(i int) {
		_, errs[i] = b.Accept(ctx, resizeOf(made[i], seedbed.ResizeSpec{Size: 13 * seedbed.GiB}))
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		b.want(err, seedbed.ErrForbidden, "disk")
	}
	b.equal(won, 1)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no"}))
	other := made[0]
	if other.ID == j.Instance {
		other = made[1]
	}
	get(b.Accept(ctx, resizeOf(other, seedbed.ResizeSpec{Size: 13 * seedbed.GiB})))(b)
	_, err := b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrForbidden, "disk")
}

func testVolumeQuota(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.CreateProject(ctx, seedbed.Project{Name: "acme",
		Quota: seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Disk: 2 * seedbed.GiB}}})
	b.must(err)
	for n, want := range []error{nil, nil, seedbed.ErrForbidden} {
		a := volumeAddOf("data" + strconv.Itoa(n))
		a.Job.Project = "acme"
		if _, err := b.Accept(ctx, a); want == nil {
			b.must(err)
		} else {
			b.want(err, want, "disk")
		}
	}
	b.equal(get(b.ProjectUse(ctx, "acme"))(b).Disk, 2*seedbed.GiB)
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrInUse, "volume data0, data1")

	ci := b.token("ci", seedbed.TokenQuota{Disk: 11 * seedbed.GiB})
	get(b.Accept(byToken(ci), volumeAddOf("first")))(b)
	get(b.Accept(byToken(b.token("free", seedbed.TokenQuota{})), volumeAddOf("second")))(b)
	for range 4 {
		b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	}
	i := b.made(ci, "web1") // 10GiB
	_, err = b.Accept(byToken(ci), volumeAddOf("third"))
	b.want(err, seedbed.ErrForbidden, `token "ci"`, "disk: it has 11GiB")
	b.removed(i)
	_, err = b.Accept(byToken(ci), volumeAddOf("third")) // it still has the disk
	b.want(err, seedbed.ErrForbidden, `token "ci"`, "disk: it has 11GiB")
	_, err = b.Accept(byToken(ci), createOf("web2"))
	b.want(err, seedbed.ErrForbidden, `token "ci"`)
}
