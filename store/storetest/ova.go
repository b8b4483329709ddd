package storetest

import (
	"context"
	"encoding/json"

	"seedbed"
)

var ovaCases = map[string]func(*bench){
	"OVA comes":                  testOVA,
	"OVA refused":                testOVARefused,
	"OVA undone":                 testOVAUndone,
	"OVA cancelled":              testOVACancelled,
	"OVA goes":                   testOVARemoval,
	"OVA stays":                  testOVAStays,
	"profiles of an OVA":         testOVAProfiles,
	"OVA of a project":           testOVAOfAProject,
	"images have their firmware": testFirmware,
}

// ovaOf returns the request for an OVA image with two disks. The script "ova" must exist.
func ovaOf(name string) seedbed.Acceptance {
	made := seedbed.NewOVA{
		OVA:     seedbed.OVA{Name: name},
		System:  seedbed.SystemTemplate{Name: name, VCPUs: 2, Memory: seedbed.GiB, OVA: name},
		Profile: seedbed.Profile{Name: name, System: name, Script: "ova", OVA: name},
	}
	for i := range 2 {
		v := seedbed.OVAVolume{Disk: seedbed.DiskName(i), Pool: "default", File: seedbed.DiskName(i) + ".vmdk", Format: "vmdk", Size: seedbed.GiB}
		v.Image = seedbed.OVAImage(name, v.Disk)
		made.OVA.Volumes = append(made.OVA.Volumes, v)
		made.Images = append(made.Images, seedbed.Image{Name: v.Image, Pool: v.Pool, Source: "ova:" + name, Firmware: seedbed.FirmwareUEFI})
	}
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobOVA, Subject: name, Node: node}, OVA: &made}
}

func ovaRemoveOf(name string) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobOVARemove, Subject: name, Node: node}}
}

// ova imports an OVA image and returns its import job.
func (b *bench) ova(name string) seedbed.JobID {
	b.Helper()
	ctx := context.Background()
	if found := get(b.Scripts(ctx, seedbed.ExactName("ova")))(b); len(found) == 0 {
		get(b.CreateScript(ctx, "ova", ""))(b)
	}
	get(b.Accept(ctx, ovaOf(name)))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Total: 1, Images: found(name, j.ID)}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	return j.ID
}

// found returns what the import of ovaOf finds.
func found(name string, job seedbed.JobID) (all []seedbed.ImageInfo) {
	for i := range 2 {
		all = append(all, seedbed.ImageInfo{Pool: "default", Name: seedbed.OVAImage(name, seedbed.DiskName(i)),
			Job: job, Size: 2 * seedbed.GiB, Format: "vmdk", SHA256: "ab"})
	}
	return all
}

// ovaTraces lists everything that exists of an OVA image.
func (b *bench) ovaTraces(name string) (traces []string) {
	b.Helper()
	ctx, m := context.Background(), seedbed.ExactName(name)
	for _, o := range get(b.OVAs(ctx, m))(b) {
		traces = append(traces, "ova "+string(o.State))
	}
	for _, t := range get(b.SystemTemplates(ctx, m))(b) {
		traces = append(traces, "system "+t.OVA)
	}
	for _, p := range get(b.ScriptedProfiles(ctx, m))(b) {
		traces = append(traces, "profile "+p.OVA)
	}
	for i := range 2 {
		if image, err := b.Image(ctx, seedbed.OVAImage(name, seedbed.DiskName(i))); err == nil {
			traces = append(traces, "image "+string(image.State))
		}
	}
	return traces
}

var (
	ovaNothing   []string
	ovaImporting = []string{"system vm", "profile vm", "image importing", "image importing"}
	ovaThere     = []string{"ova active", "system vm", "profile vm", "image active", "image active"}
)

func testOVA(b *bench) {
	ctx := context.Background()
	get(b.CreateScript(ctx, "ova", ""))(b)
	a := ovaOf("vm")
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued})
	b.equal(b.ovaTraces("vm"), ovaImporting)
	j := b.claim()
	b.equal([]any{j.Kind, j.Subject, j.Node}, []any{seedbed.JobOVA, "vm", node})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Total: 1, Images: found("vm", j.ID)}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "made its images already")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(b.ovaTraces("vm"), ovaThere)
	all := get(b.OVAs(ctx, seedbed.NameMatch{}))(b)
	b.equal(len(all), 1)
	b.equal(all[0].Volumes[1],
		seedbed.OVAVolume{Disk: "sdb", Pool: "default", Image: "ova_vm_sdb", File: "sdb.vmdk", Format: "vmdk", Size: 2 * seedbed.GiB})
	t := get(b.SystemTemplates(ctx, seedbed.ExactName("vm")))(b)[0]
	b.equal(t.OVAID, all[0].ID)
	image := get(b.Image(ctx, "ova_vm_sda"))(b)
	b.equal([]any{image.Size, image.Format, image.SHA256, image.Firmware}, []any{2 * seedbed.GiB, "vmdk", "ab", seedbed.FirmwareUEFI})
	c := get(b.Parts(ctx, "vm", seedbed.PartNames{OVA: "vm", Script: "ova"}))(b)
	b.equal([]any{c.OVA.Name, len(c.OVA.Volumes), c.Network == nil, c.Storage == nil}, []any{"vm", 2, true, true})
	b.ova("other")
	b.equal(len(get(b.OVAs(ctx, seedbed.NameMatch{}))(b)), 2)
	b.equal(len(get(b.OVAs(ctx, seedbed.NameMatch{Text: "oth"}))(b)), 1)
}

func testOVARefused(b *bench) {
	ctx := context.Background()
	_, err := b.Accept(ctx, ovaOf("vm"))
	b.want(err, seedbed.ErrInvalid, "script", "ova")
	b.equal(b.ovaTraces("vm"), ovaNothing)
	b.ova("vm")
	_, err = b.Accept(ctx, ovaOf("vm"))
	b.want(err, seedbed.ErrExists, "OVA image", "vm")
	for name, prepare := range map[string]func(){
		"system": func() {
			get(b.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "system", VCPUs: 1, Memory: seedbed.GiB}))(b)
		},
		"profile": func() {
			get(b.CreateProfile(ctx, seedbed.Profile{Name: "profile", System: "vm", Script: "ova", OVA: "vm"}))(b)
		},
		"ima": func() { b.image("ova_ima_sdb") },
	} {
		prepare()
		_, err = b.Accept(ctx, ovaOf(name))
		b.want(err, seedbed.ErrExists, name)
		b.equal(len(get(b.OVAs(ctx, seedbed.ExactName(name)))(b)), 0)
		_, err = b.Image(ctx, seedbed.OVAImage(name, "sda"))
		b.want(err, seedbed.ErrNotFound)
	}
	for _, bad := range []func(*seedbed.Acceptance){
		func(a *seedbed.Acceptance) { a.OVA = nil },
		func(a *seedbed.Acceptance) { a.OVA.OVA.Volumes = nil },
		func(a *seedbed.Acceptance) { a.OVA.Images = a.OVA.Images[:1] },
		func(a *seedbed.Acceptance) { a.OVA.OVA.Name = "../x" },
		func(a *seedbed.Acceptance) { a.OVA.System.VCPUs = 0 },
	} {
		a := ovaOf("bad")
		bad(&a)
		_, err := b.Accept(ctx, a)
		b.want(err, seedbed.ErrInvalid)
	}
	_, err = b.Accept(ctx, imageRemoveOf("ova_vm_sda"))
	b.want(err, seedbed.ErrInUse, "OVA image", "vm")
}

func testOVAUndone(b *bench) {
	ctx := context.Background()
	get(b.CreateScript(ctx, "ova", ""))(b)
	get(b.Accept(ctx, ovaOf("vm")))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Undo(ctx, j.Ref(), "damaged"))
	b.must(b.Undone(ctx, j.Ref(), "import", ""))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "damaged", Drop: true}))
	b.equal(b.ovaTraces("vm"), ovaNothing)
	b.ova("vm")
	b.equal(b.ovaTraces("vm"), ovaThere)
}

func testOVACancelled(b *bench) {
	ctx := context.Background()
	get(b.CreateScript(ctx, "ova", ""))(b)
	a := ovaOf("vm")
	get(b.Accept(ctx, a))(b)
	b.must(b.CancelJob(ctx, a.Job.ID))
	if j := get(b.Job(ctx, a.Job.ID))(b); !j.State.Terminal() {
		j = b.claim()
		b.must(b.Undo(ctx, j.Ref(), "cancelled"))
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	}
	b.equal(b.ovaTraces("vm"), ovaNothing)
}

func testOVARemoval(b *bench) {
	ctx := context.Background()
	by := b.ova("vm")
	get(b.CreateProfile(ctx, seedbed.Profile{Name: "second", System: "vm", Script: "ova", OVA: "vm"}))(b)
	_, err := b.Accept(ctx, ovaRemoveOf("none"))
	b.want(err, seedbed.ErrNotFound, "none")
	a := ovaRemoveOf("vm")
	get(b.Accept(ctx, a))(b)
	_, err = b.Accept(ctx, ovaRemoveOf("vm"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	b.want(b.CancelJob(ctx, a.Job.ID), seedbed.ErrInvalid)
	j := b.claim()
	var spec seedbed.OVAJob
	b.must(json.Unmarshal(j.Spec, &spec))
	b.equal([]any{spec.Import, spec.Was, len(spec.Volumes), j.Pool}, []any{by, seedbed.ImageActive, 2, "default"})
	b.equal(get(b.Image(ctx, "ova_vm_sda"))(b).State, seedbed.ImageRemoving)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(b.ovaTraces("vm"), ovaNothing)
	b.equal(len(get(b.ScriptedProfiles(ctx, seedbed.ExactName("second")))(b)), 0)
	b.ova("vm")
	b.equal(b.ovaTraces("vm"), ovaThere)
}

func testOVAStays(b *bench) {
	ctx := context.Background()
	b.world()
	b.ova("vm")
	// Another profile uses the system template that came with the OVA image.
	get(b.CreateNetworkTemplate(ctx, "lan", ""))(b)
	get(b.CreateStorageTemplate(ctx, "root"))(b)
	get(b.CreateProfile(ctx, seedbed.Profile{Name: "user", System: "vm", NetworkTemplate: "lan", Storage: "root", Script: "ova"}))(b)
	_, err := b.Accept(ctx, ovaRemoveOf("vm"))
	b.want(err, seedbed.ErrInUse, "user")
	b.must(b.DeleteProfile(ctx, "user"))
	b.must(b.addDisk("root", seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "ova_vm_sdb"}))
	_, err = b.Accept(ctx, ovaRemoveOf("vm"))
	b.want(err, seedbed.ErrInUse, "root")
	b.must(b.removeDisk("root", "sda"))
	// A removal that changed nothing leaves the OVA image as before.
	get(b.Accept(ctx, ovaRemoveOf("vm")))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "clones in the trash", ImageState: seedbed.ImageActive}))
	b.equal(b.ovaTraces("vm"), ovaThere)
	// A removal that failed half-way can be resumed or requested again.
	get(b.Accept(ctx, ovaRemoveOf("vm")))(b)
	j = b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "half way"}))
	b.equal(get(b.ResumeJob(ctx, j.ID))(b).State, seedbed.JobQueued)
	j = b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(b.ovaTraces("vm"), ovaNothing)
}

func testOVAProfiles(b *bench) {
	ctx := context.Background()
	b.ova("vm")
	for _, c := range []struct {
		profile seedbed.Profile
		problem string
	}{
		{seedbed.Profile{Name: "a", System: "vm", Script: "ova"}, "neither an image nor a storage template"},
		{seedbed.Profile{Name: "a", System: "vm", Script: "ova", OVA: "none"}, `the OVA image "none" for profile "a" does not exist`},
	} {
		_, err := b.CreateProfile(ctx, c.profile)
		b.want(err, seedbed.ErrInvalid, c.problem)
	}
	_, err := b.ChangeProfile(ctx, "vm", func(p *seedbed.Profile) error { p.OVA = ""; return nil })
	b.want(err, seedbed.ErrConflict, "another OVA image")
	b.equal(get(b.Profile(ctx, "vm"))(b).OVA, "vm")
	// The profile and template that came with the OVA image may be removed before it.
	b.must(b.DeleteProfile(ctx, "vm"))
	b.must(b.DeleteSystemTemplate(ctx, "vm"))
	get(b.Accept(ctx, ovaRemoveOf("vm")))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(b.ovaTraces("vm"), ovaNothing)
}

func testFirmware(b *bench) {
	ctx := context.Background()
	a := importOf("efi")
	a.Image.Firmware = seedbed.FirmwareUEFI
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.Image(ctx, "efi"))(b).Firmware, seedbed.FirmwareUEFI)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Total: 1,
		Image: &seedbed.ImageInfo{Pool: "default", Name: "efi", Size: seedbed.GiB, Format: "raw", Firmware: seedbed.FirmwareUEFI}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(get(b.Image(ctx, "efi"))(b).Firmware, seedbed.FirmwareUEFI)
}

// An OVA image belongs to a project, with its images, its system template and its profile. Another project uses it
// while it is published to that.
func testOVAOfAProject(b *bench) {
	ctx := context.Background()
	b.owners()
	get(b.CreateScript(ctx, "acme/ova", ""))(b)
	get(b.CreateScript(ctx, "shop/own", ""))(b)
	_, err := b.Accept(ctx, ovaOf("none/vm"))
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	a := ovaOf("acme/vm")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.equal([]string{j.Project, j.Subject}, []string{"acme", "acme/vm"})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Total: 1, Images: found("acme/vm", j.ID)}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(b.ovaTraces("acme/vm"), []string{"ova active", "system acme/vm", "profile acme/vm", "image active", "image active"})
	b.equal(get(b.Image(ctx, "acme/ova_vm_sda"))(b).Name, "acme/ova_vm_sda")
	b.ova("vm") // of the default project
	b.equal(len(get(b.OVAs(ctx, seedbed.NameMatch{Project: "acme"}))(b)), 1)

	p := seedbed.NewScripted("shop/web", "own")
	p.OVA, p.VCPUs, p.Memory = "acme/vm", 1, seedbed.GiB
	_, err = b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `"acme/vm"`, "does not exist")
	made := get(b.PublishOVA(ctx, "acme/vm", seedbed.Publication{Projects: []string{"shop"}}))(b)
	b.equal(made.Published, &seedbed.Publication{Projects: []string{"shop"}})
	b.equal(get(b.OVAs(ctx, seedbed.ExactName("acme/vm")))(b), []seedbed.OVA{made})
	get(b.CreateProfile(ctx, p))(b)
	b.equal(len(get(b.Parts(ctx, "shop/web", seedbed.PartNames{OVA: "acme/vm"}))(b).OVA.Volumes), 2)
	get(b.PublishOVA(ctx, "acme/vm", seedbed.Publication{}))(b)
	_, err = b.Parts(ctx, "shop/web", seedbed.PartNames{OVA: "acme/vm"})
	b.want(err, seedbed.ErrInvalid, `"acme/vm"`)
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrInUse, "OVA image acme/vm")

	get(b.PublishOVA(ctx, "acme/vm", seedbed.Publication{All: true}))(b)
	get(b.Accept(ctx, ovaRemoveOf("acme/vm")))(b)
	j = b.claim()
	b.equal([]string{j.Project, j.Subject}, []string{"acme", "acme/vm"})
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(b.ovaTraces("acme/vm"), ovaNothing)
	_, err = b.Resolve(ctx, seedbed.PublishedOVA, "shop", "acme/vm")
	b.want(err, seedbed.ErrNotFound)
	b.equal(b.ovaTraces("vm"), ovaThere)
}
