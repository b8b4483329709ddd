package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"seedbed"
	"seedbed/internal/feedtest"
)

var nativeCases = map[string]func(*bench){
	"one space of names":     testOneSpace,
	"names raced for":        testNameRace,
	"change":                 testChangeProfile,
	"templates":              testNativeTemplates,
	"parts":                  testParts,
	"live user-data":         testLive,
	"live user-data of PVC":  testLiveComposed,
	"protected":              testProtected,
	"token quota":            testTokenQuota,
	"token quota raced for":  testTokenQuotaRace,
	"what an instance keeps": testKept,
	"condition of a job":     testMatch,
}

func testOneSpace(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("web")))(b)
	plain := webProfile()
	_, err := b.CreateProfile(ctx, plain)
	b.want(err, seedbed.ErrExists, `the profile "web" already exists`)
	plain.Name = "plain"
	get(b.CreateProfile(ctx, plain))(b)
	scripted := get(b.ScriptedProfiles(ctx, seedbed.ExactName("web")))(b)[0]
	scripted.Name = "plain"
	_, err = b.CreateProfile(ctx, scripted)
	b.want(err, seedbed.ErrExists, `the profile "plain" already exists`)
	all := get(b.ListProfiles(ctx, seedbed.ProfileQuery{Scope: seedbed.AllProjects()}))(b)
	if len(all) != 2 || all[0].Name != "plain" || all[0].Script != "" || all[0].Image != "debian" || all[0].Follow != seedbed.FollowPinned ||
		all[1].Name != "web" || all[1].Script != scripted.Script || all[1].System != scripted.System || all[1].Follow != seedbed.FollowLive {
		b.Fatalf("%+v", all)
	}
	b.equal(get(b.ScriptedProfiles(ctx, seedbed.NameMatch{}))(b), all[1:])
	b.equal(get(b.ProfilesWith(ctx, "cloud"))(b), all[1:])
	b.equal(get(b.ProfileNames(ctx, seedbed.DefaultProject, 5))(b), []string{"plain", "web"})
	b.equal(get(b.ProfileNames(ctx, seedbed.DefaultProject, 1))(b), []string{"plain"})
	// A name that is free again is free with and without a script.
	b.must(b.DeleteProfile(ctx, "plain"))
	get(b.CreateProfile(ctx, scripted))(b)
	b.must(b.DeleteProfile(ctx, "plain"))
	get(b.CreateProfile(ctx, plain))(b)
}

// Many requests create profiles of one name, with and without a script. One of them gets it.
func testNameRace(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("web")))(b)
	composed := get(b.ScriptedProfiles(ctx, seedbed.ExactName("web")))(b)[0]
	var mu sync.Mutex
	made := 0
	each(20, func(n int) {
		var err error
		if n%2 == 0 {
			p := webProfile()
			p.Name = "both"
			_, err = b.CreateProfile(ctx, p)
		} else {
			p := composed
			p.Name = "both"
			_, err = b.CreateProfile(ctx, p)
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			made++
		} else if !errors.Is(err, seedbed.ErrExists) {
			b.Error(err)
		}
	})
	count := 0
	for _, e := range get(b.ListProfiles(ctx, seedbed.ProfileQuery{Scope: seedbed.AllProjects()}))(b) {
		if e.Name == "both" {
			count++
		}
	}
	if made != 1 || count != 1 {
		b.Fatalf("%d were made, and %d are there", made, count)
	}
}

func testChangeProfile(b *bench) {
	ctx := context.Background()
	b.world()
	made := get(b.CreateProfile(ctx, webProfile()))(b)
	text := seedbed.ParamText("1")
	changed := get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error {
		p.Name, p.VCPUs, p.Expressions, p.Follow, p.Protected, p.Hold = "other", 0,
			map[string]string{"vcpus": "${param.n}"}, seedbed.FollowLive, true, true
		p.Params = []seedbed.Param{{Name: "n", Type: seedbed.ParamInt, Default: &text}}
		return nil
	}))(b)
	if changed.Name != "web" || changed.Revision != 2 || !changed.Created.Equal(made.Created) || changed.Changed.Before(made.Changed) {
		b.Fatalf("%+v", changed)
	}
	b.equal(get(b.Profile(ctx, "web"))(b), changed)
	_, err := b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.Image = "none"; return nil })
	b.want(err, seedbed.ErrInvalid, `image "none"`)
	_, err = b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.Params[0].Type = "float"; return nil })
	b.want(err, seedbed.ErrInvalid, `"float"`)
	refused := errors.New("refused")
	if _, err = b.ChangeProfile(ctx, "web", func(*seedbed.Profile) error { return refused }); !errors.Is(err, refused) {
		b.Fatal(err)
	}
	b.equal(get(b.Profile(ctx, "web"))(b).Revision, int64(2))
	for _, name := range []string{"none", "", "a\x00b", "\xff"} {
		_, err = b.ChangeProfile(ctx, name, func(*seedbed.Profile) error { return nil })
		b.want(err, seedbed.ErrNotFound)
	}
}

func testNativeTemplates(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("web")))(b)
	composed := get(b.ScriptedProfiles(ctx, seedbed.ExactName("web")))(b)[0]
	get(b.CreateUserData(ctx, "doc", "x"))(b)
	p := seedbed.Profile{Name: "multi", System: composed.System, NetworkTemplate: composed.NetworkTemplate,
		Storage: composed.Storage, Document: "doc", Follow: seedbed.FollowLive}
	made := get(b.CreateProfile(ctx, p))(b)
	b.equal(get(b.Profile(ctx, "multi"))(b), made)
	b.must(b.DeleteProfile(ctx, "web"))
	b.want(b.DeleteSystemTemplate(ctx, composed.System), seedbed.ErrInUse, `used by profile "multi"`)
	b.want(b.DeleteNetworkTemplate(ctx, composed.NetworkTemplate), seedbed.ErrInUse, `used by profile "multi"`)
	b.want(b.DeleteStorageTemplate(ctx, composed.Storage), seedbed.ErrInUse, `used by profile "multi"`)
	b.want(b.DeleteUserData(ctx, "doc"), seedbed.ErrInUse, `used by profile "multi"`)
	for _, change := range []func(*seedbed.Profile){
		func(p *seedbed.Profile) { p.System = "none" },
		func(p *seedbed.Profile) { p.NetworkTemplate = "none" },
		func(p *seedbed.Profile) { p.Storage = "a\x00" },
		func(p *seedbed.Profile) { p.Document = "none" },
		func(p *seedbed.Profile) { p.Storage = "" },         // no disk
		func(p *seedbed.Profile) { p.NetworkTemplate = "" }, // no NIC
		func(p *seedbed.Profile) { p.System = "" },          // no size
		func(p *seedbed.Profile) { p.UserData = []byte("beside the document") },
	} {
		q := p
		q.Name = "wrong"
		change(&q)
		_, err := b.CreateProfile(ctx, q)
		b.want(err, seedbed.ErrInvalid, `profile "wrong"`)
	}
	b.must(b.DeleteProfile(ctx, "multi"))
	b.must(b.DeleteUserData(ctx, "doc"))
	b.must(b.DeleteSystemTemplate(ctx, composed.System))
}

func testParts(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("web")))(b)
	composed := get(b.ScriptedProfiles(ctx, seedbed.ExactName("web")))(b)[0]
	b.equal(get(b.Parts(ctx, "web", seedbed.PartNames{}))(b), seedbed.Parts{})
	parts := get(b.Parts(ctx, "web",
		seedbed.PartNames{System: composed.System, Network: composed.NetworkTemplate, Storage: composed.Storage, UserData: seedbed.Empty}))(b)
	if parts.System.Name != composed.System || parts.Network.Name != composed.NetworkTemplate ||
		parts.Storage.Name != composed.Storage || parts.UserData.Name != seedbed.Empty {
		b.Fatalf("%+v", parts)
	}
	for _, n := range []seedbed.PartNames{
		{System: "none"}, {Network: "none"}, {Storage: "%"}, {UserData: "a\x00b"}, {System: "\xff"}, {Script: "none"}, {OVA: "none"},
	} {
		_, err := b.Parts(ctx, "web", n)
		b.want(err, seedbed.ErrInvalid, `for profile "web" does not exist`)
	}
}

// follower creates an instance of the profile web whose user-data follows the profile.
func (b *bench) follower(name, source string) seedbed.Instance {
	b.Helper()
	ctx := context.Background()
	a := createOf(name)
	a.Instance.Follow, a.Instance.Source = seedbed.FollowLive, source
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{UserData: i.UserData}))(b)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	return get(b.Instance(ctx, i.ID))(b)
}

func testLive(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateUserData(ctx, "doc", "one"))(b)
	p := webProfile()
	p.UserData, p.Document, p.Follow = nil, "doc", seedbed.FollowLive
	get(b.CreateProfile(ctx, p))(b)
	i := b.follower("web1", seedbed.Source(1, 1))
	pinned := createOf("web2")
	get(b.Accept(ctx, pinned))(b)
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})

	rung := b.Revised()
	b.must(b.setUserData("doc", "two"))
	select {
	case <-rung:
	default:
		b.Error("nobody was told of the change")
	}
	want := seedbed.LiveDocument{Instance: i.ID, Source: "1.1", Want: "1.2"}
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{want})
	before := get(b.FeedPage(ctx, node, 0, ""))(b)
	b.must(b.SetDocuments(ctx, i.ID, "1.1", "1.2", seedbed.Documents{UserData: []byte("two"), VendorData: []byte("v")}))
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
	now := get(b.Instance(ctx, i.ID))(b)
	if string(now.UserData) != "two" || string(now.VendorData) != "v" || now.Source != "1.2" || now.Revision != i.Revision+1 {
		b.Fatalf("%+v", now)
	}
	after := get(b.FeedPage(ctx, node, before.Revision, before.Generation))(b)
	if after.Revision != before.Revision+1 || len(after.Changes) != 1 || feedtest.Changes(b, after)[0].Guest == nil {
		b.Fatalf("%+v", after)
	}
	g := *feedtest.Changes(b, after)[0].Guest
	if got := get(b.Blob(ctx, g.UserData.SHA256))(b); string(got) != "two" || g.VendorData == nil {
		b.Fatalf("served %q, %+v", got, g)
	}
	was := guestOf(i)
	was.UserData, was.VendorData = g.UserData, g.VendorData
	b.equal(g, was)

	// A late writer changes nothing, and equal documents are not published again.
	b.must(b.SetDocuments(ctx, i.ID, "1.1", "1.2", seedbed.Documents{UserData: []byte("late")}))
	get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.VCPUs++; return nil }))(b)
	b.equal(len(get(b.LiveDocuments(ctx, 10))(b)), 1)
	b.must(b.SetDocuments(ctx, i.ID, "1.2", "2.2", seedbed.Documents{UserData: []byte("two"), VendorData: []byte("v")}))
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
	b.equal(get(b.FeedPage(ctx, node, after.Revision, after.Generation))(b).Revision, after.Revision)
	b.equal(get(b.Instance(ctx, i.ID))(b).Revision, now.Revision)

	// An instance whose documents cannot be made keeps the old ones, and is due again only after
	// the next change.
	get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.VCPUs++; return nil }))(b)
	b.must(b.PinDocuments(ctx, i.ID, "2.2", "3.2"))
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
	b.equal(string(get(b.Instance(ctx, i.ID))(b).UserData), "two")
	b.want(b.SetDocuments(ctx, i.ID, "3.2", "4.2", seedbed.Documents{UserData: make([]byte, seedbed.MaxDocument+1)}), seedbed.ErrInvalid)

	// Without its profile the instance keeps its documents.
	b.must(b.DeleteProfile(ctx, "web"))
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
}

func testLiveComposed(b *bench) {
	ctx := context.Background()
	b.composed()
	get(b.CreateProfile(ctx, profileOf("web")))(b)
	get(b.CreateUserData(ctx, "doc", "one"))(b)
	p := get(b.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error { p.Document = "doc"; return nil }))(b)
	source := seedbed.Source(p.Revision, 1)
	i := b.follower("web1", source)
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
	b.must(b.setUserData("doc", "two"))
	want := seedbed.LiveDocument{Instance: i.ID, Source: source, Want: seedbed.Source(p.Revision, 2)}
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{want})
	pin := func(i *seedbed.Instance) error { i.Follow = seedbed.FollowPinned; return nil }
	get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), pin, func(i seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }))(b)
	b.equal(get(b.LiveDocuments(ctx, 10))(b), []seedbed.LiveDocument{})
}

func testProtected(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	protect := func(on bool) {
		b.Helper()
		keep := func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }
		got := get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { i.Protected = on; return nil }, keep))(b)
		if got.Protected != on || get(b.Instance(ctx, i.ID))(b).Protected != on {
			b.Fatalf("%+v", got)
		}
	}
	protect(true)
	_, err := b.Accept(ctx, removeOf(i.ID))
	b.want(err, seedbed.ErrConflict, `"web1" is protected`, "confirm=web1", "seedbed vm unprotect web1")
	_, err = b.Accept(ctx, volumeJob(seedbed.JobSnapshotRestore, i.ID, "s"))
	b.want(err, seedbed.ErrConflict, `"web1" is protected: to restore it, confirm`)
	wrong := removeOf(i.ID)
	wrong.Confirm = "web2"
	_, err = b.Accept(ctx, wrong)
	b.want(err, seedbed.ErrConflict, `"web2" is not its name`)
	get(b.CreateHook(ctx, seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "a", Secret: make([]byte, 32)}}}))(b)
	hooked := removeOf(i.ID)
	hooked.Confirm, hooked.Delivery = "web1", &seedbed.Delivery{Hook: "ci", ID: "m1"}
	_, err = b.Accept(ctx, hooked)
	b.want(err, seedbed.ErrForbidden, "no webhook may remove it")
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRunning)
	right := removeOf(i.ID)
	right.Confirm = "web1"
	get(b.Accept(ctx, right))(b)
}

// byToken returns the context of a request with that token.
func byToken(t seedbed.Token) context.Context {
	return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: "token " + t.Name, Role: t.Role, Token: t.Name, Quota: t.Quota})
}

func (b *bench) token(name string, q seedbed.TokenQuota) seedbed.Token {
	b.Helper()
	return get(b.CreateToken(context.Background(), seedbed.Token{Name: name, Role: seedbed.RoleOperator, Quota: q},
		sha256.Sum256([]byte(name))))(b)
}

func testTokenQuota(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.CreateToken(ctx, seedbed.Token{Name: "bad", Role: seedbed.RoleViewer, Quota: seedbed.TokenQuota{VCPUs: -1}},
		sha256.Sum256([]byte("bad")))
	b.want(err, seedbed.ErrInvalid, "is negative")
	ci := b.token("ci", seedbed.TokenQuota{Instances: 3, VCPUs: 5, Memory: 3 * seedbed.GiB, Disk: 25 * seedbed.GiB})
	first := createOf("web1") // 2 vcpus, 1GiB, 10GiB
	get(b.Accept(byToken(ci), first))(b)
	b.equal(get(b.Instance(ctx, first.Instance.ID))(b).Token, "ci")
	get(b.Accept(byToken(ci), createOf("web2")))(b)
	_, err = b.Accept(byToken(ci), createOf("web3"))
	b.want(err, seedbed.ErrForbidden, `token "ci" is over its quota`, "vcpus: it has 4, this wants 2 more, and 5 is the most",
		"disk: it has 20GiB, this wants 10GiB more, and 25GiB is the most")
	if strings.Contains(err.Error(), "memory") || strings.Contains(err.Error(), "instances:") {
		b.Fatal(err)
	}
	_, err = b.InstanceByName(ctx, seedbed.InDefault("web3"))
	b.want(err, seedbed.ErrNotFound)
	get(b.Accept(byToken(b.token("free", seedbed.TokenQuota{})), createOf("web3")))(b) // other tokens have their own quotas
	get(b.Accept(ctx, createOf("web4")))(b)

	// The quota at the time of the write applies.
	changed := get(b.SetTokenQuota(ctx, "ci", seedbed.TokenQuota{Instances: 2}))(b)
	b.equal(get(b.Token(ctx, "ci"))(b), changed)
	_, err = b.Token(ctx, "none")
	b.want(err, seedbed.ErrNotFound, `token "none"`)
	b.equal(changed.Quota, seedbed.TokenQuota{Instances: 2})
	_, err = b.Accept(byToken(ci), createOf("web5"))
	b.want(err, seedbed.ErrForbidden, "instances: it has 2, this wants 1 more, and 2 is the most")
	get(b.SetTokenQuota(ctx, "ci", seedbed.TokenQuota{}))(b)
	get(b.Accept(byToken(ci), createOf("web5")))(b)
	_, err = b.SetTokenQuota(ctx, "none", seedbed.TokenQuota{})
	b.want(err, seedbed.ErrNotFound, `token "none"`)
	_, err = b.SetTokenQuota(ctx, "ci", seedbed.TokenQuota{Disk: -1})
	b.want(err, seedbed.ErrInvalid)
}

// Many requests create instances with one token at the same time. They never exceed its quota.
func testTokenQuotaRace(b *bench) {
	b.world()
	ci := b.token("ci", seedbed.TokenQuota{VCPUs: 9})
	var mu sync.Mutex
	made := 0
	each(40, func(n int) {
		_, err := b.Accept(byToken(ci), createOf(fmt.Sprintf("web%d", n)))
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			made++
		} else if !errors.Is(err, seedbed.ErrForbidden) {
			b.Error(err)
		}
	})
	if all := get(b.Instances(context.Background()))(b); made != 4 || len(all) != 4 {
		b.Fatalf("%d were accepted, and %d are there: 4 have 8 of 9 vcpus", made, len(all))
	}
}

func testKept(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	i := a.Instance
	i.Follow, i.Source, i.Protected = seedbed.FollowLive, "7.3", true
	i.Params = map[string]any{"n": int64(1<<62 + 1), "on": true, "text": "a\"\x00\n", "big": int64(-1)}
	i.System = seedbed.System{
		VNC: true, VNCBind: "0.0.0.0", NodeLimit: []string{"a", "b"}, NodeSelector: "mem",
		Autostart: true, MigrationMethod: "live", MigrationMaxDowntime: 300, Restart: "always", Priority: -7,
	}
	get(b.Accept(ctx, a))(b)
	got := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{got.Follow, got.Source, got.Protected, got.Params, got.System}, []any{i.Follow, i.Source, i.Protected, i.Params, i.System})
}
