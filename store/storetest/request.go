package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

func keyed(id, request string) seedbed.KeyedRequest {
	return seedbed.KeyedRequest{ID: sha256.Sum256([]byte(id)), Digest: sha256.Sum256([]byte(request))}
}

// on returns a context for changes on behalf of the request.
func on(k seedbed.KeyedRequest) context.Context {
	return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: "token ci", Role: seedbed.RoleAdmin, Keyed: &k})
}

// change makes a change on behalf of the request.
func (b *bench) change(k seedbed.KeyedRequest, name string) error {
	_, err := b.CreateToken(on(k), seedbed.Token{Name: name, Role: seedbed.RoleViewer}, sha256.Sum256([]byte(name)))
	return err
}

func testKeyed(b *bench) {
	ctx := context.Background()
	begin := func(id, request string) (seedbed.KeyedRequest, string, error) {
		k, answer, err := b.BeginRequest(ctx, keyed(id, request), time.Minute)
		return k, string(answer), err
	}
	first, answer, err := begin("one", "a")
	b.must(err)
	b.equal(answer, "")
	_, _, err = begin("one", "a")
	b.want(err, seedbed.ErrInUse, "still being carried out")
	_, _, err = begin("one", "b")
	b.want(err, seedbed.ErrConflict, "another request")
	b.must(b.RenewRequest(ctx, first))
	b.must(b.change(first, "made"))
	b.must(b.EndRequest(ctx, first, []byte("made"), false))
	_, answer, err = begin("one", "a")
	b.must(err)
	b.equal(answer, "made")
	_, _, err = begin("one", "b")
	b.want(err, seedbed.ErrConflict, "another request")
	b.must(b.EndRequest(ctx, first, []byte("late"), false)) // the first answer stays
	_, answer, _ = begin("one", "a")
	b.equal(answer, "made")

	// What failed and changed nothing is sent again; what changed something is not.
	for _, changed := range []bool{false, true} {
		id := map[bool]string{false: "unchanged", true: "changed"}[changed]
		k, _, err := begin(id, "a")
		b.must(err)
		if changed {
			b.must(b.change(k, id))
		}
		b.must(b.EndRequest(ctx, k, []byte("failed"), true))
		again, answer, err := begin(id, "a")
		b.must(err)
		if want := map[bool]string{true: "failed"}[changed]; answer != want || (again.Run == k.Run) {
			b.Errorf("%s: again %q; want %q", id, answer, want)
		}
	}

	soon := time.Now().Add(time.Minute)
	b.equal(get(b.CountRequests(ctx, time.Now().Add(-time.Minute)))(b), 0)
	b.equal(get(b.CountRequests(ctx, soon))(b), 3)
	b.equal(get(b.DropRequests(ctx, soon))(b), 3)
	_, answer, err = begin("one", "b")
	b.must(err)
	b.equal(answer, "")
}

// testKeyedTakenOver checks that a request whose process has ended is carried out by another one if
// it has changed nothing, and never twice.
func testKeyedTakenOver(b *bench) {
	ctx := context.Background()
	lost, _, err := b.BeginRequest(ctx, keyed("lost", "a"), 0)
	b.must(err)
	next, answer, err := b.BeginRequest(ctx, keyed("lost", "a"), 0)
	b.must(err)
	if answer != nil || next.Run == lost.Run {
		b.Fatalf("the request was not taken over: %q", answer)
	}
	b.want(b.change(lost, "late"), seedbed.ErrUnavailable, "took so long")
	b.must(b.change(next, "late"))
	b.must(b.EndRequest(ctx, lost, []byte("lost"), false)) // does nothing
	_, _, err = b.BeginRequest(ctx, keyed("lost", "a"), 0)
	b.want(err, seedbed.ErrConflict, "was carried out", "the audit log")
}

// testKeyedAtOnce checks that of many equal requests one is carried out.
func testKeyedAtOnce(b *bench) {
	ctx := context.Background()
	var all sync.WaitGroup
	var mu sync.Mutex
	begun := 0
	for range 24 {
		all.Go(func() {
			for {
				k, answer, err := b.BeginRequest(ctx, keyed("many", "a"), time.Minute)
				if errors.Is(err, seedbed.ErrInUse) {
					time.Sleep(time.Millisecond)
					continue
				}
				if err == nil && answer == nil {
					mu.Lock()
					begun++
					mu.Unlock()
					if err = b.change(k, "once"); err == nil {
						err = b.EndRequest(ctx, k, []byte("done"), false)
					}
				}
				if err != nil {
					b.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	b.equal(begun, 1)
}

func asked(actor string) context.Context {
	return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: actor, Role: seedbed.RoleAdmin, From: "192.0.2.1",
		Request: "POST /api/v1/tokens", Before: json.RawMessage(`{"a":1}`), Asked: json.RawMessage(`{"name":"ci"}`)})
}

func testAudit(b *bench) {
	ctx := context.Background()
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 10}))(b), []seedbed.AuditEntry{})
	sum := sha256.Sum256([]byte("one"))
	get(b.CreateToken(asked("token root"), seedbed.Token{Name: "ci", Role: seedbed.RoleViewer}, sum))(b)
	b.must(b.DeleteToken(asked("uid 0"), "ci"))
	all := get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 10}))(b)
	if len(all) != 2 || all[0].ID <= all[1].ID || time.Since(all[0].At) > time.Minute {
		b.Fatalf("%+v", all)
	}
	want := []seedbed.AuditEntry{
		{Actor: "uid 0", What: "revoke token ci"},
		{Actor: "token root", What: "create token ci"},
	}
	for i := range want {
		want[i].Project = seedbed.DefaultProject
		want[i].Role, want[i].From, want[i].Request = seedbed.RoleAdmin, "192.0.2.1", "POST /api/v1/tokens"
		want[i].Before, want[i].Asked = json.RawMessage(`{"a":1}`), json.RawMessage(`{"name":"ci"}`)
	}
	b.equal(all, want, cmpopts.IgnoreFields(seedbed.AuditEntry{}, "ID", "At"))
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Before: all[0].ID, Limit: 10}))(b), all[1:])
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 1}))(b), all[:1])
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Actor: "uid 0", Since: day}))(b), all[:1])
	b.equal(len(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Since: time.Now().Add(time.Hour)}))(b)), 0)

	// A tenant reads the entries of its project, and not which admin of the installation acted there.
	in := func(actor string, visits bool) context.Context {
		return seedbed.WithChange(ctx, &seedbed.Change{Actor: actor, Role: seedbed.RoleAdmin, Project: "acme", Visits: visits, From: "192.0.2.1"})
	}
	get(b.CreateToken(in("token acme/boss", false), seedbed.Token{Name: "one", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("1"))))(b)
	get(b.CreateToken(in("token root", true), seedbed.Token{Name: "two", Role: seedbed.RoleViewer}, sha256.Sum256([]byte("2"))))(b)
	told := func(q seedbed.AuditQuery) (all [][3]string) {
		for _, e := range get(b.Audit(ctx, q))(b) {
			all = append(all, [3]string{e.Actor, e.From, e.What})
		}
		return all
	}
	one, two := [3]string{"token acme/boss", "192.0.2.1", "create token one"}, [3]string{"token root", "192.0.2.1", "create token two"}
	hidden := [3]string{seedbed.InstallationActor, "", "create token two"}
	acme := seedbed.InProject("acme")
	b.equal(told(seedbed.AuditQuery{Scope: acme}), [][3]string{two, one})
	b.equal(told(seedbed.AuditQuery{Scope: acme, Tenant: true}), [][3]string{hidden, one})
	b.equal(told(seedbed.AuditQuery{Scope: acme, Tenant: true, Actor: "token acme/boss"}), [][3]string{one})
	b.equal(told(seedbed.AuditQuery{Scope: acme, Tenant: true, Actor: seedbed.InstallationActor}), [][3]string{hidden})
	b.equal(told(seedbed.AuditQuery{Scope: acme, Tenant: true, Actor: "token root"}), [][3]string(nil))
	b.equal(told(seedbed.AuditQuery{Scope: acme, Actor: "token root"}), [][3]string{two})
	b.equal(len(told(seedbed.AuditQuery{Scope: seedbed.InProject(seedbed.DefaultProject)})), 2)
	b.equal(len(told(seedbed.AuditQuery{})), 0)

	large := seedbed.WithChange(ctx,
		&seedbed.Change{Actor: strings.Repeat("x", 1000), Asked: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)})
	get(b.CreateToken(large, seedbed.Token{Name: "big", Role: seedbed.RoleViewer}, sum))(b)
	last := get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 1}))(b)
	if e := last[0]; len(e.Asked) > 100 || len(e.Actor) > 256 || !json.Valid(e.Asked) {
		b.Errorf("%d bytes are kept of an actor, %d of a body", len(e.Actor), len(e.Asked))
	}
	later := time.Now().Add(time.Minute)
	b.equal(get(b.CountAudit(ctx, later))(b), 5)
	b.equal(get(b.DropAudit(ctx, later))(b), 5)
	b.equal(get(b.CountAudit(ctx, later))(b), 0)
}

// Creates that share a transaction each have their own entry, or none.
func testAuditTogether(b *bench) {
	b.world()
	const n = 12
	errs := make(chan error, n)
	for i := range n {
		go func() {
			a := createOf(nameN(i))
			ctx := context.Background()
			if i%2 == 0 {
				ctx = asked("token " + a.Instance.Name)
			}
			_, err := b.Accept(ctx, a)
			errs <- err
		}()
	}
	for range n {
		b.must(<-errs)
	}
	seen := map[string]int{}
	for _, e := range get(b.Audit(context.Background(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 100}))(b) {
		seen[e.Actor]++
		if e.What != "accept create" {
			b.Errorf("entry %+v", e)
		}
	}
	want := map[string]int{}
	for i := 0; i < n; i += 2 {
		want["token "+nameN(i)] = 1
	}
	b.equal(seen, want)
}

func testAuditFailed(b *bench) {
	sum := sha256.Sum256([]byte("one"))
	get(b.CreateToken(context.Background(), seedbed.Token{Name: "ci", Role: seedbed.RoleViewer}, sum))(b)
	_, err := b.CreateToken(asked("uid 0"), seedbed.Token{Name: "ci", Role: seedbed.RoleViewer}, sum)
	b.want(err, seedbed.ErrExists)
	b.equal(get(b.Audit(context.Background(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 10}))(b), []seedbed.AuditEntry{})
}

var projectCases = map[string]func(*bench){
	"added, changed and removed": testProjects,
	"not empty":                  testProjectInUse,
	"one name in two projects":   testOneNameInTwoProjects,
	"qualified names":            testQualifiedNames,
	"what others have is hidden": testOthersAreHidden,
	"does not exist":             testNoProject,
}

var anna = seedbed.Person{Issuer: "https://login.example", Subject: "0a1b", Name: "anna@example.org", Groups: []string{"dev", "ops"}}

func testSessions(b *bench) {
	ctx := context.Background()
	sum := func(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	made := get(b.BeginSession(asked(anna.Actor()), anna, ends, "192.0.2.1", sum("one")))(b)
	if seedbed.CheckSessionID(made.ID) != nil || made.Created.IsZero() || !made.Expires.Equal(ends) || !made.Used.IsZero() {
		b.Errorf("made %+v", made)
	}
	b.equal(made.Person, anna)
	b.equal(made.From, "192.0.2.1")
	used := get(b.SessionOf(ctx, sum("one")))(b)
	b.equal(used, made, cmpopts.IgnoreFields(seedbed.Session{}, "Used"))
	if time.Since(used.Used) > time.Minute {
		b.Errorf("used %s", used.Used)
	}
	b.equal(get(b.SessionOf(ctx, sum("one")))(b), used) // within a minute nothing is written
	b.equal(get(b.Session(ctx, made.ID))(b), used)
	_, err := b.SessionOf(ctx, sum("two"))
	b.want(err, seedbed.ErrNotFound)
	_, err = b.BeginSession(ctx, seedbed.Person{Issuer: anna.Issuer, Subject: "1", Name: "a b"}, ends, "", sum("bad"))
	b.want(err, seedbed.ErrInvalid, "without spaces")

	// One without groups, which has expired.
	other := seedbed.Person{Issuer: anna.Issuer, Subject: "2", Name: "bert"}
	bert := get(b.BeginSession(ctx, other, time.Now().Add(-time.Second), "", sum("two")))(b)
	_, err = b.SessionOf(ctx, sum("two"))
	b.want(err, seedbed.ErrNotFound)
	_, err = b.Session(ctx, bert.ID)
	b.want(err, seedbed.ErrNotFound, bert.ID)
	b.want(b.EndSession(ctx, bert.ID), seedbed.ErrNotFound, bert.ID)
	b.equal(get(b.Sessions(ctx))(b), []seedbed.Session{used})
	b.equal(get(b.CountSessions(ctx, time.Now()))(b), 1)
	b.equal(get(b.DropSessions(ctx, time.Now()))(b), 1)
	b.equal(get(b.CountSessions(ctx, time.Now()))(b), 0)

	refuse := func(seedbed.Session) error { return seedbed.Errorf(seedbed.ErrConflict, "no") }
	b.want(b.EndSession(ctx, made.ID, refuse), seedbed.ErrConflict)
	b.equal(get(b.SessionOf(ctx, sum("one")))(b), used)
	b.must(b.EndSession(asked("token admin"), made.ID))
	_, err = b.SessionOf(ctx, sum("one"))
	b.want(err, seedbed.ErrNotFound)
	b.want(b.EndSession(ctx, made.ID), seedbed.ErrNotFound, made.ID)
	log := get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 10}))(b)
	b.equal(len(log), 2)
	b.equal(log[0].What, "end session "+made.ID)
	b.equal(log[1].What, "begin session "+made.ID+" of "+anna.Actor())
}

func testSignIns(b *bench) {
	ctx := context.Background()
	state := sha256.Sum256([]byte("state"))
	soon := time.Now().Add(time.Minute)
	b.must(b.KeepSignIn(ctx, state, nil, soon))
	b.want(b.KeepSignIn(ctx, state, nil, soon), seedbed.ErrConflict, "used already")
	code := sha256.Sum256([]byte("code"))
	b.must(b.KeepSignIn(ctx, code, []byte("what is known"), soon))
	b.equal(string(get(b.TakeSignIn(ctx, code))(b)), "what is known")
	_, err := b.TakeSignIn(ctx, code)
	b.want(err, seedbed.ErrNotFound)
	late := sha256.Sum256([]byte("late"))
	b.must(b.KeepSignIn(ctx, late, []byte("x"), time.Now().Add(-time.Second)))
	_, err = b.TakeSignIn(ctx, late)
	b.want(err, seedbed.ErrNotFound, "took too long")
	b.equal(get(b.CountSignIns(ctx, time.Now()))(b), 1)
	b.equal(get(b.DropSignIns(ctx, time.Now()))(b), 1)
	b.want(b.KeepSignIn(ctx, state, nil, soon), seedbed.ErrConflict) // it stays until its time has passed
}

// testSignInOnce checks that of many who continue one sign-in at once, one does.
func testSignInOnce(b *bench) {
	ctx := context.Background()
	code := sha256.Sum256([]byte("code"))
	b.must(b.KeepSignIn(ctx, code, []byte("x"), time.Now().Add(time.Minute)))
	var taken atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			_, err := b.TakeSignIn(ctx, code)
			if err == nil {
				taken.Add(1)
			} else if !errors.Is(err, seedbed.ErrNotFound) {
				b.Error(err)
			}
		})
	}
	wait.Wait()
	b.equal(taken.Load(), int64(1))
}
