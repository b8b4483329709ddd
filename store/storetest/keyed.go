package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

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
