package storetest

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strings"

	"seedbed"
)

var projectCases = map[string]func(*bench){
	"added, changed and removed": testProjects,
	"not empty":                  testProjectInUse,
	"one name in two projects":   testOneNameInTwoProjects,
	"what others have is hidden": testOthersAreHidden,
	"does not exist":             testNoProject,
}

// inProject returns a create request of an instance of a project.
func inProject(project, name string) seedbed.Acceptance {
	a := createOf(name)
	a.Job.Project, a.Instance.Project = project, project
	return a
}

// project adds a project.
func (b *bench) project(name string) seedbed.Project {
	b.Helper()
	return get(b.CreateProject(context.Background(), seedbed.Project{Name: name}))(b)
}

func testProjects(b *bench) {
	ctx := context.Background()
	first := get(b.Projects(ctx))(b)
	if len(first) != 1 || first[0].Name != seedbed.DefaultProject || !regexp.MustCompile(`^[1-9][0-9]{11}$`).MatchString(first[0].Number) {
		b.Fatalf("a new database has the projects %+v", first)
	}
	acme := get(b.CreateProject(ctx, seedbed.Project{Name: "acme", Description: "a shop"}))(b)
	if acme.Number == first[0].Number || acme.Created.IsZero() || acme.Revision != 1 {
		b.Errorf("made %+v", acme)
	}
	b.equal(get(b.Project(ctx, "acme"))(b), acme)
	_, err := b.CreateProject(ctx, seedbed.Project{Name: "acme"})
	b.want(err, seedbed.ErrExists, `"acme"`)
	for _, name := range []string{"", "Acme", "a.b", "-a", strings.Repeat("a", 33)} {
		_, err = b.CreateProject(ctx, seedbed.Project{Name: name})
		b.want(err, seedbed.ErrInvalid, "1 to 32 of a-z, 0-9 and '-'")
	}
	_, err = b.CreateProject(ctx, seedbed.Project{Name: "b", Description: strings.Repeat("x", 1001)})
	b.want(err, seedbed.ErrInvalid, "1001 bytes", "at most 1000")

	changed := get(b.ChangeProject(ctx, "acme", func(p *seedbed.Project) error {
		p.Description, p.Number, p.Name = "the shop", "1", "other"
		return nil
	}))(b)
	b.equal([]any{changed.Name, changed.Number, changed.Description, changed.Revision}, []any{"acme", acme.Number, "the shop", int64(2)})
	_, err = b.ChangeProject(ctx, "none", func(*seedbed.Project) error { return nil })
	b.want(err, seedbed.ErrNotFound, `project "none"`)

	b.must(b.DeleteProject(ctx, "acme"))
	_, err = b.Project(ctx, "acme")
	b.want(err, seedbed.ErrNotFound, `"acme"`)
	_, err = b.CreateProject(ctx, seedbed.Project{Name: "acme"})
	b.want(err, seedbed.ErrConflict, "was removed", "choose another name")
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrNotFound)
	b.want(b.DeleteProject(ctx, seedbed.DefaultProject), seedbed.ErrConflict, "cannot be removed")
}

func testProjectInUse(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	get(b.CreateToken(ctx, seedbed.Token{Name: "ci", Project: "acme", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("one"))))(b)
	err := b.DeleteProject(ctx, "acme")
	b.want(err, seedbed.ErrInUse, "instance web1; token ci; 1 jobs that have not ended: remove these first")
	get(b.Project(ctx, "acme"))(b)
}

func testOneNameInTwoProjects(b *bench) {
	ctx := context.Background()
	b.world()
	acme := b.project("acme")
	web1 := inProject("acme", "web1")
	theirs, ours := get(b.Accept(ctx, createOf("web1")))(b), get(b.Accept(ctx, web1))(b)
	_, err := b.Accept(ctx, inProject("acme", "web1"))
	b.want(err, seedbed.ErrExists, `"web1"`, ours.Job.Short())
	i := get(b.InstanceByName(ctx, seedbed.Named("acme", "web1")))(b)
	b.equal([]any{i.ID, i.Project, i.Account}, []any{web1.Instance.ID, "acme", acme.Number})
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b).Project, seedbed.DefaultProject)

	for _, of := range []struct {
		in   seedbed.Scope
		want int
	}{{seedbed.InProject("acme"), 1}, {seedbed.InProject("none"), 0}, {seedbed.Scope{}, 0}, {seedbed.AllProjects(), 2}} {
		b.equal(len(get(b.ListInstances(ctx, seedbed.InstanceQuery{Scope: of.in}))(b)), of.want)
		b.equal(len(get(b.ListJobs(ctx, seedbed.JobQuery{Scope: of.in, Kind: seedbed.JobCreate}))(b)), of.want)
	}
	_, err = b.FindJob(ctx, seedbed.InProject("acme"), string(theirs.Job))
	b.want(err, seedbed.ErrNotFound)
	b.equal(get(b.FindJob(ctx, seedbed.InProject("acme"), string(ours.Job[:8])))(b).Project, "acme")

	// A job cannot wait for one of another project, as if that did not exist.
	after := inProject("acme", "web2")
	after.Job.After = theirs.Job
	_, err = b.Accept(ctx, after)
	b.want(err, seedbed.ErrInvalid, string(theirs.Job))
}

func testOthersAreHidden(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	theirs := createOf("secret-name")
	made := get(b.Accept(ctx, theirs))(b)
	i := get(b.InstanceByName(ctx, seedbed.InDefault("secret-name")))(b)
	for what, change := range map[string]func(*seedbed.Instance){
		"MAC address": func(ours *seedbed.Instance) { ours.NICs[0].MAC = i.NICs[0].MAC },
		"address":     func(ours *seedbed.Instance) { ours.NICs[0].Addr = i.NICs[0].Addr },
		"UUID":        func(ours *seedbed.Instance) { ours.ID = i.ID },
	} {
		ours := inProject("acme", "web1")
		change(ours.Instance)
		_, err := b.Accept(ctx, ours)
		b.want(err, seedbed.ErrExists, what)
		if e := err.Error(); strings.Contains(e, "secret-name") || strings.Contains(e, made.Job.Short()) {
			b.Errorf("tells of another project: %s", e)
		}
	}
}

func testNoProject(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.Accept(ctx, inProject("none", "web1"))
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "ci", Project: "none", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("one")))
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = b.CreateHook(ctx, seedbed.Hook{Name: "ci", Project: "none"})
	b.want(err, seedbed.ErrInvalid)
	_, err = b.CreateEndpoint(ctx, seedbed.Endpoint{Name: "out", Project: "none", URL: "https://x.example/", Events: []string{"*"}})
	b.want(err, seedbed.ErrInvalid)
}
