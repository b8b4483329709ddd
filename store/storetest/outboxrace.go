package storetest

import (
	"context"
	"slices"
	"sync"

	"seedbed"
)

// While many writers are active, a reader never sees a seq without all lower ones.
func testSeqRace(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.endpoint("two", "cleanup.*")
	const writers, each = 8, 12
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if err := b.CleanupFinished(ctx, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		default:
		}
		for _, name := range []string{"one", "two"} {
			seen := get(b.OutgoingDeliveries(ctx, name, seedbed.OutgoingQuery{}))(b)
			for at, o := range seen {
				if want := int64(len(seen) - at); o.Seq != want {
					b.Fatalf("%s has seq %d where %d is missing", name, o.Seq, want)
				}
			}
			if last && len(seen) != writers*each {
				b.Errorf("%s was told %d events, want %d", name, len(seen), writers*each)
			}
		}
	}
}

// If several senders claim at the same time, each delivery has one of them at a time, in order.
func testOutgoingRace(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.endpoint("two", "*")
	const n = 20
	b.happen(n)
	var mu sync.Mutex
	got := map[string][]int64{}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for {
				mu.Lock()
				over := len(got["one"]) == n && len(got["two"]) == n
				mu.Unlock()
				if over {
					return
				}
				c, _, err := b.ClaimOutgoing(ctx, nameN(w), lease)
				if err != nil {
					b.Error(err)
					return
				}
				if c == nil {
					continue
				}
				mu.Lock()
				got[c.Endpoint.Name] = append(got[c.Endpoint.Name], c.Outgoing.Seq)
				mu.Unlock()
				if err := b.RecordOutgoing(ctx, *c, sent); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for name, seqs := range got {
		if len(seqs) != n || !slices.IsSorted(seqs) {
			b.Errorf("%s: %v", name, seqs)
		}
	}
}
