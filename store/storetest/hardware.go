package storetest

import (
	"context"
	"encoding/json"

	"seedbed"
)

func setOf(i seedbed.Instance, change seedbed.HardwareChange) seedbed.Acceptance {
	raw, _ := json.Marshal(seedbed.HardwareJob{Set: change})
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobSet, Instance: i.ID, Spec: raw}}
}

// iso adds an image that a CD-ROM drive takes.
func (b *bench) iso(name string) {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, importOf(name)))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{
		Size: seedbed.GiB, Format: seedbed.FormatISO, SHA256: "abc"}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
}

// testHardware checks that a job changes the hardware of an instance and back, that an image is in use while it is in a drive or may come
// there, and that what is pending is not any more once the instance has stopped.
func testHardware(b *bench) {
	ctx := context.Background()
	b.world()
	b.iso("one")
	b.iso("two")
	i := b.instance("web1")
	from, yes := seedbed.BootCDROM, true
	removal := func(image string) error {
		_, err := b.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: image}})
		return err
	}
	spec := func(j seedbed.Job) (spec seedbed.HardwareJob) {
		b.must(json.Unmarshal(j.Spec, &spec))
		return spec
	}
	get(b.Accept(ctx, setOf(i, seedbed.HardwareChange{CDROM: new("one"), BootFrom: &from})))(b)
	b.want(removal("one"), seedbed.ErrInUse, "a change of the CD-ROM drive of instance web1")
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "configure", Total: 1}))
	for range 2 {
		b.must(b.SetHardware(ctx, j.Ref(), *spec(j).To, []string{"boot_from"}))
	}
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.CDROM, now.System.BootFrom, now.Pending}, []any{"one", from, []string{"boot_from"}})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "configure"}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.want(b.SetHardware(ctx, j.Ref(), *spec(j).Was, nil), seedbed.ErrStale)
	b.want(removal("one"), seedbed.ErrInUse, "the CD-ROM drive of instance web1")

	get(b.Accept(ctx, setOf(i, seedbed.HardwareChange{CDROM: new("two"), VNC: &yes})))(b)
	j = b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "configure", Total: 1}))
	b.must(b.SetHardware(ctx, j.Ref(), *spec(j).To, []string{"vnc"}))
	b.equal(get(b.Instance(ctx, i.ID))(b).Pending, []string{"boot_from", "vnc"})
	b.want(removal("one"), seedbed.ErrInUse, "a change of the CD-ROM drive") // it may come back
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.must(b.SetHardware(ctx, j.Ref(), *spec(j).Was, nil))
	b.must(b.Undone(ctx, j.Ref(), "configure", ""))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack}))
	now = get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.CDROM, now.System.VNC, now.Pending}, []any{"one", false, []string{"boot_from"}})
	get(b.SetInstanceState(ctx, now, seedbed.InstanceStopped))(b)
	b.equal(len(get(b.Instance(ctx, i.ID))(b).Pending), 0)
	b.must(removal("two"))

	for says, c := range map[string]seedbed.HardwareChange{
		"is being removed": {CDROM: new("two")}, `"none" does not exist`: {CDROM: new("none")}, "expected an image that": {CDROM: new("debian")},
		"has that already": {BootFrom: &from},
	} {
		_, err := b.Accept(ctx, setOf(i, c))
		b.want(err, seedbed.ErrInvalid, says)
	}
	b.remove(i.ID)
	b.must(removal("one"))
}
