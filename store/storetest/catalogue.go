package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var catalogueCases = map[string]func(*bench){
	"networks":                  testNetworks,
	"profiles":                  testProfiles,
	"NICs of profiles":          testProfileNICs,
	"profile of missing things": testProfileRefs,
	"user-data byte for byte":   testUserData,
	"hooks":                     testHooks,
	"settings":                  testSettings,
	"images":                    testImages,
	"image dropped while named": testDroppedImage,
}

func testNetworks(b *bench) {
	ctx := context.Background()
	b.equal(get(b.Networks(ctx))(b), []seedbed.Network{})
	n := b.network("default", "seedbed0", "10.99.0.0/24")
	m := b.network("a.second_one", "seedbed1", "10.99.0.0/24")
	b.equal(get(b.Network(ctx, "default"))(b), n)
	b.equal(get(b.Networks(ctx))(b), []seedbed.Network{m, n})
	_, err := b.Network(ctx, "none")
	b.want(err, seedbed.ErrNotFound, `network "none"`)
	_, err = b.CreateNetwork(ctx, n)
	b.want(err, seedbed.ErrExists, `network "default" exists`)
	other := n
	other.Name = "other"
	_, err = b.CreateNetwork(ctx, other)
	b.want(err, seedbed.ErrExists, `bridge "seedbed0" already belongs to network "default"`)
	for name, change := range map[string]func(*seedbed.Network){
		"gateway is the network's": func(n *seedbed.Network) { n.Gateway = netip.MustParseAddr("10.99.0.0") },
		"gateway is broadcast":     func(n *seedbed.Network) { n.Gateway = netip.MustParseAddr("10.99.0.255") },
		"gateway is outside":       func(n *seedbed.Network) { n.Gateway = netip.MustParseAddr("10.98.0.1") },
		"host bits":                func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("10.99.0.1/24") },
		"no room":                  func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("10.99.0.0/31") },
		"IPv6":                     func(n *seedbed.Network) { n.Prefix = netip.MustParsePrefix("fd00::/64") },
		"long bridge":              func(n *seedbed.Network) { n.Bridge = "a234567890123456" },
		"no MAC":                   func(n *seedbed.Network) { n.MAC = seedbed.MAC{} },
		"bad name":                 func(n *seedbed.Network) { n.Name = "a/b/c" },
		"unknown project":          func(n *seedbed.Network) { n.Name = "nobody/b" },
	} {
		bad := n
		bad.Name, bad.Bridge = "other", "seedbed2"
		change(&bad)
		if _, err := b.CreateNetwork(ctx, bad); err == nil {
			b.Errorf("%s: accepted", name)
		} else {
			b.want(err, seedbed.ErrInvalid)
		}
	}
}

func webProfile() seedbed.Profile {
	return seedbed.Profile{Name: "web", Image: "debian", VCPUs: 2, Memory: seedbed.GiB,
		DiskSize: 10 * seedbed.GiB, Network: "default", SSHKeys: []string{"k"}, UserData: []byte("#!/bin/sh\n"),
		BandwidthIn: 100_000_000, BandwidthOut: 10_000_000, BootFrom: seedbed.BootNetwork}
}

func testProfiles(b *bench) {
	ctx := context.Background()
	b.world()
	made := get(b.CreateProfile(ctx, webProfile()))(b)
	wanted := webProfile()
	wanted.Ready, wanted.Revision, wanted.Datasource, wanted.Follow = seedbed.ReadyMetadata, 1, seedbed.DatasourceEC2, seedbed.FollowPinned
	wanted.Published = &seedbed.Publication{Projects: []string{}}
	b.equal(made, wanted, cmpopts.IgnoreFields(seedbed.Profile{}, "ID", "Created", "Changed"))
	if made.Created.IsZero() || !made.Created.Equal(made.Changed) {
		b.Fatalf("created %v, changed %v", made.Created, made.Changed)
	}
	b.equal(get(b.Profile(ctx, "web"))(b), made)
	b.equal(get(b.ListProfiles(ctx, seedbed.ProfileQuery{Scope: seedbed.AllProjects()}))(b), []seedbed.Profile{made})
	_, err := b.CreateProfile(ctx, webProfile())
	b.want(err, seedbed.ErrExists, `profile "web" already exists`)
	_, err = b.Profile(ctx, "Web")
	b.want(err, seedbed.ErrNotFound, `profile "Web"`)
	b.must(b.DeleteProfile(ctx, "web"))
	b.want(b.DeleteProfile(ctx, "web"), seedbed.ErrNotFound, `profile "web"`)
	b.equal(get(b.ListProfiles(ctx, seedbed.ProfileQuery{Scope: seedbed.AllProjects()}))(b), []seedbed.Profile{})
}

func testProfileRefs(b *bench) {
	ctx := context.Background()
	b.world()
	p := webProfile()
	p.Image = "none"
	_, err := b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `profile "web"`, `image "none" does not exist`)
	p = webProfile()
	p.Network = "none"
	_, err = b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `profile "web"`, `network "none" does not exist`)
	for _, change := range []func(*seedbed.Profile){
		func(p *seedbed.Profile) { p.Name = "" },
		func(p *seedbed.Profile) { p.VCPUs = 0 },
		func(p *seedbed.Profile) { p.Memory = 0 },
		func(p *seedbed.Profile) { p.DiskSize = -1 },
		func(p *seedbed.Profile) { p.Ready = "soon" },
		func(p *seedbed.Profile) { p.UserData = make([]byte, seedbed.MaxDocument+1) },
		func(p *seedbed.Profile) { p.VendorData = make([]byte, seedbed.MaxDocument+1) },
		func(p *seedbed.Profile) { p.Datasource = "azure" },
		func(p *seedbed.Profile) { p.Metadata.Tokens = "yes" },
		func(p *seedbed.Profile) { p.Metadata.HopLimit = 65 },
		func(p *seedbed.Profile) { p.Tags = map[string]string{"a/b": "c"} },
		func(p *seedbed.Profile) { p.BandwidthOut = 1 },
		func(p *seedbed.Profile) { p.BootFrom = "floppy" },
		func(p *seedbed.Profile) { p.BootFrom, p.Script = seedbed.BootNetwork, "empty" },
	} {
		p := webProfile()
		change(&p)
		_, err := b.CreateProfile(ctx, p)
		b.want(err, seedbed.ErrInvalid)
	}
	get(b.Accept(ctx, importOf("coming")))(b)
	p = webProfile()
	p.Image = "coming"
	get(b.CreateProfile(ctx, p))(b)
}

// nicsProfile returns a profile with two NICs, in the networks lab and default.
func nicsProfile(name string) seedbed.Profile {
	p := webProfile()
	p.Name, p.Network = name, ""
	p.NICs = []seedbed.NICRequest{
		{Network: "lab", SecondaryCount: 2, Groups: []string{"db", "open"}, BandwidthIn: 50_000_000}, {Network: "default"},
	}
	return p
}

// A profile has a list of NICs in place of a network. What they name is there, and is not removed while the profile is.
func testProfileNICs(b *bench) {
	ctx := context.Background()
	b.world()
	b.network("lab", "lab0", "10.98.0.0/24")
	get(b.CreateNetwork(ctx, seedbed.Network{Name: "floor", Kind: seedbed.NetworkDirect, Bridge: "floor0", MAC: newMAC(), Uplink: "eth1",
		NetworkOptions: seedbed.NetworkOptions{Mode: seedbed.DirectPrivate}, DNS: []netip.Addr{}}))(b)
	_, err := b.CreateProfile(ctx, nicsProfile("web"))
	b.want(err, seedbed.ErrInvalid, `profile "web"`, `security group "db" does not exist`)
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "db"}))(b)
	made := get(b.CreateProfile(ctx, nicsProfile("web")))(b)
	b.equal(made.NICs, nicsProfile("web").NICs)
	b.equal(made.Network, "")
	b.equal(get(b.Profile(ctx, "web"))(b), made)
	b.equal(get(b.ListProfiles(ctx, seedbed.ProfileQuery{Scope: seedbed.AllProjects()}))(b), []seedbed.Profile{made})
	b.want(b.DeleteNetwork(ctx, "lab"), seedbed.ErrInUse, `network "lab" is used by profile web:`)
	b.want(b.DeleteNetwork(ctx, "default"), seedbed.ErrInUse, `network "default" is used by profile web:`)
	b.want(b.DeleteSecurityGroup(ctx, "db"), seedbed.ErrInUse, `security group "db" is used by profile web:`)

	mac, addr := newMAC(), netip.MustParseAddr("10.98.0.9")
	for _, tt := range []struct {
		says   string
		change func(*seedbed.Profile)
	}{
		{"the network default is given as well", func(p *seedbed.Profile) { p.Network = "default" }},
		{"the network ${param.n} is given as well", func(p *seedbed.Profile) { p.Expressions = map[string]string{"network": "${param.n}"} }},
		{"the network template two is given as well", func(p *seedbed.Profile) { p.NetworkTemplate = "two" }},
		{"the script x makes those", func(p *seedbed.Profile) { p.Script = "x" }},
		{"there are 17: expected at most 16", func(p *seedbed.Profile) { p.NICs = make([]seedbed.NICRequest, 17) }},
		{`NIC 1: network "none" does not exist`, func(p *seedbed.Profile) { p.NICs[1].Network = "none" }},
		{"NIC 1 names no network", func(p *seedbed.Profile) { p.NICs[1].Network = "" }},
		{"NIC 0 has the MAC address " + mac.String(), func(p *seedbed.Profile) { p.NICs[0].MAC = mac }},
		{"with the instance, as seedbed create --nic network=lab,ip=10.98.0.9", func(p *seedbed.Profile) { p.NICs[0].Addr = addr }},
		{"NIC 0 has the secondary address 10.98.0.9", func(p *seedbed.Profile) { p.NICs[0].Secondary = []netip.Addr{addr} }},
		{"for 33 that are free: expected at most 32", func(p *seedbed.Profile) { p.NICs[0].SecondaryCount6 = 31 }},
		{`network "default", which has no IPv6 prefix`, func(p *seedbed.Profile) { p.NICs[1].SecondaryCount6 = 1 }},
		{`network "floor", whose addresses come from elsewhere`, func(p *seedbed.Profile) { p.NICs[0].Network = "floor" }},
		{`NIC 1 is in the direct network "floor", and has rates`, func(p *seedbed.Profile) { p.NICs[1].Network = "floor" }},
		{"bandwidth 1bit: expected", func(p *seedbed.Profile) { p.NICs[1].BandwidthOut = 1 }},
		{`security group "db" is named twice`, func(p *seedbed.Profile) { p.NICs[0].Groups = []string{"db", "db"} }},
		{`security group "none" does not exist`, func(p *seedbed.Profile) { p.NICs[1].Groups = []string{"none"} }},
	} {
		_, err := b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error {
			p.NICs = slices.Clone(p.NICs)
			tt.change(p)
			return nil
		})
		b.want(err, seedbed.ErrInvalid, `profile "web"`, tt.says)
	}
	b.equal(get(b.Profile(ctx, "web"))(b), made)

	// A group of the name of a network is not in use by a NIC in this network.
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "lab"}))(b)
	b.must(b.DeleteSecurityGroup(ctx, "lab"))

	now := get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.Network, p.NICs = "default", nil; return nil }))(b)
	b.equal(get(b.Profile(ctx, "web"))(b), now)
	b.equal(now.NICs, []seedbed.NICRequest(nil))
	b.must(b.DeleteNetwork(ctx, "lab"))
	b.must(b.DeleteSecurityGroup(ctx, "db"))
}

// Of a network's removal and a profile whose NIC is in it, one is refused.
func testProfileNICsRace(b *bench) {
	ctx := context.Background()
	b.world()
	for round := range 10 {
		name := nameN(round)
		b.network(name, "br"+name, fmt.Sprintf("10.98.%d.0/24", round))
		var removed, made error
		each(2, func(i int) {
			if i == 0 {
				removed = b.turn().DeleteNetwork(ctx, name)
				return
			}
			p := webProfile()
			p.Name, p.Network, p.NICs = name, "", []seedbed.NICRequest{{Network: "default"}, {Network: name}}
			_, made = b.turn().CreateProfile(ctx, p)
		})
		_, err := b.Network(ctx, name)
		if removed == nil {
			b.want(made, seedbed.ErrInvalid, name)
			b.want(err, seedbed.ErrNotFound)
		} else {
			b.want(removed, seedbed.ErrInUse)
			b.must(errors.Join(made, err))
		}
	}
}

func testUserData(b *bench) {
	ctx := context.Background()
	b.world()
	for n, data := range [][]byte{nil, {}, {0}, []byte("a\r\n\xff\x00")} {
		p := webProfile()
		p.Name, p.UserData = nameN(n), data
		get(b.CreateProfile(ctx, p))(b)
		kept := get(b.Profile(ctx, p.Name))(b).UserData
		a := createOf(p.Name)
		a.Instance.UserData = data
		get(b.Accept(ctx, a))(b)
		served := get(b.Instance(ctx, a.Instance.ID))(b).UserData
		for _, got := range [][]byte{kept, served} {
			if !bytes.Equal(got, data) || (got == nil) != (data == nil) {
				b.Errorf("user-data %#v came back as %#v", data, got)
			}
		}
	}
}

func testHooks(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateProfile(ctx, webProfile()))(b)
	h := seedbed.Hook{Name: "ci", Project: seedbed.DefaultProject, Keys: []seedbed.HookKey{{ID: "k1", Secret: bytes.Repeat([]byte{7, 0}, 12)}},
		Profiles: []string{"web"}, Actions: []string{"create", "remove"}, Tolerance: 5 * time.Minute}
	made := get(b.CreateHook(ctx, h))(b)
	b.equal(made, h, cmpopts.IgnoreFields(seedbed.Hook{}, "Created", "Changed", "Scheme"))
	b.equal(get(b.Hook(ctx, "ci"))(b), made)
	b.equal(get(b.Hooks(ctx))(b), []seedbed.Hook{made})
	_, err := b.CreateHook(ctx, h)
	b.want(err, seedbed.ErrExists, `hook "ci"`)
	b.want(b.DeleteProfile(ctx, "web"), seedbed.ErrInUse, `profile "web" is used by hook "ci"`)
	bad := h
	bad.Name, bad.Profiles = "other", []string{"web", "none"}
	_, err = b.CreateHook(ctx, bad)
	b.want(err, seedbed.ErrInvalid, `hook "other"`, `profile "none" does not exist`)
	bad.Keys = []seedbed.HookKey{{ID: "k1", Secret: []byte("short")}}
	_, err = b.CreateHook(ctx, bad)
	b.want(err, seedbed.ErrInvalid, "16 to 1024")
	b.must(b.DeleteHook(ctx, "ci"))
	b.want(b.DeleteHook(ctx, "ci"), seedbed.ErrNotFound, `hook "ci"`)
	_, err = b.Hook(ctx, "ci")
	b.want(err, seedbed.ErrNotFound)
	b.must(b.DeleteProfile(ctx, "web"))
}

func testSettings(b *bench) {
	ctx := context.Background()
	one := get(b.SettingOnce(ctx, "key", func() []byte { return []byte("one") }))(b)
	two := get(b.SettingOnce(ctx, "key", func() []byte { b.Error("asked for a fresh value"); return []byte("two") }))(b)
	b.equal(one, []byte("one"))
	b.equal(two, []byte("one"))
	_, err := b.SettingOnce(ctx, "", func() []byte { return []byte("x") })
	b.want(err, seedbed.ErrInvalid)
	_, err = b.SettingOnce(ctx, "empty", func() []byte { return nil })
	b.want(err, seedbed.ErrInvalid)
}

func testImages(b *bench) {
	ctx := context.Background()
	a := importOf("debian")
	get(b.Accept(ctx, a))(b)
	i := get(b.Image(ctx, "debian"))(b)
	b.equal(i, seedbed.Image{Name: "debian", Pool: "default", State: seedbed.ImageImporting, Source: "/img", Node: node,
		Published: &seedbed.Publication{Projects: []string{}}},
		cmpopts.IgnoreFields(seedbed.Image{}, "Created"))
	_, err := b.Accept(ctx, importOf("debian"))
	b.want(err, seedbed.ErrExists, `image "debian" is being imported by job `+a.Job.ID.Short())
	b.equal(holder(err), a.Job.ID)
	j := b.claim()
	b.equal(j.Spec, a.Job.Spec)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import"}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: 5, Format: "raw", SHA256: "ff"}}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "has made its image already")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	i.State, i.Size, i.Format, i.SHA256 = seedbed.ImageActive, 5, "raw", "ff"
	b.equal(get(b.Images(ctx))(b), []seedbed.Image{i})
	_, err = b.Accept(ctx, importOf("debian"))
	b.want(err, seedbed.ErrExists, `image "debian" exists already (imported by job `+a.Job.ID.Short())
	_, err = b.Image(ctx, "none")
	b.want(err, seedbed.ErrNotFound, `image "none"`)
}

// A failed import leaves no image, even if a profile refers to it. The name can be imported again.
func testDroppedImage(b *bench) {
	ctx := context.Background()
	b.network("default", "seedbed0", "10.99.0.0/24")
	get(b.Accept(ctx, importOf("debian")))(b)
	get(b.CreateProfile(ctx, webProfile()))(b)
	j := b.claim()
	b.must(b.Undo(ctx, j.Ref(), "no image"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	_, err := b.Image(ctx, "debian")
	b.want(err, seedbed.ErrNotFound)
	b.equal(get(b.Images(ctx))(b), []seedbed.Image{})
	p := webProfile()
	p.Name = "other"
	_, err = b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `image "debian" does not exist`)
	_, err = b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrInvalid, `image "debian" does not exist`)
	b.image("debian")
	b.equal(get(b.Image(ctx, "debian"))(b).State, seedbed.ImageActive)
	get(b.Accept(ctx, createOf("web1")))(b)
}
