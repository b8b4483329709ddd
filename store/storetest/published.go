package storetest

import (
	"context"
	"fmt"
	"strings"

	"seedbed"
)

var publishedCases = map[string]func(*bench){
	"names of requests":  testResolve,
	"publish":            testPublishImage,
	"publish a network":  testPublishNetwork,
	"removed image":      testUnpublishedWithImage,
	"parts":              testPartsOfProjects,
	"catalogue":          testCatalogueOfProjects,
	"used by others":     testPartUsedByOthers,
	"in use":             testImageUsedByOthers,
	"job of its project": testImageJobs,
}

// draft is the publication of an object that is not published.
func draft() *seedbed.Publication { return &seedbed.Publication{Projects: []string{}} }

// untold returns networks as nodes are told of them.
func untold(all []seedbed.Network) []seedbed.Network {
	for i := range all {
		all[i].Published = nil
	}
	return all
}

// owners makes the projects acme and shop.
func (b *bench) owners() {
	b.Helper()
	b.project("acme")
	b.project("shop")
}

// resolves expects what a name stands for in a request of a project; "" that it does not exist.
func (b *bench) resolves(kind seedbed.PublishedKind, project, name, want string) {
	b.Helper()
	got, err := b.Resolve(context.Background(), kind, project, name)
	if want != "" {
		b.must(err)
		b.equal(got, want)
		return
	}
	b.want(err, seedbed.ErrNotFound, fmt.Sprintf("%s %q does not exist", kind, name))
	b.equal(err.Error(), fmt.Sprintf("%s %q does not exist", kind, name))
}

func testResolve(b *bench) {
	ctx, image := context.Background(), seedbed.PublishedImage
	b.owners()
	b.image("debian")
	b.image("acme/debian")
	b.image("acme/own")
	for _, project := range []string{"acme", "shop", "default"} {
		b.resolves(image, project, "default/none", "")
		b.resolves(image, project, "none", "")
		b.resolves(image, project, "acme/none", "")
	}
	b.resolves(image, "acme", "debian", "acme/debian")
	b.resolves(image, "acme", "acme/debian", "acme/debian")
	b.resolves(image, "acme", "default/debian", "")
	b.resolves(image, "shop", "debian", "")
	b.resolves(image, "shop", "acme/debian", "")
	b.resolves(image, "default", "debian", "debian")
	b.resolves(image, "default", "default/debian", "debian")
	b.resolves(image, "default", "acme/debian", "")
	b.resolves(image, "default", "own", "")

	get(b.PublishImage(ctx, "debian", seedbed.Publication{All: true}))(b)
	get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{Projects: []string{"shop"}}))(b)
	b.resolves(image, "acme", "debian", "acme/debian")
	b.resolves(image, "acme", "default/debian", "debian")
	b.resolves(image, "shop", "debian", "debian")
	b.resolves(image, "shop", "acme/debian", "acme/debian")
	b.resolves(image, "shop", "acme/own", "")
	b.resolves(image, "default", "acme/debian", "")
	_, err := b.Resolve(ctx, image, "acme", "a/b/c")
	b.want(err, seedbed.ErrInvalid)
}

func testPublishImage(b *bench) {
	ctx := context.Background()
	b.owners()
	b.image("acme/debian")
	b.equal(get(b.Image(ctx, "acme/debian"))(b).Published, draft())
	made := get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{Projects: []string{"shop", "acme", "none", "shop"}}))(b)
	b.equal(made.Published, &seedbed.Publication{Projects: []string{"none", "shop"}})
	b.equal(get(b.Image(ctx, "acme/debian"))(b), made)
	b.equal(get(b.Images(ctx))(b), []seedbed.Image{made})
	refused := seedbed.Errorf(seedbed.ErrConflict, "no")
	_, err := b.PublishImage(ctx, "acme/debian", seedbed.Publication{}, func(was seedbed.Image) error {
		b.equal(was, made)
		return refused
	})
	b.want(err, seedbed.ErrConflict)
	_, err = b.PublishImage(ctx, "acme/debian", seedbed.Publication{All: true, Projects: []string{"shop"}})
	b.want(err, seedbed.ErrInvalid)
	_, err = b.PublishImage(ctx, "debian", seedbed.Publication{All: true})
	b.want(err, seedbed.ErrNotFound, `image "debian" does not exist`)
	b.equal(get(b.Image(ctx, "acme/debian"))(b), made)
	made.Published = &seedbed.Publication{All: true, Projects: []string{}}
	b.equal(get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{All: true}))(b), made)
	made.Published = draft()
	b.equal(get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{}))(b), made)
}

func testPublishNetwork(b *bench) {
	ctx := context.Background()
	b.owners()
	b.network("lan", "seedbed0", "10.99.0.0/24")
	network := seedbed.PublishedNetwork
	b.resolves(network, "default", "lan", "lan")
	b.resolves(network, "acme", "lan", "")
	made := get(b.PublishNetwork(ctx, "lan", seedbed.Publication{Projects: []string{"acme"}}))(b)
	b.equal(made.Published, &seedbed.Publication{Projects: []string{"acme"}})
	b.equal(get(b.Network(ctx, "lan"))(b), made)
	b.equal(get(b.Networks(ctx))(b), []seedbed.Network{made})
	b.resolves(network, "acme", "lan", "lan")
	b.resolves(network, "shop", "lan", "")
	_, err := b.PublishNetwork(ctx, "none", seedbed.Publication{All: true})
	b.want(err, seedbed.ErrNotFound, `network "none" does not exist`)
}

// An image that is removed takes its publication with it: a later one of the name is a draft.
func testUnpublishedWithImage(b *bench) {
	ctx := context.Background()
	b.owners()
	b.image("acme/debian")
	get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{All: true}))(b)
	get(b.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: "acme/debian"}}))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.resolves(seedbed.PublishedImage, "shop", "acme/debian", "")
	b.image("acme/debian")
	b.equal(get(b.Image(ctx, "acme/debian"))(b).Published, draft())
	b.resolves(seedbed.PublishedImage, "shop", "acme/debian", "")
}

// A profile and a storage template refer only to what their project uses.
func testPartsOfProjects(b *bench) {
	ctx := context.Background()
	b.owners()
	b.network("default", "seedbed0", "10.99.0.0/24")
	b.image("acme/debian")
	p := webProfile()
	p.Image = "acme/debian"
	_, err := b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `image "acme/debian" does not exist`)
	get(b.CreateStorageTemplate(ctx, "root"))(b)
	add := func(t *seedbed.StorageTemplate) error {
		return t.AddDisk(seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "acme/debian"})
	}
	_, err = b.ChangeStorageTemplate(ctx, "root", add)
	b.want(err, seedbed.ErrInvalid, "could not be found")
	get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{Projects: []string{"default"}}))(b)
	b.equal(get(b.CreateProfile(ctx, p))(b).Image, "acme/debian")
	b.equal(get(b.ChangeStorageTemplate(ctx, "root", add))(b).Disks[0].Source, "acme/debian")
	b.image("debian")
	p.Name, p.Image, p.Network = "other", "default/debian", "default/default"
	other := get(b.CreateProfile(ctx, p))(b)
	b.equal([]string{other.Image, other.Network}, []string{"debian", "default"})
	b.equal(get(b.Profile(ctx, "other"))(b), other)
}

// An image is not removed while other projects use it. Only who may learn of them is told which.
func testImageUsedByOthers(b *bench) {
	ctx := context.Background()
	b.owners()
	b.network("default", "seedbed0", "10.99.0.0/24")
	b.image("acme/debian")
	get(b.PublishImage(ctx, "acme/debian", seedbed.Publication{All: true}))(b)
	for _, project := range []string{"shop", "acme"} {
		a := createOf("web1")
		a.Instance.Project, a.Instance.Image, a.Instance.Volumes[0].Image = project, "acme/debian", "acme/debian"
		get(b.Accept(ctx, a))(b)
	}
	remove := func(c *seedbed.Change) error {
		_, err := b.Accept(seedbed.WithChange(ctx, c),
			seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: "acme/debian"}})
		return err
	}
	b.want(remove(&seedbed.Change{Actor: "token acme/ci", Role: seedbed.RoleAdmin, Project: "acme"}), seedbed.ErrInUse,
		`image "acme/debian" is used by instance web1.acme and other projects:`)
	b.want(remove(&seedbed.Change{Actor: "token ci", Role: seedbed.RoleOperator, Project: "default"}), seedbed.ErrInUse,
		`image "acme/debian" is used by other projects:`)
	b.want(remove(&seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin, Project: "default", Installation: true}), seedbed.ErrInUse,
		`image "acme/debian" is used by instances web1.acme, web1.shop:`)
}

// The jobs of an image are its project's.
func testImageJobs(b *bench) {
	ctx := context.Background()
	b.owners()
	get(b.Accept(ctx, importOf("acme/debian")))(b)
	j := b.claim()
	b.equal([]string{j.Project, j.Subject}, []string{"acme", "acme/debian"})
	b.equal(len(get(b.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.InProject("acme")}))(b)), 1)
	b.equal(len(get(b.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.InProject("default")}))(b)), 0)
	_, err := b.Accept(ctx, importOf("none/debian"))
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = b.Accept(ctx, importOf("acme/a/b"))
	b.want(err, seedbed.ErrInvalid)
}

// shelf is where the objects of one kind are that a project can publish, besides images and networks.
type shelf struct {
	kind    seedbed.PublishedKind
	create  func(name string) error
	publish func(name string, to seedbed.Publication, refused error) (*seedbed.Publication, error)
	change  func(name string) error
	remove  func(name string) error
	list    func(m seedbed.NameMatch) (names []string, to []*seedbed.Publication)
}

// shelfOf returns the shelf of a kind, with the methods of the store for it.
func shelfOf[T any](
	b *bench, kind seedbed.PublishedKind, create func(name string) error, of func(T) (string, *seedbed.Publication),
	publish func(context.Context, string, seedbed.Publication, ...func(T) error) (T, error),
	change func(context.Context, string, func(*T) error) (T, error), remove func(context.Context, string, ...func(T) error) error,
	list func(context.Context, seedbed.NameMatch) ([]T, error),
) shelf {
	ctx := context.Background()
	return shelf{
		kind: kind, create: create,
		publish: func(name string, to seedbed.Publication, refused error) (*seedbed.Publication, error) {
			v, err := publish(ctx, name, to, func(T) error { return refused })
			_, is := of(v)
			return is, err
		},
		change: func(name string) error {
			_, err := change(ctx, name, func(*T) error { return nil })
			return err
		},
		remove: func(name string) error { return remove(ctx, name) },
		list: func(m seedbed.NameMatch) (names []string, to []*seedbed.Publication) {
			for _, v := range get(list(ctx, m))(b) {
				name, is := of(v)
				names, to = append(names, name), append(to, is)
			}
			return names, to
		},
	}
}

// shelves returns those of all kinds.
func (b *bench) shelves() []shelf {
	ctx := context.Background()
	done := func(_ any, err error) error { return err }
	return []shelf{
		shelfOf(b, seedbed.PublishedSystemTemplate, func(name string) error {
			return done(b.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: name, VCPUs: 1, Memory: seedbed.GiB}))
		}, func(t seedbed.SystemTemplate) (string, *seedbed.Publication) { return t.Name, t.Published },
			b.PublishSystemTemplate, b.ChangeSystemTemplate, b.DeleteSystemTemplate, b.SystemTemplates),
		shelfOf(b, seedbed.PublishedNetworkTemplate, func(name string) error { return done(b.CreateNetworkTemplate(ctx, name, "")) },
			func(t seedbed.NetworkTemplate) (string, *seedbed.Publication) { return t.Name, t.Published },
			b.PublishNetworkTemplate, b.ChangeNetworkTemplate, b.DeleteNetworkTemplate, b.NetworkTemplates),
		shelfOf(b, seedbed.PublishedStorageTemplate, func(name string) error { return done(b.CreateStorageTemplate(ctx, name)) },
			func(t seedbed.StorageTemplate) (string, *seedbed.Publication) { return t.Name, t.Published },
			b.PublishStorageTemplate, b.ChangeStorageTemplate, b.DeleteStorageTemplate, b.StorageTemplates),
		shelfOf(b, seedbed.PublishedUserData, func(name string) error { return done(b.CreateUserData(ctx, name, "#!x")) },
			func(d seedbed.UserDataDocument) (string, *seedbed.Publication) { return d.Name, d.Published },
			b.PublishUserData, b.ChangeUserData, b.DeleteUserData, b.UserDataDocuments),
		shelfOf(b, seedbed.PublishedScript, func(name string) error { return done(b.CreateScript(ctx, name, "x")) },
			func(s seedbed.Script) (string, *seedbed.Publication) { return s.Name, s.Published },
			b.PublishScript, b.ChangeScript, b.DeleteScript, b.Scripts),
		shelfOf(b, seedbed.PublishedProfile, func(name string) error {
			p := seedbed.NewScripted(name, "default/"+seedbed.Empty)
			p.System, p.NetworkTemplate, p.Storage = "default/small", "default/lan", "default/root"
			return done(b.CreateProfile(ctx, p))
		}, func(p seedbed.Profile) (string, *seedbed.Publication) { return p.Name, p.Published },
			b.PublishProfile, b.ChangeProfile, b.DeleteProfile, b.ScriptedProfiles),
	}
}

// A project has objects of its own of each kind, with names that others may have too. They are drafts until they
// are published, and again after they were removed.
func testCatalogueOfProjects(b *bench) {
	b.owners()
	b.templates()
	own := seedbed.NameMatch{Text: "o", Start: true, Project: "acme"}
	for _, s := range b.shelves() {
		b.must(s.create("one"))
		b.must(s.create("acme/one"))
		b.must(s.create("acme/two"))
		b.want(s.create("acme/one"), seedbed.ErrExists, `"acme/one" already exists`)
		b.want(s.create("none/one"), seedbed.ErrInvalid, `project "none" does not exist`)
		b.want(s.create("acme/a/b"), seedbed.ErrInvalid)
		named := func(project, name, want string) {
			b.Helper()
			got, err := b.Resolve(context.Background(), s.kind, project, name)
			if want == "" {
				b.want(err, seedbed.ErrNotFound)
				b.equal(err.Error(), fmt.Sprintf("%s %q does not exist", s.kind.Noun(), name))
			} else if b.must(err); got != want {
				b.Errorf("%s %s of %s is %s, want %s", s.kind, name, project, got, want)
			}
		}
		named("acme", "one", "acme/one")
		named("acme", "default/one", "")
		named("shop", "acme/one", "")
		named("shop", "one", "")
		named("default", "one", "one")

		names, to := s.list(own)
		b.equal(names, []string{"acme/one"})
		b.equal(to, []*seedbed.Publication{draft()})
		names, _ = s.list(seedbed.NameMatch{Text: "one", Start: true, End: true, Project: "acme"})
		b.equal(names, []string{"acme/one"})
		names, _ = s.list(seedbed.NameMatch{Project: "shop"})
		b.equal(len(names), 0)

		refused := seedbed.Errorf(seedbed.ErrConflict, "no")
		_, err := s.publish("acme/one", seedbed.Publication{All: true}, refused)
		b.want(err, seedbed.ErrConflict)
		_, err = s.publish("acme/none", seedbed.Publication{All: true}, nil)
		b.want(err, seedbed.ErrNotFound)
		_, err = s.publish("acme/one", seedbed.Publication{All: true, Projects: []string{"shop"}}, nil)
		b.want(err, seedbed.ErrInvalid)
		is := get(s.publish("acme/one", seedbed.Publication{Projects: []string{"shop", "acme", "shop"}}, nil))(b)
		b.equal(is, &seedbed.Publication{Projects: []string{"shop"}})
		named("shop", "acme/one", "acme/one")
		named("default", "acme/one", "")
		b.must(s.change("acme/one"))
		_, to = s.list(own)
		b.equal(to, []*seedbed.Publication{is})
		b.equal(get(s.publish("one", seedbed.Publication{All: true}, nil))(b), &seedbed.Publication{All: true, Projects: []string{}})
		named("shop", "one", "one")
		named("acme", "one", "acme/one")
		named("acme", "default/one", "one")

		b.must(s.remove("acme/one"))
		named("acme", "one", "one")
		b.must(s.create("acme/one"))
		named("shop", "acme/one", "")
		_, to = s.list(own)
		b.equal(to, []*seedbed.Publication{draft()})
	}
	shown := func(in seedbed.Scope, prefix string) (names []string) {
		for _, p := range get(b.ListProfiles(context.Background(), seedbed.ProfileQuery{Scope: in, Prefix: prefix}))(b) {
			names = append(names, p.Name)
		}
		return names
	}
	b.equal(shown(seedbed.InProject("acme"), ""), []string{"acme/one", "acme/two", "one"})
	b.equal(shown(seedbed.InProject("acme"), "o"), []string{"acme/one", "one"})
	b.equal(shown(seedbed.InProject("acme"), "acme/t"), []string{"acme/two"})
	b.equal(shown(seedbed.InProject("shop"), ""), []string{"one"})
	b.equal(shown(seedbed.AllProjects(), ""), []string{"acme/one", "acme/two", "one"})
	b.want(b.DeleteProject(context.Background(), "acme"), seedbed.ErrInUse,
		"profile acme/one", "system template acme/one", "script acme/one, acme/two")
}

// templates makes templates that are published to all, for profiles.
func (b *bench) templates() {
	ctx, all := context.Background(), seedbed.Publication{All: true}
	get(b.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "small", VCPUs: 1, Memory: seedbed.GiB}))(b)
	get(b.PublishSystemTemplate(ctx, "small", all))(b)
	get(b.CreateNetworkTemplate(ctx, "lan", ""))(b)
	get(b.PublishNetworkTemplate(ctx, "lan", all))(b)
	get(b.CreateStorageTemplate(ctx, "root"))(b)
	get(b.PublishStorageTemplate(ctx, "root", all))(b)
}

// A template is not removed while profiles of other projects refer to it. Only who may learn of them is told which.
// A profile keeps what was withdrawn.
func testPartUsedByOthers(b *bench) {
	ctx := context.Background()
	b.owners()
	b.templates()
	get(b.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "acme/big", VCPUs: 1, Memory: seedbed.GiB}))(b)
	p := seedbed.NewScripted("shop/web", seedbed.Empty)
	p.System, p.NetworkTemplate, p.Storage = "acme/big", "lan", "root"
	_, err := b.CreateProfile(ctx, p)
	b.want(err, seedbed.ErrInvalid, `system template "acme/big"`, "does not exist")
	get(b.PublishSystemTemplate(ctx, "acme/big", seedbed.Publication{Projects: []string{"shop"}}))(b)
	made := get(b.CreateProfile(ctx, p))(b)
	b.equal([]string{made.System, made.NetworkTemplate, made.Script}, []string{"acme/big", "default/lan", "default/" + seedbed.Empty})
	parts := get(b.Parts(ctx, "shop/web", seedbed.PartNames{System: made.System, Network: made.NetworkTemplate}))(b)
	b.equal([]string{parts.System.Name, parts.Network.Name}, []string{"acme/big", "lan"})
	remove := func(c *seedbed.Change) error { return b.DeleteSystemTemplate(seedbed.WithChange(ctx, c), "acme/big") }
	err = remove(&seedbed.Change{Actor: "token acme/ci", Role: seedbed.RoleAdmin, Project: "acme"})
	b.want(err, seedbed.ErrInUse, `the system template "acme/big" is used by other projects`)
	if strings.Contains(err.Error(), "shop") {
		b.Errorf("%v: it names who uses it", err)
	}
	b.want(remove(&seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin, Project: "default", Installation: true}), seedbed.ErrInUse,
		`is used by profile "shop/web"`)
	get(b.PublishSystemTemplate(ctx, "acme/big", seedbed.Publication{}))(b)
	_, err = b.Parts(ctx, "shop/web", seedbed.PartNames{System: made.System})
	b.want(err, seedbed.ErrInvalid, `"acme/big"`)
	b.equal(get(b.Profile(ctx, "shop/web"))(b).System, "acme/big")
}
