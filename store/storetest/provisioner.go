package storetest

import (
	"context"
	"strings"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var provisionerCases = map[string]func(*bench){
	"user-data and scripts":        testTexts,
	"what is always there":         testAlways,
	"profiles":                     testProvisionerProfiles,
	"a profile's bounds":           testProvisionerBounds,
	"what a profile uses stays":    testProvisionerUses,
	"a composition":                testComposition,
	"jobs that have not ended":     testLiveJobs,
	"an instance of several parts": testComposedInstance,
}

// composed creates what the profile of profileOf refers to.
func (b *bench) composed() {
	b.Helper()
	ctx := context.Background()
	b.world()
	get(b.CreateSystemTemplate(ctx, systemOf("small")))(b)
	get(b.CreateNetworkTemplate(ctx, "lan", ""))(b)
	b.must(b.addNetwork("lan", "default", false))
	get(b.CreateStorageTemplate(ctx, "root"))(b)
	b.must(b.addDisk("root", seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "debian"}))
	get(b.CreateUserData(ctx, "cloud", "#cloud-config\n"))(b)
	get(b.CreateScript(ctx, "install", "print(1)\n"))(b)
}

func profileOf(name string) seedbed.Profile {
	p := seedbed.NewScripted(name, "install")
	p.System, p.NetworkTemplate, p.Storage, p.Document = "small", "lan", "root", "cloud"
	return p
}

func testTexts(b *bench) {
	ctx := context.Background()
	mime := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/cloud-config\n\n#cloud-config\n--x--\n"
	made := get(b.CreateUserData(ctx, "multi", mime))(b)
	b.equal(get(b.UserDataDocuments(ctx, seedbed.ExactName("multi")))(b), []seedbed.UserDataDocument{made})
	if made.Data != mime || made.Revision != 1 || made.ID == 0 || made.Created.IsZero() {
		b.Errorf("kept as %+v", made)
	}
	_, err := b.CreateUserData(ctx, "multi", "")
	b.want(err, seedbed.ErrExists, `the userdata document "multi" already exists`)
	_, err = b.CreateUserData(ctx, "A/b", "")
	b.want(err, seedbed.ErrInvalid)
	_, err = b.CreateUserData(ctx, "nul", "a\x00b")
	b.want(err, seedbed.ErrInvalid, "NUL")
	_, err = b.CreateUserData(ctx, "latin", "\xe9")
	b.want(err, seedbed.ErrInvalid, "UTF-8")
	_, err = b.CreateUserData(ctx, "huge", strings.Repeat("x", int(seedbed.MaxDocument)+1))
	b.want(err, seedbed.ErrInvalid, "at most")
	b.must(b.setUserData("multi", "#!/bin/sh\n"))
	if d := get(b.UserDataDocuments(ctx, seedbed.ExactName("multi")))(b)[0]; d.Data != "#!/bin/sh\n" || d.Revision != 2 {
		b.Errorf("changed to %+v", d)
	}
	b.want(b.setUserData("none", ""), seedbed.ErrNotFound, `the userdata document "none" does not exist`)
	b.must(b.DeleteUserData(ctx, "multi"))
	b.want(b.DeleteUserData(ctx, "multi"), seedbed.ErrNotFound)

	script := get(b.CreateScript(ctx, "install", "print(1)\n"))(b)
	b.equal(get(b.Scripts(ctx, seedbed.ExactName("install")))(b), []seedbed.Script{script})
	_, err = b.CreateScript(ctx, "install", "")
	b.want(err, seedbed.ErrExists, `the script "install" already exists`)
	b.must(b.setScript("install", "print(2)\n"))
	if s := get(b.Scripts(ctx, seedbed.ExactName("install")))(b)[0]; s.Text != "print(2)\n" || s.Revision != 2 {
		b.Errorf("changed to %+v", s)
	}
	b.want(b.setScript("none", ""), seedbed.ErrNotFound, `the script "none" does not exist`)
	b.must(b.DeleteScript(ctx, "install"))
	b.want(b.DeleteScript(ctx, "install"), seedbed.ErrNotFound)
}

func testAlways(b *bench) {
	ctx := context.Background()
	docs, scripts := get(b.UserDataDocuments(ctx, seedbed.NameMatch{}))(b), get(b.Scripts(ctx, seedbed.NameMatch{}))(b)
	if len(docs) != 1 || docs[0].Name != "empty" || docs[0].Data != "" || len(scripts) != 1 ||
		scripts[0].Name != "empty" || scripts[0].Text != "" {
		b.Errorf("%+v, %+v", docs, scripts)
	}
	b.want(b.DeleteUserData(ctx, "empty"), seedbed.ErrConflict, "always there")
	b.want(b.DeleteScript(ctx, "empty"), seedbed.ErrConflict)
	b.want(b.setUserData("empty", "x"), seedbed.ErrConflict)
	b.want(b.setScript("empty", "x"), seedbed.ErrConflict)
	b.equal(get(b.UserDataDocuments(ctx, seedbed.NameMatch{}))(b), docs)
}

func testProvisionerProfiles(b *bench) {
	ctx := context.Background()
	b.composed()
	p := profileOf("web")
	p.Arguments = []string{"a=b|c", "d="}
	made := get(b.CreateProfile(ctx, p))(b)
	p.Revision, p.Published = 1, &seedbed.Publication{Projects: []string{}}
	b.equal(made, p, cmpopts.IgnoreFields(seedbed.Profile{}, "ID", "Created", "Changed"))
	_, err := b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrExists, `the profile "web" already exists`)
	plain := profileOf("plain")
	plain.Document, plain.Script = "", "empty"
	bare := get(b.CreateProfile(ctx, plain))(b)
	b.equal(get(b.ScriptedProfiles(ctx, seedbed.NameMatch{}))(b), []seedbed.Profile{bare, made})
	changed := get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error {
		p.Name, p.Document, p.Arguments = "x", "empty", nil
		return nil
	}))(b)
	if changed.Name != "web" || changed.ID != made.ID || changed.Document != "empty" || len(changed.Arguments) > 0 || changed.Revision != 2 {
		b.Errorf("changed to %+v", changed)
	}
	b.equal(get(b.ScriptedProfiles(ctx, seedbed.ExactName("web")))(b), []seedbed.Profile{changed})
	_, err = b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.Storage = "none"; return nil })
	b.want(err, seedbed.ErrInvalid, `the storage template "none" for profile "web" does not exist`)
	_, err = b.ChangeProfile(ctx, "none", func(*seedbed.Profile) error { return nil })
	b.want(err, seedbed.ErrNotFound, `the profile "none" does not exist`)
	b.must(b.DeleteProfile(ctx, "web"))
	b.want(b.DeleteProfile(ctx, "web"), seedbed.ErrNotFound)
}

func testProvisionerBounds(b *bench) {
	ctx := context.Background()
	b.composed()
	for name, c := range map[string]struct {
		spoil func(*seedbed.Profile)
		say   string
	}{
		"a name":             {func(p *seedbed.Profile) { p.Name = "a%" }, "profile name"},
		"no disks":           {func(p *seedbed.Profile) { p.Storage = "" }, "neither an image nor a storage template"},
		"no NICs":            {func(p *seedbed.Profile) { p.NetworkTemplate = "" }, "neither a network nor a network template"},
		"no system":          {func(p *seedbed.Profile) { p.System = "" }, "vcpus is 0"},
		"no script":          {func(p *seedbed.Profile) { p.Script, p.Arguments = "", []string{"a=b"} }, "script arguments, and no script"},
		"unknown system":     {func(p *seedbed.Profile) { p.System = "x" }, `the system template "x" for profile "web" does not exist`},
		"a pattern":          {func(p *seedbed.Profile) { p.System = "smal_" }, `"smal_"`},
		"NUL":                {func(p *seedbed.Profile) { p.NetworkTemplate = "a\x00" }, "network template"},
		"unknown userdata":   {func(p *seedbed.Profile) { p.Document = "x" }, `the userdata document "x" for profile "web" does not exist`},
		"unknown script":     {func(p *seedbed.Profile) { p.Script = "x" }, `the script "x" for profile "web" does not exist`},
		"a flag of a script": {func(p *seedbed.Profile) { p.Arguments = []string{"k"} }, "expected key=value"},
		"no key":             {func(p *seedbed.Profile) { p.Arguments = []string{"=v"} }, "expected key=value"},
		"many arguments":     {func(p *seedbed.Profile) { p.Arguments = make([]string, 101) }, "101 script arguments"},
	} {
		p := profileOf("web")
		c.spoil(&p)
		_, err := b.CreateProfile(ctx, p)
		if seedbed.KindName(err) != "invalid" || !strings.Contains(err.Error(), c.say) {
			b.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
	b.equal(get(b.ScriptedProfiles(ctx, seedbed.NameMatch{}))(b), []seedbed.Profile{})
}

func testProvisionerUses(b *bench) {
	ctx := context.Background()
	b.composed()
	for i := range 7 {
		get(b.CreateProfile(ctx, profileOf(nameN(i))))(b)
	}
	for what, err := range map[string]error{
		`system template "small"`: b.DeleteSystemTemplate(ctx, "small"), `network template "lan"`: b.DeleteNetworkTemplate(ctx, "lan"),
		`storage template "root"`: b.DeleteStorageTemplate(ctx, "root"), `userdata document "cloud"`: b.DeleteUserData(ctx, "cloud"),
		`script "install"`: b.DeleteScript(ctx, "install"),
	} {
		b.want(err, seedbed.ErrInUse, what, `profile "web0"`, `"web4"`, "and others")
	}
	for i := range 7 {
		b.must(b.DeleteProfile(ctx, nameN(i)))
	}
	for _, err := range []error{
		b.DeleteSystemTemplate(ctx, "small"), b.DeleteNetworkTemplate(ctx, "lan"), b.DeleteStorageTemplate(ctx, "root"),
		b.DeleteUserData(ctx, "cloud"), b.DeleteScript(ctx, "install"),
	} {
		b.must(err)
	}
}

func testComposition(b *bench) {
	ctx := context.Background()
	b.composed()
	p := get(b.CreateProfile(ctx, profileOf("web")))(b)
	b.equal(get(b.Profile(ctx, "web"))(b), p)
	c := get(b.Parts(ctx, "web",
		seedbed.PartNames{System: p.System, Network: p.NetworkTemplate, Storage: p.Storage, UserData: p.Document, Script: p.Script}))(b)
	if c.System.Name != "small" || len(c.Network.Networks) != 1 || len(c.Storage.Disks) != 1 ||
		c.UserData.Data != "#cloud-config\n" || c.Script.Text != "print(1)\n" || c.OVA != nil {
		b.Errorf("%+v", c)
	}
	_, err := b.Profile(ctx, "we%")
	b.want(err, seedbed.ErrNotFound, `the profile "we%" does not exist`)
	_, err = b.Profile(ctx, "a\x00")
	b.want(err, seedbed.ErrNotFound)
}

func testLiveJobs(b *bench) {
	ctx := context.Background()
	b.world() // its import has ended
	b.equal(get(b.LiveJobs(ctx, seedbed.AllProjects(), 10))(b), []seedbed.Job{})
	first, second := get(b.Accept(ctx, createOf("web0")))(b), get(b.Accept(ctx, createOf("web1")))(b)
	live := get(b.LiveJobs(ctx, seedbed.AllProjects(), 10))(b)
	if len(live) != 2 || live[0].ID != first.Job || live[1].ID != second.Job {
		b.Errorf("%+v", live)
	}
	if one := get(b.LiveJobs(ctx, seedbed.AllProjects(), 1))(b); len(one) != 1 {
		b.Errorf("%+v", one)
	}
}

// An instance need not have its own image, and may have several NICs and disks.
func testComposedInstance(b *bench) {
	ctx := context.Background()
	b.world()
	b.network("lan", "br1", "10.1.0.0/24")
	a := createOf("web0")
	i := a.Instance
	a.Job.Spec = []byte(`{"profile":"web","revision":1,"start":false}`)
	i.Image, i.Held = "", true
	i.NICs = append(i.NICs, seedbed.NIC{Index: 1, MAC: newMAC(), Network: "lan"})
	i.Volumes = []seedbed.Volume{
		{Name: string(i.ID) + "-0", Pool: "default", Size: seedbed.GiB},
		{Name: string(i.ID) + "-1", Pool: "default", Index: 1, Size: seedbed.GiB, Image: "debian"},
	}
	get(b.Accept(ctx, a))(b)
	got := get(b.InstanceByName(ctx, seedbed.InDefault("web0")))(b)
	if !got.Held || len(got.NICs) != 2 || got.NICs[1].Network != "lan" ||
		!got.NICs[1].Addr.IsValid() || len(got.Volumes) != 2 || got.Volumes[1].Image != "debian" {
		b.Errorf("%+v", got)
	}
	if j := get(b.Job(ctx, a.Job.ID))(b); string(j.Spec) != string(a.Job.Spec) {
		b.Errorf("spec %s", j.Spec)
	}
}
