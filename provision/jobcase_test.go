package provision

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/sample"
	"seedbed/provision/engine"
	"seedbed/provision/plans"
)

// jobCase is one plan that a job may have: its preconditions, how the job is requested, and the
// expected result.
type jobCase struct {
	name string
	// job has the kind and those parts of the input that the plan depends on.
	job seedbed.Job
	ask func(l *lab) caseJob
}

// caseJob is a job that was requested.
type caseJob struct {
	id seedbed.JobID
	// done checks the result if the job has succeeded, and undone if it was undone.
	done, undone func()
}

func (c jobCase) plan() []engine.Stage { return plans.Of(&c.job).Stages }

// stages returns the stages of the plan that a matrix goes through: one by the seed, or all of them.
func (c jobCase) stages(t *testing.T) []engine.Stage { return sample.Of(t, c.plan(), 1) }

// begin prepares what the case needs, and requests its job.
func (c jobCase) begin(l *lab) caseJob {
	l.t.Helper()
	a := c.ask(l)
	job, err := l.db.Job(l.t.Context(), a.id)
	l.ok(err)
	if d := cmp.Diff(plans.StageNames(&c.job), plans.StageNames(&job)); d != "" || job.Kind != c.job.Kind {
		l.t.Fatalf("a %s job with %s is not this case's (-want +got):\n%s", job.Kind, job.Spec, d)
	}
	return a
}

// matrix returns the cases of a matrix: by the seed one of each plan, of half of the plans, or all of them. Each matrix takes another half.
func matrix(t *testing.T) (cases []jobCase) {
	t.Helper()
	var keys []string
	of := map[string][]jobCase{}
	for _, c := range jobCases {
		key := fmt.Sprint(c.job.Kind, plans.StageNames(&c.job))
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], c)
	}
	for _, key := range sample.Of(t, keys, (len(keys)+1)/2) {
		cases = append(cases, sample.Of(t, of[key], 1)...)
	}
	return cases
}

// caseOf returns a case by its name.
func caseOf(name string) jobCase {
	return jobCases[slices.IndexFunc(jobCases, func(c jobCase) bool { return c.name == name })]
}

func inputOf(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func (l *lab) submit(action string) seedbed.JobID {
	return l.ask(action, map[string]any{"force": true})
}

// composed requests web1 with a provisioner profile. It becomes ready as the lab says.
func (l *lab) composed(profile string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{
		Action: "create", Name: "web1", Profile: profile, Params: map[string]any{"ready": string(l.ready)},
	}, nil))
}

// composedMade returns a running web1 of the profile "web".
func (l *lab) composedMade() seedbed.Instance {
	l.t.Helper()
	l.runUntil(l.composed("web"), seedbed.JobSucceeded)
	return l.byName("web1")
}

func (l *lab) byName(name string) seedbed.Instance {
	l.t.Helper()
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(name))
	l.ok(err)
	return inst
}

// asItWas checks that the instance has everything that it had, including its disks, and runs from
// them.
func (l *lab) asItWas(was seedbed.Instance) {
	l.t.Helper()
	now, there := l.composedVolumes(was.Name)
	was.Revision, was.Changed, was.Fetched, was.Reported = now.Revision, now.Changed, now.Fetched, now.Reported
	if d := cmp.Diff(was, now, byValue); d != "" {
		l.t.Errorf("the instance (-before +after):\n%s", d)
	}
	if len(there) != len(was.Volumes) {
		l.t.Errorf("in the pool are %v", there)
	}
	l.runsFrom(now)
}

// composedRebuilt checks that an instance of a provisioner profile has new disks, as many as
// before, and is otherwise unchanged.
func (l *lab) composedRebuilt(was seedbed.Instance) {
	l.t.Helper()
	now, there := l.composedVolumes(was.Name)
	if d := cmp.Diff(same(was), same(now), byValue); d != "" {
		l.t.Errorf("the instance (-before +after):\n%s", d)
	}
	if len(there) != 2 || len(now.Volumes) != 2 || now.Volumes[0].Name == was.Volumes[0].Name {
		l.t.Errorf("volumes %+v, in the pool %v", now.Volumes, there)
	}
	l.runsFrom(now)
}

// released checks that what was adopted belongs to no instance, as before.
func (l *lab) released(was seedbed.ForeignDomain) {
	l.t.Helper()
	now := l.foreign(was.Name)
	if d := cmp.Diff(was, now, byValue); d != "" {
		l.t.Errorf("the domain (-before +after):\n%s", d)
	}
	_, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(was.Name))
	l.want("the instance", err, seedbed.ErrNotFound)
}

func (l *lab) importOther() seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Import(l.t.Context(), "other", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual))
}

// hasImage checks that the pool and the database both have the image, or that neither has.
func (l *lab) hasImage(name string, want bool) {
	l.t.Helper()
	images, err := l.pool.Images(l.t.Context())
	l.ok(err)
	known, err := l.db.Images(l.t.Context())
	l.ok(err)
	pool := slices.ContainsFunc(images, func(i seedbed.ImageInfo) bool { return i.Name == name })
	store := slices.ContainsFunc(known, func(i seedbed.Image) bool { return i.Name == name && i.State == seedbed.ImageActive })
	if pool != want || store != want {
		l.t.Errorf("image %s: in the pool %v, in the database %v", name, pool, store)
	}
}

// withBoth returns a script that maps an image, and maps and mounts a disk.
func withBoth() string { return steps("install: map_volume default debian") }

var (
	composedSpec = func(scripted, undefined bool) json.RawMessage {
		return inputOf(seedbed.ScriptedSpec{Scripted: scripted, Undefined: undefined})
	}
	jobCases = append([]jobCase{
		{"create", seedbed.Job{Kind: seedbed.JobCreate}, func(l *lab) caseJob {
			return caseJob{l.create("web1"), func() { l.up("web1") }, func() { l.nothing("web1") }}
		}},
		{"create copied", seedbed.Job{Kind: seedbed.JobCreate}, func(l *lab) caseJob {
			return caseJob{l.copying().create("web1"), l.standsAlone, func() { l.nothing("web1") }}
		}},
		{"create composed", seedbed.Job{Kind: seedbed.JobCreate, Spec: composedSpec(false, false)}, func(l *lab) caseJob {
			l.withTemplates()
			return caseJob{l.composed("web"), func() { l.scriptedUp("web1") }, func() { l.nothing("web1") }}
		}},
		{"create of an OVA", seedbed.Job{Kind: seedbed.JobCreate, Spec: composedSpec(false, false)}, func(l *lab) caseJob {
			l.withTemplates().withOVAScript().runUntil(l.importOVA("vm"), seedbed.JobSucceeded)
			_, err := l.db.ChangeProfile(l.t.Context(), "vm", func(p *seedbed.Profile) error { p.NetworkTemplate = "lan"; return nil })
			l.ok(err)
			return caseJob{l.composed("vm"), func() { l.scriptedUp("web1") }, func() { l.nothing("web1") }}
		}},
		{"create scripted", seedbed.Job{Kind: seedbed.JobCreate, Spec: composedSpec(true, false)}, func(l *lab) caseJob {
			l.withTemplates().scriptedBy(withBoth())
			return caseJob{l.composed("web"), func() { l.scriptedUp("web1") }, func() { l.nothing("web1") }}
		}},
		{"create disks only", seedbed.Job{Kind: seedbed.JobCreate, Spec: composedSpec(false, true)}, func(l *lab) caseJob {
			l.withTemplates()
			return caseJob{l.disksOnly("web1"), func() { l.left("web1", "web1_sda", "web1_sdb") }, func() { l.nothing("web1") }}
		}},
		{"create disks only scripted", seedbed.Job{Kind: seedbed.JobCreate, Spec: composedSpec(true, true)}, func(l *lab) caseJob {
			l.withTemplates().scriptedBy(withBoth())
			return caseJob{l.disksOnly("web1"), func() { l.left("web1", "web1_sda", "web1_sdb") }, func() { l.nothing("web1") }}
		}},
		{"remove", seedbed.Job{Kind: seedbed.JobRemove}, func(l *lab) caseJob {
			l.made()
			return caseJob{id: l.remove("web1"), done: func() { l.nothing("web1") }}
		}},
		{"import", seedbed.Job{Kind: seedbed.JobImport}, func(l *lab) caseJob {
			return caseJob{l.importOther(), func() { l.hasImage("other", true) }, func() { l.hasImage("other", false) }}
		}},
		{"start", seedbed.Job{Kind: seedbed.JobStart}, func(l *lab) caseJob {
			inst := l.stopped()
			return caseJob{l.ask(seedbed.DoStart, nil), func() { l.up("web1") }, func() { l.defined(inst) }}
		}},
		{"stop", seedbed.Job{Kind: seedbed.JobStop}, func(l *lab) caseJob {
			inst := l.made()
			return caseJob{l.ask(seedbed.DoStop, nil), func() { l.domain(inst.ID, seedbed.DomainOff) }, func() { l.defined(inst) }}
		}},
		{"reboot", seedbed.Job{Kind: seedbed.JobReboot}, func(l *lab) caseJob {
			l.made()
			return caseJob{l.ask(seedbed.DoReboot, nil), func() { l.up("web1") }, func() { l.up("web1") }}
		}},
		{"migrate off", seedbed.Job{Kind: seedbed.JobMigrate, Spec: inputOf(movedOff)}, func(l *lab) caseJob {
			l.withOther(true)
			l.stopped()
			return caseJob{l.migrate(nil), func() { l.isOn(otherNode, seedbed.DomainOff) }, func() { l.isOn(testNode, seedbed.DomainOff) }}
		}},
		{"migrate cold", seedbed.Job{Kind: seedbed.JobMigrate}, func(l *lab) caseJob {
			l.withOther(true)
			l.made()
			return caseJob{l.migrate(map[string]any{"method": "cold"}), func() { l.isOn(otherNode, seedbed.DomainRunning) },
				func() { l.isOn(testNode, seedbed.DomainRunning) }}
		}},
		{"migrate live", seedbed.Job{Kind: seedbed.JobMigrate, Spec: inputOf(seedbed.MigrateSpec{Live: true})}, func(l *lab) caseJob {
			l.withOther(true)
			l.made()
			return caseJob{l.migrate(map[string]any{"method": "live"}), func() { l.isOn(otherNode, seedbed.DomainRunning) },
				func() { l.isOn(testNode, seedbed.DomainRunning) }}
		}},
		{"migrate lost", seedbed.Job{Kind: seedbed.JobMigrate, Spec: inputOf(movedLost)}, func(l *lab) caseJob {
			return l.ofLostNode(true, seedbed.InstanceRunning)
		}},
		{"migrate lost off", seedbed.Job{Kind: seedbed.JobMigrate, Spec: inputOf(movedLostOff)}, func(l *lab) caseJob {
			return l.ofLostNode(true, seedbed.InstanceStopped)
		}},
		{"failover", seedbed.Job{Kind: seedbed.JobFailover}, func(l *lab) caseJob {
			return l.ofLostNode(false, seedbed.InstanceRunning)
		}},
		{"rebuild", seedbed.Job{Kind: seedbed.JobRebuild}, func(l *lab) caseJob {
			was := l.made()
			return caseJob{l.ask(seedbed.DoRebuild, nil), func() { l.rebuilt(was) }, func() { l.asBefore(was) }}
		}},
		{"rebuild composed", seedbed.Job{Kind: seedbed.JobRebuild}, func(l *lab) caseJob {
			was := l.withTemplates().composedMade()
			return caseJob{l.ask(seedbed.DoRebuild, nil), func() { l.composedRebuilt(was) }, func() { l.asItWas(was) }}
		}},
		{"rebuild scripted", seedbed.Job{Kind: seedbed.JobRebuild, Spec: inputOf(seedbed.RebuildSpec{Scripted: true})}, func(l *lab) caseJob {
			l.withTemplates().scriptedBy(withBoth()).composedMade()
			id := l.ask(seedbed.DoRebuild, nil)
			return caseJob{id, func() { l.asScripted("web1_sda-"+id.Short(), "web1_sdb-"+id.Short()) },
				func() { l.asScripted("web1_sda", "web1_sdb") }}
		}},
		{"resize", seedbed.Job{Kind: seedbed.JobResize}, func(l *lab) caseJob {
			inst := l.stopped()
			id := l.resize(seedbed.ResizeRequest{Size: 8 * seedbed.MiB, VCPUs: 3, Memory: seedbed.GiB})
			return caseJob{id, func() { l.hasSize(inst.ID, 8*seedbed.MiB, 3, seedbed.GiB) },
				func() { l.hasSize(inst.ID, 4*seedbed.MiB, 1, 256*seedbed.MiB) }}
		}},
		{"flatten", seedbed.Job{Kind: seedbed.JobFlatten}, func(l *lab) caseJob {
			inst := l.off()
			return caseJob{l.job(l.intake.Flatten(l.t.Context(), seedbed.InDefault("web1"), usual)),
				func() { l.flattened(inst, "") }, func() { l.flattened(inst, "debian") }}
		}},
		{"snapshot", seedbed.Job{Kind: seedbed.JobSnapshot}, func(l *lab) caseJob {
			inst := l.made()
			guest := l.withGuestAgent(inst)
			return caseJob{l.job(l.intake.Snapshot(l.t.Context(), seedbed.InDefault("web1"), "s1", "", usual)),
				func() { l.snapshots(inst, "s1"); l.thawed(guest) }, func() { l.snapshots(inst); l.thawed(guest) }}
		}},
		{"snapshot-remove", seedbed.Job{Kind: seedbed.JobSnapshotRemove}, func(l *lab) caseJob {
			inst := l.made()
			l.runUntil(l.job(l.intake.Snapshot(l.t.Context(), seedbed.InDefault("web1"), "s1", "", usual)), seedbed.JobSucceeded)
			return caseJob{id: l.job(l.intake.RemoveSnapshot(l.t.Context(), seedbed.InDefault("web1"), "s1", usual)),
				done: func() { l.snapshots(inst) }}
		}},
		{"snapshot-restore", seedbed.Job{Kind: seedbed.JobSnapshotRestore}, func(l *lab) caseJob {
			inst := l.written()
			return caseJob{l.restore(), func() { l.restored(inst, "old", seedbed.InstanceRunning) },
				func() { l.restored(inst, "new", seedbed.InstanceRunning) }}
		}},
		{"snapshot-restore stopped", seedbed.Job{Kind: seedbed.JobSnapshotRestore, Spec: inputOf(seedbed.SnapshotRestore{
			PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceStopped}})}, func(l *lab) caseJob {
			inst := l.written()
			l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
			return caseJob{l.restore(), func() { l.restored(inst, "old", seedbed.InstanceStopped) },
				func() { l.restored(inst, "new", seedbed.InstanceStopped) }}
		}},
		{"image-remove", seedbed.Job{Kind: seedbed.JobImageRemove}, func(l *lab) caseJob {
			l.runUntil(l.importOther(), seedbed.JobSucceeded)
			return caseJob{id: l.job(l.intake.RemoveImage(l.t.Context(), "other", usual)), done: func() { l.hasImage("other", false) }}
		}},
		{"ova", seedbed.Job{Kind: seedbed.JobOVA}, func(l *lab) caseJob {
			return caseJob{l.withOVAScript().importOVA("vm"), func() { l.ovaIs("vm", true) }, func() { l.ovaIs("vm", false) }}
		}},
		{"ova-remove", seedbed.Job{Kind: seedbed.JobOVARemove}, func(l *lab) caseJob {
			l.runUntil(l.withOVAScript().importOVA("vm"), seedbed.JobSucceeded)
			return caseJob{id: l.job(l.intake.RemoveOVA(l.t.Context(), "vm", usual)), done: func() { l.ovaIs("vm", false) }}
		}},
		{"volume-add", seedbed.Job{Kind: seedbed.JobVolumeAdd}, func(l *lab) caseJob {
			return caseJob{l.addVolume("data"), func() { l.hasVolume("data", seedbed.VolumeFree, "") }, func() { l.noVolume("data") }}
		}},
		{"volume-add copy", seedbed.Job{Kind: seedbed.JobVolumeAdd}, func(l *lab) caseJob {
			inst := l.stopped()
			id := l.copyVolume("web1:0", "data")
			return caseJob{id, func() { l.copied(inst, "data") }, func() { l.noVolume("data", inst.Volumes...); l.snapshots(inst) }}
		}},
		{"volume-remove", seedbed.Job{Kind: seedbed.JobVolumeRemove}, func(l *lab) caseJob {
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			id := l.onVolume(seedbed.DoVolumeRemove, "data", seedbed.VolumeOrder{})
			return caseJob{id: id, done: func() { l.noVolume("data") }}
		}},
		{"volume-resize", seedbed.Job{Kind: seedbed.JobVolumeResize}, func(l *lab) caseJob {
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			return caseJob{l.resizeVolume("data", 16*seedbed.MiB), func() { l.volumeHasSize("data", 16*seedbed.MiB, "") },
				func() { l.volumeHasSize("data", 8*seedbed.MiB, "") }}
		}},
		{"volume-resize attached", seedbed.Job{Kind: seedbed.JobVolumeResize}, func(l *lab) caseJob {
			l.made()
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
			return caseJob{l.resizeVolume("data", 16*seedbed.MiB), func() { l.volumeHasSize("data", 16*seedbed.MiB, "web1") },
				func() { l.volumeHasSize("data", 8*seedbed.MiB, "web1") }}
		}},
		{"volume-set", seedbed.Job{Kind: seedbed.JobVolumeSet}, func(l *lab) caseJob {
			l.made()
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
			return caseJob{l.limitVolume("data"), func() { l.volumeHasLimits("data", someLimits, "web1") },
				func() { l.volumeHasLimits("data", seedbed.IOLimits{}, "web1") }}
		}},
		{"attach", seedbed.Job{Kind: seedbed.JobAttach}, func(l *lab) caseJob {
			l.made()
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			return caseJob{l.attach("data", "web1"), func() { l.hasVolume("data", seedbed.VolumeAttached, "web1") },
				func() { l.hasVolume("data", seedbed.VolumeFree, "") }}
		}},
		{"detach", seedbed.Job{Kind: seedbed.JobDetach}, func(l *lab) caseJob {
			l.made()
			l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
			l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
			id := l.onVolume(seedbed.DoVolumeDetach, "data", seedbed.VolumeOrder{})
			return caseJob{id, func() { l.hasVolume("data", seedbed.VolumeFree, "") },
				func() { l.hasVolume("data", seedbed.VolumeAttached, "web1") }}
		}},
		{"nic_add", seedbed.Job{Kind: seedbed.JobNICAdd}, func(l *lab) caseJob {
			l.made()
			return caseJob{l.addNIC("default"), func() { l.hasNICs("default", "default") }, func() { l.hasNICs("default") }}
		}},
		{"nic_remove", seedbed.Job{Kind: seedbed.JobNICRemove}, func(l *lab) caseJob {
			l.made()
			l.runUntil(l.addNIC("default"), seedbed.JobSucceeded)
			id := l.onNIC(seedbed.DoNICRemove, 1)
			return caseJob{id, func() { l.hasNICs("default") }, func() { l.hasNICs("default", "default") }}
		}},
		{"nic_set", seedbed.Job{Kind: seedbed.JobNICSet}, func(l *lab) caseJob {
			l.made()
			l.otherNetwork()
			l.runUntil(l.addNIC("default"), seedbed.JobSucceeded)
			id := l.onNIC(seedbed.DoNICSet, 1, seedbed.NICRequest{Network: "other"})
			return caseJob{id, func() { l.hasNICs("default", "other") }, func() { l.hasNICs("default", "default") }}
		}},
		{"set", seedbed.Job{Kind: seedbed.JobSet}, func(l *lab) caseJob {
			inst := l.made()
			l.importISO("disc")
			from := seedbed.BootCDROM
			return caseJob{l.set(seedbed.HardwareChange{CDROM: new("disc"), BootFrom: &from}),
				func() { l.hasDrive(inst.ID, "disc", seedbed.BootCDROM) }, func() { l.hasDrive(inst.ID, "", "") }}
		}},
		{"set again", seedbed.Job{Kind: seedbed.JobSet}, func(l *lab) caseJob {
			inst := l.made()
			l.importISO("disc")
			l.importISO("second")
			l.runUntil(l.set(seedbed.HardwareChange{CDROM: new("disc")}), seedbed.JobSucceeded)
			l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
			return caseJob{l.set(seedbed.HardwareChange{CDROM: new("second")}),
				func() { l.hasDrive(inst.ID, "second", "") }, func() { l.hasDrive(inst.ID, "disc", "") }}
		}},
		{"forget", seedbed.Job{Kind: seedbed.JobForget}, func(l *lab) caseJob {
			l.made()
			return caseJob{id: l.job(l.intake.Forget(l.t.Context(), seedbed.InDefault("web1"), usual)), done: func() { l.foreign("web1") }}
		}},
		{"adopt", seedbed.Job{Kind: seedbed.JobAdopt}, func(l *lab) caseJob {
			inst := l.made()
			l.runUntil(l.job(l.intake.Forget(l.t.Context(), seedbed.InDefault("web1"), usual)), seedbed.JobSucceeded)
			l.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
			was := l.foreign("web1")
			return caseJob{l.job(l.intake.Adopt(l.t.Context(), was, seedbed.AdoptRequest{}, usual)),
				func() { l.domain(inst.ID, seedbed.DomainOff) }, func() { l.released(was) }}
		}},
	}, slices.Concat(copyCases, renameCases, cloneCases, backupCases)...)
)
