package storetest

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var accessCases = map[string]func(*bench){
	"tokens":                      testTokens,
	"roles":                       testCustomRoles,
	"grants":                      testGrants,
	"a change is on record":       testAudit,
	"of changes made together":    testAuditTogether,
	"what failed is not a change": testAuditFailed,
	"idempotency key":             testKeyed,
	"taken over":                  testKeyedTakenOver,
	"equal requests at once":      testKeyedAtOnce,
	"sessions":                    testSessions,
	"sign-ins":                    testSignIns,
	"backup targets":              testBackupTargets,
	"backup owners":               testBackupOwners,
	"a sign-in once":              testSignInOnce,
}

func testTokens(b *bench) {
	ctx := context.Background()
	sum := sha256.Sum256([]byte("one"))
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	made := get(b.CreateToken(ctx, seedbed.Token{Name: "ci", Role: seedbed.RoleOperator, Expires: soon}, sum))(b)
	if made.Created.IsZero() || !made.Expires.Equal(soon) || !made.Used.IsZero() {
		b.Errorf("made %+v", made)
	}
	_, err := b.CreateToken(ctx, seedbed.Token{Name: "ci", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("two")))
	b.want(err, seedbed.ErrExists, `token "ci"`)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "x/y", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("two")))
	b.want(err, seedbed.ErrInvalid)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "x", Role: "root"}, sha256.Sum256([]byte("two")))
	b.want(err, seedbed.ErrInvalid, `role "root" does not exist`)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "x", Role: seedbed.RoleAdmin, Expires: time.Now().Add(-time.Second)},
		sha256.Sum256([]byte("two")))
	b.want(err, seedbed.ErrInvalid, "expired")

	used := get(b.TokenOf(ctx, sum))(b)
	b.equal(used, made, cmpopts.IgnoreFields(seedbed.Token{}, "Used"))
	if time.Since(used.Used) > time.Minute {
		b.Errorf("used %s", used.Used)
	}
	b.equal(get(b.Tokens(ctx))(b), []seedbed.Token{used})
	b.equal(get(b.TokenOf(ctx, sum))(b), used) // within a minute nothing is written
	_, err = b.TokenOf(ctx, sha256.Sum256([]byte("two")))
	b.want(err, seedbed.ErrNotFound)
	b.must(b.DeleteToken(ctx, "ci"))
	_, err = b.TokenOf(ctx, sum)
	b.want(err, seedbed.ErrNotFound)
	b.want(b.DeleteToken(ctx, "ci"), seedbed.ErrNotFound, `token "ci"`)
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

func testCustomRoles(b *bench) {
	ctx := context.Background()
	made := get(b.CreateRole(ctx, seedbed.CustomRole{Name: "starter", Description: "starts", Actions: []string{"job.*", "instance.power"}}))(b)
	b.equal(made.Actions, []string{"instance.power", "job.*"})
	b.equal(get(b.Role(ctx, "starter"))(b), made)
	b.equal(get(b.CustomRoles(ctx))(b), []seedbed.CustomRole{made})
	_, err := b.CreateRole(ctx, seedbed.CustomRole{Name: "starter", Actions: []string{"job.read"}})
	b.want(err, seedbed.ErrExists, `role "starter"`)
	_, err = b.CreateRole(ctx, seedbed.CustomRole{Name: "viewer", Actions: []string{"job.read"}})
	b.want(err, seedbed.ErrConflict, "built in")
	_, err = b.CreateRole(ctx, seedbed.CustomRole{Name: "painter", Actions: []string{"image.paint"}})
	b.want(err, seedbed.ErrInvalid, "image.paint")
	_, err = b.ChangeRole(ctx, "admin", func(*seedbed.CustomRole) error { return nil })
	b.want(err, seedbed.ErrConflict, "built in")
	b.want(b.DeleteRole(ctx, "admin"), seedbed.ErrConflict, "built in")

	// A change counts for the next request, also if the role was read for one before.
	b.equal(get(b.RoleOf(ctx, "starter"))(b).Set().Has(seedbed.ActionJobRetry), true)
	changed := get(b.ChangeRole(ctx, "starter", func(r *seedbed.CustomRole) error {
		r.Name, r.Actions = "other", []string{"job.read"}
		return nil
	}))(b)
	b.equal([]any{changed.Name, changed.Revision}, []any{seedbed.Role("starter"), int64(2)})
	b.equal(get(b.RoleOf(ctx, "starter"))(b), changed)
	b.equal(get(b.RoleOf(ctx, "starter"))(b).Set().List(), []seedbed.Action{seedbed.ActionSelfRead, seedbed.ActionJobRead})

	get(b.CreateToken(ctx, seedbed.Token{Name: "ci", Role: "starter"}, sha256.Sum256([]byte("one"))))(b)
	b.want(b.DeleteRole(ctx, "starter"), seedbed.ErrInUse, "token ci")
	b.want(b.DeleteToken(ctx, "ci"), nil)
	b.want(b.DeleteRole(ctx, "starter"), nil)
	b.want(b.DeleteRole(ctx, "starter"), seedbed.ErrNotFound, `"starter"`)
	_, err = b.RoleOf(ctx, "starter")
	b.want(err, seedbed.ErrNotFound)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "ci", Role: "starter"}, sha256.Sum256([]byte("one")))
	b.want(err, seedbed.ErrInvalid, `role "starter" does not exist`)
}

func testGrants(b *bench) {
	ctx := context.Background()
	b.project("acme")
	b.project("beta")
	get(b.CreateRole(ctx, seedbed.CustomRole{Name: "looker", Actions: []string{"job.read"}}))(b)
	grants := []seedbed.Grant{{Project: "beta", Role: "looker"}, {Project: "acme", Role: seedbed.RoleViewer}}
	sum := sha256.Sum256([]byte("one"))
	made := get(b.CreateToken(ctx, seedbed.Token{Name: "ci", Role: seedbed.RoleOperator, Grants: grants}, sum))(b)
	b.equal(made.Grants, grants)
	b.equal(get(b.Token(ctx, "ci"))(b).Grants, grants)
	b.equal(get(b.TokenOf(ctx, sum))(b).Grants, grants)
	b.want(b.DeleteRole(ctx, "looker"), seedbed.ErrInUse, "token ci")
	for text, wrong := range map[string][]seedbed.Grant{
		`project "none" does not exist`: {{Project: "none", Role: seedbed.RoleViewer}},
		`role "none" does not exist`:    {{Project: "acme", Role: "none"}},
		"project acme has two grants":   {{Project: "acme", Role: seedbed.RoleViewer}, {Project: "acme", Role: seedbed.RoleAdmin}},
		"project default has two":       {{Project: "default", Role: seedbed.RoleViewer}},
	} {
		_, err := b.CreateToken(ctx, seedbed.Token{Name: "x", Role: seedbed.RoleViewer, Grants: wrong}, sha256.Sum256([]byte("two")))
		b.want(err, seedbed.ErrInvalid, text)
	}
	// What a token may do changes, and what is not changed stays.
	change := func(name string, change func(*seedbed.Token)) (seedbed.Token, error) {
		return b.ChangeToken(ctx, name, func(t *seedbed.Token) error {
			change(t)
			return nil
		})
	}
	changed := get(change("ci", func(t *seedbed.Token) { t.Role = seedbed.RoleViewer }))(b)
	b.equal([]any{changed.Role, changed.Grants}, []any{seedbed.RoleViewer, grants})
	b.equal(get(b.TokenOf(ctx, sum))(b).Role, seedbed.RoleViewer)
	_, err := change("none", func(*seedbed.Token) {})
	b.want(err, seedbed.ErrNotFound, `token "none" does not exist`)
	_, err = change("ci", func(t *seedbed.Token) { t.Role = "none" })
	b.want(err, seedbed.ErrInvalid, `role "none" does not exist`)
	_, err = change("ci", func(t *seedbed.Token) { t.Grants = []seedbed.Grant{{Project: "none", Role: seedbed.RoleViewer}} })
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = change("ci", func(t *seedbed.Token) { t.Expires = t.Created.Add(-time.Hour) })
	b.want(err, seedbed.ErrInvalid, "it would have expired")
	b.equal(get(b.Token(ctx, "ci"))(b), changed)
	// A project takes with it what tokens of others may do in it.
	b.want(b.DeleteProject(ctx, "beta"), nil)
	b.equal(get(b.TokenOf(ctx, sum))(b).Grants, grants[1:])
	b.want(b.DeleteRole(ctx, "looker"), nil)
}

func testProjectInUse(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	get(b.CreateToken(ctx, seedbed.Token{Name: "acme/ci", Project: "acme", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("one"))))(b)
	err := b.DeleteProject(ctx, "acme")
	b.want(err, seedbed.ErrInUse, "instance web1; token acme/ci; jobs that have not ended: 1; remove these first")
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

// Tokens, hooks and endpoints of two projects have one name.
func testQualifiedNames(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	now := time.Now()
	sums := map[string][sha256.Size]byte{"ci": sha256.Sum256([]byte("one")), "acme/ci": sha256.Sum256([]byte("two"))}
	for name, sum := range sums {
		project := seedbed.ProjectOf(name)
		get(b.CreateToken(ctx, seedbed.Token{Name: name, Project: project, Role: seedbed.RoleViewer}, sum))(b)
		h := ciHook()
		h.Name, h.Project = name, project
		get(b.CreateHook(ctx, h))(b)
		e := endpointOf(name, "*")
		e.Project, e.URL = project, "https://x.example/"
		get(b.CreateEndpoint(ctx, e))(b)
		get(b.UpdateHook(ctx, h))(b)
		b.must(b.RecordDelivery(ctx, seedbed.Delivery{Hook: name, ID: "d", Decision: seedbed.DecisionIgnored}))
		b.must(b.RecordRejections(ctx, []seedbed.Rejection{{Hook: name, Reason: "no", Times: 1, First: now, Last: now}}))
	}
	for name, sum := range sums {
		project := seedbed.ProjectOf(name)
		b.equal(get(b.TokenOf(ctx, sum))(b).Project, project)
		b.equal(get(b.Hook(ctx, name))(b).Project, project)
		b.equal(get(b.Endpoint(ctx, name))(b).Project, project)
		deliveries := get(b.Deliveries(ctx, seedbed.DeliveryQuery{Project: project}))(b)
		rejections := get(b.Rejections(ctx, seedbed.RejectionQuery{Project: project}))(b)
		if len(deliveries) != 1 || deliveries[0].Hook != name || len(rejections) != 1 || rejections[0].Hook != name {
			b.Errorf("project %s has the deliveries %+v and rejections %+v", project, deliveries, rejections)
		}
	}
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)), 2)
	b.must(b.DeleteHook(ctx, "ci"))
	b.equal(get(b.Hook(ctx, "acme/ci"))(b).Project, "acme")
	b.must(b.DeleteEndpoint(ctx, "acme/ci"))
	get(b.Endpoint(ctx, "ci"))(b)
	b.must(b.DeleteToken(ctx, "acme/ci"))
	get(b.Token(ctx, "ci"))(b)
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
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "none/ci", Project: "none", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("one")))
	b.want(err, seedbed.ErrInvalid, `project "none" does not exist`)
	_, err = b.CreateToken(ctx, seedbed.Token{Name: "ci", Project: "none", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("one")))
	b.want(err, seedbed.ErrInvalid, `token name "ci" is not one of project none: expected none/ci`)
	_, err = b.CreateHook(ctx, seedbed.Hook{Name: "none/ci", Project: "none"})
	b.want(err, seedbed.ErrInvalid)
	_, err = b.CreateEndpoint(ctx, seedbed.Endpoint{Name: "none/out", Project: "none", URL: "https://x.example/", Events: []string{"*"}})
	b.want(err, seedbed.ErrInvalid)
}

// testBackupOwners checks that the backups of an instance are those of its project, also when neither it nor its jobs exist any more.
func testBackupOwners(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{})
	one, two := b.madeIn("acme", "web1"), b.madeIn("acme", "web2")
	a := volumeJob(seedbed.JobBackup, one.ID, "")
	a.Job.Spec = []byte(`{"target":"nas"}`)
	get(b.Accept(ctx, a))(b)
	b.end(seedbed.JobResult{State: seedbed.JobRolledBack})
	ids := []seedbed.InstanceID{one.ID, two.ID, one.ID, "other"}
	want := map[seedbed.InstanceID]seedbed.BackupOwner{one.ID: {Project: "acme"}}
	b.equal(get(b.BackupOwners(ctx, ids))(b), want)
	b.removed(one)
	b.removed(two)
	of := get(b.BackupOwners(ctx, ids))(b)
	if o := of[one.ID]; len(of) != 1 || o.Project != "acme" || time.Since(o.Removed) > time.Minute {
		b.Errorf("the backups of a removed instance are those of %+v", of)
	}

	// A domain that is adopted again has its ID. Its earlier backups stay until a backup is made of it as another project's.
	again := createOf("web1")
	again.Job.Kind, again.Instance.ID = seedbed.JobAdopt, one.ID
	get(b.Accept(ctx, again))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	b.equal(get(b.BackupOwners(ctx, ids))(b), want)
	a.Job.ID = seedbed.NewJobID()
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.BackupOwners(ctx, ids))(b), map[seedbed.InstanceID]seedbed.BackupOwner{one.ID: {Project: seedbed.DefaultProject}})
}

func testBackupTargets(b *bench) {
	ctx := context.Background()
	nas := seedbed.BackupTarget{Name: "nas", Secret: "k", Identity: "", NameKey: "n", BackupSettings: seedbed.BackupSettings{
		URL: "https://s3.example", Bucket: "b", KeyID: "id", Recipient: "age1x", Before: []string{"mount /x"}, Keep: seedbed.Retention{Last: 3}}}
	made := get(b.CreateBackupTarget(ctx, nas))(b)
	b.equal(get(b.BackupTarget(ctx, "nas"))(b), made)
	b.equal(get(b.BackupTargets(ctx))(b), []seedbed.BackupTarget{made})
	_, err := b.CreateBackupTarget(ctx, nas)
	b.want(err, seedbed.ErrExists, `"nas"`)
	_, err = b.CreateBackupTarget(ctx, seedbed.BackupTarget{Name: "x", BackupSettings: seedbed.BackupSettings{Path: "srv"}})
	b.want(err, seedbed.ErrInvalid, "from the root")
	changed := get(b.ChangeBackupTarget(ctx, "nas", func(t *seedbed.BackupTarget) error { t.Name, t.Identity = "other", "i"; return nil }))(b)
	b.equal([]any{changed.Name, changed.Identity, changed.Secret, changed.Revision}, []any{"nas", seedbed.Secret("i"), nas.Secret, int64(2)})
	b.equal(get(b.BackupTarget(ctx, "nas"))(b), changed)

	b.project("acme")
	nightly := seedbed.Schedule{Kind: seedbed.ScheduleBackup, Name: "acme/nightly", Project: "acme", Target: "nas", Cron: "@daily",
		ScheduleSettings: seedbed.ScheduleSettings{Tag: "backup", Exclude: []string{"data"}}}
	daily := get(b.CreateSchedule(ctx, nightly))(b)
	b.equal(get(b.Schedules(ctx))(b), []seedbed.Schedule{daily})
	b.equal(get(b.Schedule(ctx, seedbed.ScheduleBackup, "acme/nightly"))(b), daily)
	_, err = b.CreateSchedule(ctx, nightly)
	b.want(err, seedbed.ErrExists, "acme/nightly")
	nightly.Name, nightly.Target = "acme/other", "none"
	_, err = b.CreateSchedule(ctx, nightly)
	b.want(err, seedbed.ErrInvalid, `backup target "none"`)
	b.want(b.DeleteBackupTarget(ctx, "nas"), seedbed.ErrInUse, "acme/nightly")
	b.want(b.DeleteProject(ctx, "acme"), seedbed.ErrInUse, "schedule")
	b.must(b.DeleteSchedule(ctx, seedbed.ScheduleBackup, "acme/nightly"))
	b.want(b.DeleteSchedule(ctx, seedbed.ScheduleBackup, "acme/nightly"), seedbed.ErrNotFound)
	b.must(b.DeleteBackupTarget(ctx, "nas"))
	b.want(b.DeleteBackupTarget(ctx, "nas"), seedbed.ErrNotFound)
	b.equal(get(b.Installation(ctx))(b), get(b.Installation(ctx))(b))
}
