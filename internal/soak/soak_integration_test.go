//go:build integration && libvirt

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
	"seedbed/webhook/signature"
)

// usual is how long the disturbances last unless SEEDBED_SOAK_TIME says so. With SEEDBED_LONG=1 they last three times as long.
const usual = time.Minute

// senders is how many callers there are at the same time.
const senders = 6

// TestSoak disturbs a whole installation at random while callers send it webhooks and requests, and
// then compares what they were told with what is there. SEEDBED_SEED chooses the plan of the
// disturbances and of the callers, and SEEDBED_SOAK_TIME how long it lasts.
func TestSoak(t *testing.T) {
	seed, length := uint64(time.Now().UnixNano()), usual
	if sample.Long() {
		length *= 3
	}
	for name, read := range map[string]func(string) error{
		"SEEDBED_SEED":      func(v string) (err error) { seed, err = strconv.ParseUint(v, 10, 64); return err },
		"SEEDBED_SOAK_TIME": func(v string) (err error) { length, err = time.ParseDuration(v); return err },
	} {
		if v := os.Getenv(name); v != "" {
			if err := read(v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	t.Logf("SEEDBED_SEED=%d, %s", seed, length)
	r := newRun(t, seed)
	r.disturb(length)
	r.settle()
	t.Logf("%s", r.book.summary())

	// The checker sees damage: a domain that is taken away behind Seedbed's back.
	receipt, err := r.stack.API.CreateInstance(t.Context(), held("witness"))
	if err != nil {
		t.Fatal(err)
	}
	r.book.created(string(receipt.Job), "witness")
	r.settle()
	r.stack.Virsh("undefine", "witness")
	if found := Violations(r.book.ledger(), r.world()); !strings.Contains(strings.Join(found, "\n"), "witness has no domain") {
		t.Errorf("the checker does not miss a domain: %q", found)
	}
}

// run is an installation with its callers.
type run struct {
	t        *testing.T
	plan     *rand.Rand
	host     *lab.Host
	libvirtd *lab.Process
	stack    *lab.Stack
	told     *listener
	book     *book
	over     chan struct{} // closed when the callers are to end
	callers  sync.WaitGroup
}

// held is a request for an instance whose domain is not started.
func held(name string) seedbed.Request {
	hold := true
	return seedbed.Request{Name: name, Profile: "small", Hold: &hold}
}

func newRun(t *testing.T, seed uint64) *run {
	t.Helper()
	r := &run{t: t, plan: rand.New(rand.NewPCG(seed, 0)), host: lab.NewHost(t), over: make(chan struct{})}
	r.libvirtd = r.host.Libvirt()
	// A stage that is killed each time counts as attempts, of which a job has many here.
	r.stack = lab.NewStack(t, lab.StackOptions{Host: r.host, Jobs: "{lease: 2s, poll: 50ms, attempts: 100}"})
	ctx := t.Context()
	r.told = listen(t, r.host)
	if _, err := r.stack.API.AddEndpoint(ctx, wire.EndpointRequest{Name: "told", URL: r.told.url, AllowPrivate: true, Insecure: true,
		Events: []string{seedbed.EventJobAccepted, seedbed.EventJobSucceeded, seedbed.EventJobFailed, seedbed.EventJobCancelled}}); err != nil {
		t.Fatal(err)
	}
	image, err := r.stack.API.ImportImage(ctx, wire.ImageRequest{Name: "blank", Path: lab.BlankImage(t, r.stack.Dir)})
	if err != nil {
		t.Fatal(err)
	}
	if job, err := r.stack.API.WaitJob(ctx, string(image.Job), nil); err != nil || job.State != seedbed.JobSucceeded {
		t.Fatalf("import: %v, %s %s", err, job.State, job.Error)
	}
	if _, err := r.stack.API.CreateProfile(ctx, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB,
		Ready: seedbed.ReadyStarted}); err != nil {
		t.Fatal(err)
	}
	hook, err := r.stack.API.AddHook(ctx, wire.HookRequest{Name: "forge"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseSecret(hook.Secret)
	if err != nil {
		t.Fatal(err)
	}
	r.book = newBook()
	for n := range senders {
		c := &caller{run: r, name: fmt.Sprintf("s%d", n), plan: rand.New(rand.NewPCG(seed, uint64(n+1))), key: key}
		r.callers.Go(c.work)
	}
	r.callers.Go(r.observe)
	return r
}

// disturb kills and stops daemons for some time, starts them again as their units would, and then
// ends the callers.
func (r *run) disturb(length time.Duration) {
	daemons := []string{lab.Seedbedd, lab.Worker, lab.Metadata}
	counts := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(time.Duration(500+r.plan.IntN(2500)) * time.Millisecond)
		r.revive()
		n, away := r.plan.IntN(len(daemons)+1), time.Duration(r.plan.IntN(2000))*time.Millisecond
		frozen := r.plan.IntN(3) == 0
		name := "libvirtd"
		if n < len(daemons) {
			name = daemons[n]
		}
		counts[fmt.Sprintf("%s, frozen: %t", name, frozen)]++
		switch {
		case frozen && n < len(daemons):
			r.stack.Signal(name, syscall.SIGSTOP)
			time.Sleep(2 * away) // longer than a lease, at times
			r.stack.Signal(name, syscall.SIGCONT)
		case frozen:
			r.libvirtd.Cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * away)
			r.libvirtd.Cmd.Process.Signal(syscall.SIGCONT)
		case n < len(daemons):
			r.stack.Kill(name)
			time.Sleep(away)
			r.stack.Start(name)
		default:
			r.libvirtd.Kill()
			time.Sleep(away)
			r.libvirtd = r.host.Libvirt()
		}
	}
	close(r.over)
	r.t.Logf("disturbances: %v", counts)
}

// revive starts the daemons again that have ended by themselves, as those do that lack something at
// their start.
func (r *run) revive() {
	for _, name := range []string{lab.Seedbedd, lab.Worker, lab.Metadata} {
		if !r.stack.Alive(name) {
			r.t.Logf("%s ended by itself, and is started again", name)
			r.stack.Start(name)
		}
	}
}

// settle waits until everything is as it is to be. It fails the test with what is not.
func (r *run) settle() {
	r.t.Helper()
	began := time.Now()
	r.callers.Wait()
	var found []string
	for end := time.Now().Add(2 * lab.Patience); ; time.Sleep(time.Second) {
		r.revive()
		if found = Violations(r.book.ledger(), r.world()); len(found) == 0 {
			r.t.Logf("all is as it is to be after %s", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	r.t.Fatalf("%d violations:\n%s\n%s", len(found), strings.Join(found, "\n"), r.stack.Logs())
}
