package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var accessCases = map[string]func(*bench){
	"tokens":                      testTokens,
	"a change is on record":       testAudit,
	"of changes made together":    testAuditTogether,
	"what failed is not a change": testAuditFailed,
	"idempotency key":             testKeyed,
	"taken over":                  testKeyedTakenOver,
	"equal requests at once":      testKeyedAtOnce,
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
	b.want(err, seedbed.ErrInvalid, `"root"`, "viewer, operator or admin")
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

func asked(actor string) context.Context {
	return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: actor, Role: seedbed.RoleAdmin, From: "192.0.2.1",
		Request: "POST /api/v1/tokens", Before: json.RawMessage(`{"a":1}`), Asked: json.RawMessage(`{"name":"ci"}`)})
}

func testAudit(b *bench) {
	ctx := context.Background()
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Limit: 10}))(b), []seedbed.AuditEntry{})
	sum := sha256.Sum256([]byte("one"))
	get(b.CreateToken(asked("token root"), seedbed.Token{Name: "ci", Role: seedbed.RoleViewer}, sum))(b)
	b.must(b.DeleteToken(asked("uid 0"), "ci"))
	all := get(b.Audit(ctx, seedbed.AuditQuery{Limit: 10}))(b)
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
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Before: all[0].ID, Limit: 10}))(b), all[1:])
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Limit: 1}))(b), all[:1])
	b.equal(get(b.Audit(ctx, seedbed.AuditQuery{Actor: "uid 0", Since: day}))(b), all[:1])
	b.equal(len(get(b.Audit(ctx, seedbed.AuditQuery{Since: time.Now().Add(time.Hour)}))(b)), 0)

	large := seedbed.WithChange(ctx,
		&seedbed.Change{Actor: strings.Repeat("x", 1000), Asked: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)})
	get(b.CreateToken(large, seedbed.Token{Name: "big", Role: seedbed.RoleViewer}, sum))(b)
	if e := get(b.Audit(ctx, seedbed.AuditQuery{Limit: 1}))(b)[0]; len(e.Asked) > 100 || len(e.Actor) > 256 || !json.Valid(e.Asked) {
		b.Errorf("%d bytes are kept of an actor, %d of a body", len(e.Actor), len(e.Asked))
	}
	later := time.Now().Add(time.Minute)
	b.equal(get(b.CountAudit(ctx, later))(b), 3)
	b.equal(get(b.DropAudit(ctx, later))(b), 3)
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
	for _, e := range get(b.Audit(context.Background(), seedbed.AuditQuery{Limit: 100}))(b) {
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
	b.equal(get(b.Audit(context.Background(), seedbed.AuditQuery{Limit: 10}))(b), []seedbed.AuditEntry{})
}
