package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	"seedbed"
	"seedbed/store"
)

// objectMakers make one object of a project each, by the plural of the kind.
var objectMakers = map[string]func(db *store.DB, project, name string) error{
	"tokens": func(db *store.DB, project, name string) error {
		t := seedbed.Token{Name: seedbed.Qualified(project, name), Project: project, Role: seedbed.RoleViewer}
		_, err := db.CreateToken(context.Background(), t, sha256.Sum256([]byte(t.Name)))
		return err
	},
	"hooks": func(db *store.DB, project, name string) error {
		h := ciHook()
		h.Name, h.Project = seedbed.Qualified(project, name), project
		_, err := db.CreateHook(context.Background(), h)
		return err
	},
	"endpoints": func(db *store.DB, project, name string) error {
		e := endpointOf(name, "*")
		e.Name, e.Project = seedbed.Qualified(project, name), project
		_, err := db.CreateEndpoint(context.Background(), e)
		return err
	},
}

func testObjectQuota(b *bench) {
	ctx := context.Background()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Tokens: 2, Hooks: 2, Endpoints: 2}})
	for kind, make := range objectMakers {
		b.must(make(b.DB, "acme", "one"))
		b.must(make(b.DB, "acme", "two"))
		b.want(make(b.DB, "acme", "three"), seedbed.ErrForbidden,
			fmt.Sprintf(`project "acme" is over its quota of %s: it would have 3, and 2 is the most`, kind))
		b.want(make(b.DB, "acme", "two"), seedbed.ErrExists) // also at the limit
		b.must(make(b.DB, seedbed.DefaultProject, "three"))  // the quota of one project does not concern another
	}
	u := get(b.ProjectUse(ctx, "acme"))(b)
	b.equal([]int64{u.Tokens, u.Hooks, u.Endpoints}, []int64{2, 2, 2})

	// What was removed makes room.
	b.must(b.DeleteToken(ctx, "acme/one"))
	b.must(b.DeleteHook(ctx, "acme/one"))
	b.must(b.DeleteEndpoint(ctx, "acme/one"))
	for _, make := range objectMakers {
		b.must(make(b.DB, "acme", "three"))
	}

	// What is there already stays when a quota is lowered. Hooks of the configuration are not refused.
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Hooks = 1
		return nil
	}))(b)
	b.want(objectMakers["hooks"](b.DB, seedbed.DefaultProject, "four"), seedbed.ErrForbidden, `project "default"`, "would have 2")
	h := ciHook()
	h.Name = "declared"
	b.must(b.DeclareHooks(ctx, []seedbed.Hook{h}))
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Hooks, int64(2))
}

// Images count from the acceptance of their import until they are removed.
func testImageQuota(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Images = 3
		return nil
	}))(b)
	a := importOf("one")
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(2))
	get(b.CreateScript(ctx, "ova", ""))(b)
	_, err := b.Accept(ctx, ovaOf("suite")) // of two disks
	b.want(err, seedbed.ErrForbidden, `project "default" is over its quota of images: it would have 4, and 3 is the most`)
	_, err = b.Image(ctx, seedbed.OVAImage("suite", "sda"))
	b.want(err, seedbed.ErrNotFound)
	get(b.Accept(ctx, importOf("two")))(b)
	_, err = b.Accept(ctx, importOf("three"))
	b.want(err, seedbed.ErrForbidden, "would have 4")
	_, err = b.Accept(ctx, importOf("two"))
	b.want(err, seedbed.ErrExists)
	b.must(b.CancelJob(ctx, a.Job.ID))
	get(b.Accept(ctx, importOf("three")))(b)
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(3))
}

// Many objects of each kind are made at once, of which the quota has room for a few.
func testObjectQuotaRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Tokens: 7, Hooks: 6, Endpoints: 5}})
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Images = 5
		return nil
	}))(b)
	made := map[string]*atomic.Int64{"images": {}}
	count := func(kind string, err error) {
		switch {
		case err == nil:
			made[kind].Add(1)
		case !errors.Is(err, seedbed.ErrForbidden):
			b.Error(kind, err)
		}
	}
	for kind, make := range objectMakers {
		made[kind] = new(atomic.Int64)
		each(crowd, func(n int) { count(kind, make(b.turn(), "acme", nameN(n))) })
	}
	each(crowd, func(n int) {
		_, err := b.Accept(ctx, importOf(nameN(n)))
		count("images", err)
	})
	u := get(b.ProjectUse(ctx, "acme"))(b)
	b.equal([]int64{u.Tokens, u.Hooks, u.Endpoints}, []int64{7, 6, 5})
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(5))
	for kind, most := range map[string]int64{"tokens": 7, "hooks": 6, "endpoints": 5, "images": 4} { // there was one image
		b.equal(made[kind].Load(), most)
	}
}
