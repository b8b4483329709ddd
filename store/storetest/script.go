package storetest

import (
	"context"
	"time"

	"seedbed"
)

var scriptCases = map[string]func(*bench){
	"options":          testScriptOptions,
	"a run":            testScriptRun,
	"volumes":          testScriptVolumes,
	"hook of profiles": testHookOfProvisioner,
	"rebuild":          testScriptRebuild,
}

func testScriptOptions(b *bench) {
	ctx := context.Background()
	get(b.CreateScript(ctx, "install", "print(1)\n"))(b)
	o := seedbed.ScriptOptions{Network: true, ScriptLimits: seedbed.ScriptLimits{Time: time.Hour, Memory: seedbed.GiB}}
	b.must(b.setOptions("install", func(have *seedbed.ScriptOptions) { *have = o }))
	s := get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0]
	b.equal(s.Options, o)
	b.equal(s.Text, "print(1)\n")
	b.want(b.setOptions("install", func(o *seedbed.ScriptOptions) { o.Time = -1 }), seedbed.ErrInvalid, "time is")
	b.want(b.setOptions("none", func(*seedbed.ScriptOptions) {}), seedbed.ErrNotFound, `"none" does not exist`)
	b.want(b.setOptions(seedbed.Empty, func(*seedbed.ScriptOptions) {}), seedbed.ErrConflict, "always there")
	b.equal(get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0].Options, o)

	// The privilege belongs to a text. A different text must be granted it again.
	b.must(b.setOptions("install", func(o *seedbed.ScriptOptions) { o.Privileged = true }))
	o.Privileged = true
	b.equal(get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0].Options, o)
	b.must(b.setScript("install", "print(2)\n"))
	o.Privileged = false
	b.equal(get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0].Options, o)
	b.must(b.setScript("install", "print(1)\n"))
	b.must(b.setOptions("install", func(o *seedbed.ScriptOptions) { o.Privileged = false }))
	b.equal(get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0].Options, o)
}

// scriptedOf returns a create whose script makes its volumes.
func scriptedOf(name string) (seedbed.Acceptance, seedbed.ScriptRun) {
	a := createOf(name)
	a.Instance.Volumes, a.Instance.Image = nil, ""
	run := seedbed.ScriptRun{
		Script:  seedbed.Script{Name: "install", Text: "print('é')\n", Options: seedbed.ScriptOptions{Privileged: true}},
		System:  seedbed.SystemTemplate{Name: "small", VCPUs: 2},
		Bridges: []string{"seedbed0"}, Arguments: map[string]string{"password": "a=b"},
	}
	a.Script = &run
	return a, run
}

func testScriptRun(b *bench) {
	ctx := context.Background()
	b.world()
	a, run := scriptedOf("web1")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.equal(get(b.ScriptRun(ctx, j.ID))(b), run)
	_, err := b.ScriptDomain(ctx, a.Instance.ID)
	b.want(err, seedbed.ErrNotFound)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "create", Total: 12}))
	b.must(b.SetScriptDomain(ctx, j.Ref(), "<domain/>"))
	b.must(b.SetScriptDomain(ctx, j.Ref(), "<domain>2</domain>"))
	b.equal(get(b.ScriptDomain(ctx, a.Instance.ID))(b), "<domain>2</domain>")
	stale := j.Ref()
	stale.Epoch--
	b.want(b.SetScriptDomain(ctx, stale, "<domain>3</domain>"), seedbed.ErrStale)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	_, err = b.ScriptRun(ctx, j.ID)
	b.want(err, seedbed.ErrNotFound)
	b.equal(get(b.ScriptDomain(ctx, a.Instance.ID))(b), "<domain>2</domain>")
}

func testScriptVolumes(b *bench) {
	ctx := context.Background()
	b.world()
	a, _ := scriptedOf("web1")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	v := seedbed.Volume{Pool: "default", Name: "web1_sda", Size: seedbed.GiB}
	w := seedbed.Volume{Pool: "default", Name: "web1_sdb", Size: seedbed.GiB, Image: "debian"}
	b.must(b.AddVolume(ctx, j.Ref(), v))
	b.must(b.AddVolume(ctx, j.Ref(), w))
	b.must(b.AddVolume(ctx, j.Ref(), v))
	w.Index = 1
	b.equal(get(b.Instance(ctx, j.Instance))(b).Volumes, []seedbed.Volume{v, w})
	w.Name, w.Image = "web1_sdc", "none"
	b.want(b.AddVolume(ctx, j.Ref(), w), seedbed.ErrInvalid, `"none" does not exist`)
	stale := j.Ref()
	stale.Epoch--
	b.want(b.AddVolume(ctx, stale, v), seedbed.ErrStale)
	b.want(b.DropVolume(ctx, stale, v.Pool, v.Name), seedbed.ErrStale)

	other, _ := scriptedOf("web2")
	get(b.Accept(ctx, other))(b)
	k := b.claim()
	b.want(b.AddVolume(ctx, k.Ref(), v), seedbed.ErrExists, "another instance's")
	b.must(b.DropVolume(ctx, k.Ref(), v.Pool, v.Name))
	b.equal(len(get(b.Instance(ctx, j.Instance))(b).Volumes), 2)

	b.must(b.DropVolume(ctx, j.Ref(), v.Pool, v.Name))
	b.must(b.DropVolume(ctx, j.Ref(), v.Pool, v.Name))
	moved := seedbed.Volume{Pool: "default", Name: "web1_sdb", Size: seedbed.GiB, Image: "debian"}
	b.equal(get(b.Instance(ctx, j.Instance))(b).Volumes, []seedbed.Volume{moved})
	b.must(b.AddVolume(ctx, k.Ref(), v))
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.want(b.AddVolume(ctx, j.Ref(), w), seedbed.ErrConflict, "undoing")
	b.must(b.DropVolume(ctx, j.Ref(), "default", "web1_sdb"))
	b.equal(len(get(b.Instance(ctx, j.Instance))(b).Volumes), 0)
}

// A hook may refer to profiles with a script, which then cannot be removed.
func testHookOfProvisioner(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("build")))(b)
	h := seedbed.Hook{Name: "forge", Profiles: []string{"build"}}
	h.Scheme = seedbed.SchemeNone
	get(b.CreateHook(ctx, h))(b)
	b.equal(get(b.Hook(ctx, "forge"))(b).Profiles, []string{"build"})
	b.want(b.DeleteProfile(ctx, "build"), seedbed.ErrInUse, `used by hook "forge"`)
	b.must(b.DeleteHook(ctx, "forge"))
	b.must(b.DeleteProfile(ctx, "build"))
}

// The volumes and the domain XML that a rebuild's script makes become the instance's when it is
// exchanged. They are removed from it when it is exchanged back.
func testScriptRebuild(b *bench) {
	ctx := context.Background()
	b.world()
	made, run := scriptedOf("web1")
	get(b.Accept(ctx, made))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "create", Total: 1}))
	former := seedbed.Volume{Pool: "default", Name: "web1_sda", Size: seedbed.GiB}
	b.must(b.AddVolume(ctx, j.Ref(), former))
	b.must(b.SetScriptDomain(ctx, j.Ref(), "<former/>"))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "create", InstanceState: seedbed.InstanceRunning}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))

	before := get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b)
	for _, undone := range []bool{true, false} {
		a := rebuildOf(before)
		a.Rebuild.Volumes, a.Rebuild.Image, a.Script = nil, "", &run
		get(b.Accept(ctx, a))(b)
		k := b.claim()
		b.equal(get(b.ScriptRun(ctx, k.ID))(b), run)
		b.must(b.Step(ctx, k.Ref(), seedbed.Step{Next: "create", Total: 2}))
		next := seedbed.Volume{Pool: "default", Name: "web1_sda-" + k.ID.Short(), Size: seedbed.GiB}
		other := seedbed.Volume{Pool: "default", Name: "web1_sdb-" + k.ID.Short(), Size: seedbed.GiB, Image: "debian"}
		for range 2 {
			b.must(b.AddVolume(ctx, k.Ref(), other))
			b.must(b.AddVolume(ctx, k.Ref(), next))
		}
		b.want(b.AddVolume(ctx, k.Ref(), former), seedbed.ErrExists, "web1_sda of pool default")
		_, err := b.Accept(ctx, imageRemoveOf("debian"))
		b.want(err, seedbed.ErrInUse, "the rebuild of instance web1")
		for range 2 {
			b.must(b.DropVolume(ctx, k.Ref(), other.Pool, other.Name))
		}
		b.must(b.SetScriptDomain(ctx, k.Ref(), "<next/>"))
		b.equal(get(b.ScriptDomain(ctx, before.ID))(b), "<former/>")
		b.equal(get(b.Instance(ctx, before.ID))(b).Volumes, []seedbed.Volume{former})
		b.equal(get(b.Rebuilding(ctx, k.ID))(b).Next.Volumes, []seedbed.Volume{next})

		for range 2 {
			b.must(b.Exchange(ctx, k.Ref(), seedbed.RebuildNext))
			b.equal(get(b.ScriptDomain(ctx, before.ID))(b), "<next/>")
			b.equal(get(b.Instance(ctx, before.ID))(b).Volumes, []seedbed.Volume{next})
		}
		out := seedbed.JobResult{State: seedbed.JobSucceeded}
		if undone {
			b.must(b.Undo(ctx, k.Ref(), "boom"))
			for range 2 {
				b.must(b.Exchange(ctx, k.Ref(), seedbed.RebuildBefore))
				b.equal(get(b.ScriptDomain(ctx, before.ID))(b), "<former/>")
				b.equal(get(b.Instance(ctx, before.ID))(b).Volumes, []seedbed.Volume{former})
			}
			b.must(b.DropVolume(ctx, k.Ref(), next.Pool, next.Name))
			out = seedbed.JobResult{State: seedbed.JobRolledBack, Error: "boom", InstanceState: seedbed.InstanceRunning}
		}
		b.must(b.Finish(ctx, k.Ref(), out))
		_, err = b.ScriptRun(ctx, k.ID)
		b.want(err, seedbed.ErrNotFound)
	}
}
