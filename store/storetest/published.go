package storetest

import (
	"context"
	"fmt"

	"seedbed"
)

var publishedCases = map[string]func(*bench){
	"names of requests":  testResolve,
	"publish":            testPublishImage,
	"publish a network":  testPublishNetwork,
	"removed image":      testUnpublishedWithImage,
	"parts":              testPartsOfProjects,
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
