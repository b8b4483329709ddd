package feed

import (
	"context"
	"sync"
	"testing"

	"seedbed"
)

// hasty is a store whose guest gets other user-data as soon as somebody asks for the first.
type hasty struct {
	*memory
	once      sync.Once
	snapshots int // that were given; guarded by mu
}

func (h *hasty) given() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.snapshots
}

func (h *hasty) FeedPage(ctx context.Context, node string, since int64, generation string) (seedbed.FeedPage, error) {
	p, err := h.memory.FeedPage(ctx, node, since, generation)
	if p.Snapshot {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.snapshots++
	}
	return p, err
}

func (h *hasty) NodeBlob(ctx context.Context, node, sum string) (data []byte, err error) {
	data, err = h.memory.NodeBlob(ctx, node, sum)
	if string(data) != "second" {
		return data, err
	}
	h.once.Do(func() { h.publish(guest(1), []byte("third")) })
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "no record of %s names %s", node, sum)
}

// TestChangedMeanwhile: a document that its record does not name any more when it is asked for
// costs a question for what is newer, and no snapshot.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	dir, h, r := t.TempDir(), &hasty{memory: newMemory()}, &recorder{}
	h.publish(guest(1), []byte("first"))
	runServer(t, h, socketIn(dir))
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "the first is acknowledged", h.ackedAt(1))
	h.publish(guest(1), []byte("second"))
	eventually(t, "the third is acknowledged", h.ackedAt(3))
	if got := userData(t, r.last(), instance(1)); got != "third" {
		t.Errorf("served %q", got)
	}
	if n := h.given(); n != 1 {
		t.Errorf("%d snapshots were asked for, want the first alone", n)
	}
}

// TestDocumentLacking: of a document that is named and not there all is asked for anew, until it
// is.
func TestDocumentLacking(t *testing.T) {
	t.Parallel()
	dir, h, r := t.TempDir(), &hasty{memory: newMemory()}, &recorder{}
	runServer(t, h, socketIn(dir))
	background(t, newClient(t, socketIn(dir), dir, r).Run)
	eventually(t, "nothing is acknowledged", h.ackedAt(0))
	h.mu.Lock()
	h.theirs = map[string]bool{h.keep([]byte("lost")).SHA256: true}
	h.mu.Unlock()
	h.publish(guest(1), []byte("lost"))
	eventually(t, "a snapshot is asked for", func() bool { return h.given() > 1 })
	h.mu.Lock()
	h.theirs = nil
	h.mu.Unlock()
	eventually(t, "it is acknowledged", h.ackedAt(1))
	if got := userData(t, r.last(), instance(1)); got != "lost" {
		t.Errorf("served %q", got)
	}
}
