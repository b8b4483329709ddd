//go:build integration && libvirt

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/webhook/signature"
)

// book is the ledger that the callers write.
type book struct {
	mu     sync.Mutex
	l      Ledger
	epochs map[seedbed.JobID]seedbed.Job // as they were last seen
}

func newBook() *book {
	return &book{epochs: map[seedbed.JobID]seedbed.Job{}, l: Ledger{Created: map[string]string{}, Deliveries: map[string][]string{},
		Cancelled: map[string]bool{}, Removed: map[string]string{}, Asked: map[string]bool{}}}
}

func (b *book) note(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

func (b *book) created(job, name string) { b.note(func() { b.l.Created[job] = name }) }
func (b *book) cancelled(job string)     { b.note(func() { b.l.Cancelled[job] = true }) }
func (b *book) asked(name string)        { b.note(func() { b.l.Asked[name] = true }) }
func (b *book) removed(name, job string) { b.note(func() { b.l.Removed[name] = job }) }
func (b *book) answered(delivery, job string) {
	b.note(func() { b.l.Deliveries[delivery] = append(b.l.Deliveries[delivery], job) })
}

// seen compares a job with how it was seen last.
func (b *book) seen(j seedbed.Job) {
	b.note(func() {
		was := b.epochs[j.ID]
		if j.Epoch < was.Epoch || was.State.Terminal() && j.State != was.State || was.Cancel && !j.Cancel {
			b.l.Backward = append(b.l.Backward, fmt.Sprintf("job %s went back from %s in epoch %d (cancel: %t) to %s in epoch %d (cancel: %t)",
				j.ID, was.State, was.Epoch, was.Cancel, j.State, j.Epoch, j.Cancel))
		}
		b.epochs[j.ID] = j
	})
}

func (b *book) ledger() Ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.l
	l.Created, l.Cancelled = maps.Clone(l.Created), maps.Clone(l.Cancelled)
	l.Removed, l.Asked = maps.Clone(l.Removed), maps.Clone(l.Asked)
	l.Deliveries, l.Backward = maps.Clone(l.Deliveries), slices.Clone(l.Backward)
	return l
}

func (b *book) summary() string {
	l := b.ledger()
	return fmt.Sprintf("%d creates, %d of them by deliveries, %d cancels and %d removals were accepted; %d jobs were seen",
		len(l.Created), len(l.Deliveries), len(l.Cancelled), len(l.Removed), len(b.epochs))
}

// observe looks at the newest jobs until the callers are to end.
func (r *run) observe() {
	for {
		select {
		case <-r.over:
			return
		case <-time.After(200 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		jobs, err := r.stack.API.Jobs(ctx, 200)
		cancel()
		if err != nil {
			continue // it is being disturbed
		}
		for _, j := range jobs {
			r.book.seen(j)
		}
	}
}

// world looks at everything that is there.
func (r *run) world() World {
	r.t.Helper()
	ctx := r.t.Context()
	w := World{Histories: map[string][]seedbed.Event{}, Domains: map[string]bool{}, Told: r.told.all()}
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatalf("%v\n%s", err, r.stack.Logs())
		}
	}
	r.stack.AwaitAPI()
	for q := (seedbed.JobQuery{Scope: seedbed.AllProjects(), Limit: 500}); ; {
		page, err := r.stack.API.ListJobs(ctx, q)
		must(err)
		for _, j := range page {
			if j.Kind == seedbed.JobCreate || j.Kind == seedbed.JobRemove {
				w.Jobs = append(w.Jobs, j)
				r.book.seen(j)
			}
		}
		if len(page) < q.Limit {
			break
		}
		last := page[len(page)-1]
		q.After = seedbed.JobCursor{Created: last.Created, ID: last.ID}
	}
	for _, j := range w.Jobs {
		history, err := r.stack.API.JobEvents(ctx, string(j.ID), 0, 0)
		must(err)
		w.Histories[string(j.ID)] = history.Events
	}
	var err error
	w.Instances, err = r.stack.API.Instances(ctx)
	must(err)
	for _, id := range strings.Fields(r.stack.Virsh("list", "--all", "--uuid")) {
		w.Domains[id] = false
	}
	for _, id := range strings.Fields(r.stack.Virsh("list", "--uuid")) {
		w.Domains[id] = true
	}
	pool := filepath.Join(r.stack.Dir, "pools", "default")
	files, err := filepath.Glob(filepath.Join(pool, "volumes", "*.qcow2"))
	must(err)
	for _, f := range files {
		w.Volumes = append(w.Volumes, strings.TrimSuffix(filepath.Base(f), ".qcow2"))
	}
	w.Unfinished, err = filepath.Glob(filepath.Join(pool, "building", "*"))
	must(err)
	return w
}

// listener is an endpoint.
type listener struct {
	url  string
	mu   sync.Mutex
	came map[string]event // by the event's ID
}

type event struct {
	Type string `json:"type"`
	Data struct {
		Job struct {
			ID string `json:"id"`
		} `json:"job"`
	} `json:"data"`
}

// listen receives events where the host reaches it.
func listen(t *testing.T, h *lab.Host) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(h.Peer, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{url: "http://" + ln.Addr().String() + "/told", came: map[string]event{}}
	server := &http.Server{Handler: http.HandlerFunc(l.receive), ReadHeaderTimeout: lab.Patience}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return l
}

func (l *listener) receive(w http.ResponseWriter, r *http.Request) {
	var e event
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[r.Header.Get(signature.HeaderID)] = e
	w.WriteHeader(http.StatusNoContent)
}

// all returns the types of the events by job.
func (l *listener) all() map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := map[string][]string{}
	for _, e := range l.came {
		told[e.Data.Job.ID] = append(told[e.Data.Job.ID], e.Type)
	}
	return told
}
