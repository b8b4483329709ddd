package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/internal/feedtest"
)

var servedCases = map[string]func(*bench){
	"new fields are kept":     testNewFields,
	"documents by address":    testCompose,
	"vendor-data":             testVendorData,
	"change an instance":      testChangeInstance,
	"refresh":                 testRefresh,
	"password":                testPassword,
	"maintenance of a node":   testNodeMaintenance,
	"maintenance of a VM":     testInstanceMaintenance,
	"maintenance is bounded":  testBoundedMaintenance,
	"maintenance by cordon":   testCordonMaintenance,
	"change a network":        testChangeNetwork,
	"site":                    testSite,
	"change beside a publish": testChangeAndPublish,
}

var (
	options = seedbed.MetadataOptions{Endpoint: "enabled", Tokens: "required", HopLimit: 2, Tags: "disabled", InstanceID: "uuid",
		TargetState: "InService"}
	tagged = map[string]string{"role": "db", "ümlaut": "x y/z"}
)

func testNewFields(b *bench) {
	ctx := context.Background()
	b.world()
	p := webProfile()
	p.VendorData, p.VendorDataInUserData, p.Datasource, p.Metadata, p.Tags = []byte("#cloud-config\n\x00"),
		true, seedbed.DatasourceNoCloud, options, tagged
	made := get(b.CreateProfile(ctx, p))(b)
	p.Ready, p.Revision, p.Follow, p.Published = seedbed.ReadyMetadata, 1, seedbed.FollowPinned, &seedbed.Publication{Projects: []string{}}
	b.equal(made, p, cmpopts.IgnoreFields(seedbed.Profile{}, "ID", "Created", "Changed"))
	b.equal(get(b.Profile(ctx, "web"))(b), made)
	a := createOf("web1")
	a.Instance.VendorData, a.Instance.Datasource, a.Instance.Metadata, a.Instance.Tags = p.VendorData, p.Datasource, options, tagged
	a.Instance.Spot = &seedbed.Spot{Action: "stop", Time: day}
	get(b.Accept(ctx, a))(b)
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	b.equal([]any{i.VendorData, i.Datasource, i.Metadata, i.Tags, i.Spot, i.Password},
		[]any{p.VendorData, p.Datasource, options, tagged, a.Instance.Spot, ""})
}

// Compose sees the addresses. If it returns an error, nothing is left behind.
func testCompose(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	a.Compose = func(i seedbed.Instance) (seedbed.Documents, error) {
		return seedbed.Documents{UserData: []byte(i.NICs[0].Addr.String()), VendorData: []byte(i.NICs[0].MAC.String())}, nil
	}
	get(b.Accept(ctx, a))(b)
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	b.equal([]string{string(i.UserData), string(i.VendorData)}, []string{"10.99.0.2", a.Instance.NICs[0].MAC.String()})
	jobs := len(get(b.Jobs(ctx, 0))(b))
	for name, docs := range map[string]func(seedbed.Instance) (seedbed.Documents, error){
		"refused": func(seedbed.Instance) (seedbed.Documents, error) {
			return seedbed.Documents{}, seedbed.Errorf(seedbed.ErrInvalid, "no such param")
		},
		"too large": func(seedbed.Instance) (seedbed.Documents, error) {
			return seedbed.Documents{UserData: make([]byte, seedbed.MaxDocument+1)}, nil
		},
	} {
		a := createOf("web2")
		a.Compose = docs
		_, err := b.Accept(ctx, a)
		if !errors.Is(err, seedbed.ErrInvalid) {
			b.Errorf("%s: %v", name, err)
		}
	}
	b.equal(len(get(b.Jobs(ctx, 0))(b)), jobs)
	b.equal(len(get(b.Instances(ctx))(b)), 1)
}

func testVendorData(b *bench) {
	ctx := context.Background()
	b.world()
	gen := b.generation()
	j, i := b.running("web1")
	docs := seedbed.Documents{UserData: []byte("same"), VendorData: []byte("same")}
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), docs))(b)
	sum := sha256.Sum256([]byte("same"))
	blob := &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: 4}
	g := feedtest.Changes(b, get(b.FeedPage(ctx, node, 0, gen))(b))[0].Guest
	b.equal([]*seedbed.Blob{g.UserData, g.VendorData}, []*seedbed.Blob{blob, blob})
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{VendorData: []byte("same")}))(b)
	b.equal(get(b.Blob(ctx, blob.SHA256))(b), []byte("same"))
	g = feedtest.Changes(b, get(b.FeedPage(ctx, node, 1, gen))(b))[0].Guest
	b.equal([]*seedbed.Blob{g.UserData, g.VendorData}, []*seedbed.Blob{nil, blob})
	_, err := b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{VendorData: make([]byte, seedbed.MaxDocument+1)})
	b.want(err, seedbed.ErrInvalid, "vendor-data")
}

// render makes records like seedbedd does, as far as the store is concerned.
func render(i seedbed.Instance, old seedbed.Guest) seedbed.Guest {
	g := guestOf(i)
	g.Options, g.Tags, g.Spot, g.Password = i.Metadata, i.Tags, i.Spot, i.Password
	g.Signature = append([]byte("after "), old.Signature...)
	return g
}

func testChangeInstance(b *bench) {
	ctx := context.Background()
	b.world()
	gen := b.generation()
	j, i := b.running("web1")
	change := func(to *seedbed.Instance) error {
		to.Metadata, to.Tags, to.Spot = options, tagged, &seedbed.Spot{Rebalance: day}
		to.Expiry, to.Notes = &seedbed.Expiry{Time: day, Action: seedbed.ExpiryRemove}, "two\nlines"
		to.Name, to.UserData = "not this", []byte("nor this")
		return nil
	}
	// There is no record to render before the instance is served.
	changed := get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), change, render))(b)
	b.equal(changed.Revision, i.Revision+1)
	b.equal(len(feedtest.Changes(b, get(b.FeedPage(ctx, node, 0, gen))(b))), 0)
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.Metadata, now.Tags, now.Spot, now.Name, now.UserData, now.Revision},
		[]any{options, tagged, &seedbed.Spot{Rebalance: day}, "web1", i.UserData, i.Revision + 1})
	b.equal([]any{now.Expiry, now.Notes}, []any{&seedbed.Expiry{Time: day, Action: seedbed.ExpiryRemove}, "two\nlines"})
	b.equal(len(get(b.Expired(ctx, day.Add(-time.Second)))(b)), 0)
	b.equal(get(b.Expired(ctx, day))(b)[0].Name, "web1")
	never := func(i *seedbed.Instance) error { i.Expiry, i.Notes = nil, ""; return nil }
	get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), never, render))(b)
	b.equal(len(get(b.Expired(ctx, day))(b)), 0)
	i.Revision++
	_, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { i.Notes = "\x1b[2J"; return nil }, render)
	b.want(err, seedbed.ErrInvalid, "notes are not usable")

	g := guestOf(i)
	g.Signature = []byte("this")
	get(b.Publish(ctx, j.Ref(), node, g, seedbed.Documents{UserData: []byte("data")}))(b)
	get(b.Publish(ctx, j.Ref(), "node2", g, seedbed.Documents{}))(b)
	retag := func(i *seedbed.Instance) error { i.Tags = map[string]string{"a": "b"}; return nil }
	get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), retag, render))(b)
	page := get(b.FeedPage(ctx, node, 1, gen))(b)
	b.equal(page.Revision, int64(2))
	served := feedtest.Changes(b, page)[0].Guest
	b.equal([]any{served.Tags, served.Options, string(served.Signature)}, []any{map[string]string{"a": "b"}, options, "after this"})
	if served.UserData == nil || served.UserData.Size != 4 {
		b.Errorf("user-data %+v", served.UserData)
	}
	b.equal(len(feedtest.Changes(b, get(b.FeedPage(ctx, "node2", 1, gen))(b))), 1)

	refusal := seedbed.Errorf(seedbed.ErrConflict, "not now")
	before := get(b.Instance(ctx, i.ID))(b)
	for name, change := range map[string]func(*seedbed.Instance) error{
		"refused": func(*seedbed.Instance) error { return refusal },
		"option":  func(i *seedbed.Instance) error { i.Metadata.Tokens = "never"; return nil },
		"tag":     func(i *seedbed.Instance) error { i.Tags["a/b"] = "c"; return nil },
		"spot":    func(i *seedbed.Instance) error { i.Spot = &seedbed.Spot{Action: "stop"}; return nil },
	} {
		if _, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"), change, render); err == nil {
			b.Errorf("%s: accepted", name)
		}
	}
	b.equal(get(b.Instance(ctx, i.ID))(b), before)
	b.equal(get(b.FeedPage(ctx, node, 2, gen))(b).Revision, int64(2))
	_, err = b.ChangeInstance(ctx, seedbed.InDefault("web2"), change, render)
	b.want(err, seedbed.ErrNotFound, `instance "web2"`)
}

func testRefresh(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	keep := func(i seedbed.Instance, old seedbed.Guest) seedbed.Guest { return old }
	b.equal(get(b.Refresh(ctx, node, i.ID, keep))(b), int64(0))
	b.equal(get(b.Refresh(ctx, node, seedbed.NewInstanceID(), keep))(b), int64(0))
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	b.equal(get(b.Refresh(ctx, node, i.ID, keep))(b), int64(1))
	b.equal(get(b.Refresh(ctx, node, i.ID, render))(b), int64(2))
	b.equal(get(b.Served(ctx))(b), map[string][]seedbed.InstanceID{node: {i.ID}})
	get(b.Retract(ctx, j.Ref(), node, i.ID))(b)
	b.equal(get(b.Refresh(ctx, node, i.ID, render))(b), int64(0))
	b.equal(get(b.Served(ctx))(b), map[string][]seedbed.InstanceID{})
	b.equal(get(b.FeedPage(ctx, node, 2, b.generation()))(b).Revision, int64(3))
}

// A change between a publisher's read of the instance and its record is in the record after the
// publisher's Refresh.
func testChangeAndPublish(b *bench) {
	ctx := context.Background()
	b.world()
	j, seen := b.running("web1")
	for n := range 10 {
		done := make(chan error, 1)
		go func() {
			_, err := b.ChangeInstance(ctx, seedbed.InDefault("web1"),
				func(i *seedbed.Instance) error { i.Tags = map[string]string{"n": nameN(n)}; return nil }, render)
			done <- err
		}()
		get(b.Publish(ctx, j.Ref(), node, render(seen, seedbed.Guest{}), seedbed.Documents{}))(b)
		get(b.Refresh(ctx, node, seen.ID, render))(b)
		b.must(<-done)
		page := get(b.FeedPage(ctx, node, 0, ""))(b)
		b.equal(feedtest.Changes(b, page)[0].Guest.Tags, map[string]string{"n": nameN(n)})
	}
}

func testPassword(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{UserData: []byte("x")}))(b)
	post := func(seq int64, fields map[string]string) {
		b.must(b.AddGuestEvents(ctx, node, "s",
			[]seedbed.GuestEvent{{Seq: seq, Instance: i.ID, Kind: seedbed.GuestPassword, At: day, Fields: fields}}))
	}
	post(1, nil)
	post(2, map[string]string{"password": ""})
	b.equal(get(b.FeedPage(ctx, node, 0, ""))(b).Revision, int64(1))
	post(3, map[string]string{"password": "Zmlyc3Q="})
	post(4, map[string]string{"password": "c2Vjb25k"})
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.Password, now.Revision}, []any{"Zmlyc3Q=", i.Revision + 1})
	page := get(b.FeedPage(ctx, node, 1, b.generation()))(b)
	b.equal(page.Revision, int64(2))
	b.equal(feedtest.Changes(b, page)[0].Guest.Password, "Zmlyc3Q=")
	b.equal(feedtest.Changes(b, page)[0].Guest.UserData.Size, int64(1))
}

func reboot(at time.Time) seedbed.Maintenance {
	return seedbed.Maintenance{Code: "system-reboot", Description: "new kernel", NotBefore: at, NotAfter: at.Add(time.Hour)}
}

func testNodeMaintenance(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.AddMaintenance(ctx, node, "", reboot(day))
	b.want(err, seedbed.ErrNotFound, node)
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	later := get(b.AddMaintenance(ctx, node, "", reboot(day.Add(time.Hour))))(b)
	first := get(b.AddMaintenance(ctx, node, "", reboot(day)))(b)
	if len(first.ID) != len("instance-event-")+17 || !strings.HasPrefix(first.ID, "instance-event-") ||
		first.ID == later.ID || first.State != seedbed.MaintenanceActive {
		b.Errorf("event %+v", first)
	}
	page := get(b.FeedPage(ctx, node, 1, b.generation()))(b)
	b.equal([]any{page.Revision, len(page.Changes), page.Maintenance}, []any{int64(3), 0, []seedbed.Maintenance{first, later}})
	b.equal(len(get(b.FeedPage(ctx, "node2", 0, ""))(b).Maintenance), 0)

	done := get(b.EndMaintenance(ctx, first.ID, seedbed.MaintenanceCompleted))(b)
	b.equal(done.State, seedbed.MaintenanceCompleted)
	get(b.EndMaintenance(ctx, later.ID, seedbed.MaintenanceCanceled))(b)
	later.State = seedbed.MaintenanceCanceled
	b.equal(get(b.Maintenance(ctx, node, ""))(b), []seedbed.Maintenance{later, done})
	b.equal(get(b.FeedPage(ctx, node, 0, ""))(b).Revision, int64(5))
	_, err = b.EndMaintenance(ctx, first.ID, seedbed.MaintenanceCanceled)
	b.want(err, seedbed.ErrConflict, "completed already")
	_, err = b.EndMaintenance(ctx, "instance-event-0", seedbed.MaintenanceCanceled)
	b.want(err, seedbed.ErrNotFound)
	_, err = b.EndMaintenance(ctx, first.ID, seedbed.MaintenanceActive)
	b.want(err, seedbed.ErrInvalid)
	for name, change := range map[string]func(*seedbed.Maintenance){
		"code":        func(m *seedbed.Maintenance) { m.Code = "reboot" },
		"no time":     func(m *seedbed.Maintenance) { m.NotBefore = time.Time{} },
		"ends before": func(m *seedbed.Maintenance) { m.NotAfter = day.Add(-time.Second) },
		"two lines":   func(m *seedbed.Maintenance) { m.Description = "a\nb" },
		"long":        func(m *seedbed.Maintenance) { m.Description = strings.Repeat("x", 1000) },
	} {
		m := reboot(day)
		change(&m)
		if _, err := b.AddMaintenance(ctx, node, "", m); !errors.Is(err, seedbed.ErrInvalid) {
			b.Errorf("%s: %v", name, err)
		}
	}
}

func testInstanceMaintenance(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	early := get(b.AddMaintenance(ctx, "", i.ID, reboot(day)))(b)
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	late := get(b.AddMaintenance(ctx, "", i.ID, seedbed.Maintenance{Code: "instance-stop", NotBefore: day.Add(time.Hour)}))(b)
	page := get(b.FeedPage(ctx, node, 1, b.generation()))(b)
	b.equal(page.Revision, int64(2))
	b.equal(feedtest.Changes(b, page)[0].Guest.Maintenance, []seedbed.Maintenance{early, late})
	b.equal(get(b.Maintenance(ctx, "", i.ID))(b), []seedbed.Maintenance{early, late})
	early = get(b.EndMaintenance(ctx, early.ID, seedbed.MaintenanceCompleted))(b)
	b.equal(feedtest.Changes(b, get(b.FeedPage(ctx, node, 2, b.generation()))(b))[0].Guest.Maintenance, []seedbed.Maintenance{late, early})
	_, err := b.AddMaintenance(ctx, "", seedbed.NewInstanceID(), reboot(day))
	b.want(err, seedbed.ErrNotFound)
	b.must(b.Undo(ctx, j.Ref(), "no room"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	b.equal(get(b.Maintenance(ctx, "", i.ID))(b), []seedbed.Maintenance{})
}

func testBoundedMaintenance(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	var err error
	for n := 0; err == nil && n < 100; n++ {
		_, err = b.AddMaintenance(ctx, "", i.ID, reboot(day))
	}
	b.want(err, seedbed.ErrFull)
	for n := range 30 {
		for _, m := range get(b.Maintenance(ctx, "", i.ID))(b) {
			if m.State == seedbed.MaintenanceActive {
				get(b.EndMaintenance(ctx, m.ID, seedbed.MaintenanceCompleted))(b)
			}
		}
		get(b.AddMaintenance(ctx, "", i.ID, seedbed.Maintenance{Code: "instance-reboot", Description: fmt.Sprint(n), NotBefore: day}))(b)
	}
	all := get(b.Maintenance(ctx, "", i.ID))(b)
	if len(all) != 21 || all[0].Description != "29" || all[1].Description != "28" {
		b.Errorf("%d events are kept: %+v", len(all), all)
	}
}

func testChangeNetwork(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	was := get(b.Network(ctx, "default"))(b)
	b.equal(was.Identity, seedbed.IdentityTap)
	set := func(n *seedbed.Network) error {
		n.Identity, n.Allow.DHCPServer, n.Allow.MetadataAddresses = seedbed.IdentityMAC, true, true
		return nil
	}
	now := get(b.ChangeNetwork(ctx, "default", set))(b)
	set(&was)
	b.equal(now, was)
	b.equal(get(b.Network(ctx, "default"))(b), was)
	page := get(b.FeedPage(ctx, node, 1, b.generation()))(b)
	b.equal([]any{page.Revision, page.Networks}, []any{int64(2), untold([]seedbed.Network{was})})
	get(b.ChangeNetwork(ctx, "default", set))(b)
	b.equal(get(b.FeedPage(ctx, node, 0, ""))(b).Revision, int64(2))
	_, err := b.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { n.Identity = "ip"; return nil })
	b.want(err, seedbed.ErrInvalid, `identity is "ip"`)
	_, err = b.ChangeNetwork(ctx, "none", set)
	b.want(err, seedbed.ErrNotFound, `network "none"`)
}

func testSite(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	b.equal(get(b.Site(ctx))(b), seedbed.Site{})
	site := seedbed.Site{Domain: "example.org", Partition: "here", Certificate: []byte{0, 255}}
	b.must(b.SetSite(ctx, site))
	b.equal(get(b.Site(ctx))(b), site)
	b.must(b.SetSite(ctx, site))
	page := get(b.FeedPage(ctx, node, 1, b.generation()))(b)
	b.equal([]any{page.Revision, page.Site}, []any{int64(2), site})
}
