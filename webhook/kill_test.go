package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/testdb"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/store"
	"seedbed/webhook"
)

// The variables that make this test its own child: the receiver on that database, and when it is
// killed: before the first commit, after it, or never.
const (
	killedVar = "SEEDBED_WEBHOOK_KILL_TEST"
	dsnVar    = "SEEDBED_WEBHOOK_KILL_DSN"
	deadlyVar = "SEEDBED_WEBHOOK_KILL_DEADLY"
)

// deadly is a store whose process is killed when a delivery is to be accepted or carried out.
type deadly struct {
	*store.DB
	when string
}

func (d deadly) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	if a.Delivery == nil {
		return d.DB.Accept(ctx, a)
	}
	return dieAt(d.when, func() (seedbed.Receipt, error) { return d.DB.Accept(ctx, a) })
}

func (d deadly) CreateNetwork(ctx context.Context, n seedbed.Network) (seedbed.Network, error) {
	return dieAt(d.when, func() (seedbed.Network, error) { return d.DB.CreateNetwork(ctx, n) })
}

func (d deadly) ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (seedbed.Network, error) {
	return dieAt(d.when, func() (seedbed.Network, error) { return d.DB.ChangeNetwork(ctx, name, change) })
}

func (d deadly) DeleteNetwork(ctx context.Context, name string, checks ...func(seedbed.Network) error) error {
	_, err := dieAt(d.when, func() (struct{}, error) { return struct{}{}, d.DB.DeleteNetwork(ctx, name, checks...) })
	return err
}

// dieAt commits something, and kills the process before or after that, or never.
func dieAt[T any](when string, commit func() (T, error)) (v T, err error) {
	if when != "before" {
		if v, err = commit(); err != nil || when == "never" {
			return v, err
		}
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// receive is the child: it says where it listens, and ends with its input.
func receive(t *testing.T, at store.Config) {
	db, err := store.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	requests := provision.NewIntake(deadly{db, os.Getenv(deadlyVar)}, intake.Serving{Node: "host1"})
	if all, err := db.Hooks(t.Context()); err == nil && len(all) == 0 {
		furnish(t, db, requests)
		(&installation{db: db}).change(t, func(h *seedbed.Hook) { h.Actions = seedbed.Actions() })
		_, err := db.CreateNetwork(t.Context(), seedbed.Network{Name: "spare", Bridge: "spare0", MAC: seedbed.NewMAC(),
			Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")})
		if err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := webhook.Config{Hooks: db, History: db, Jobs: db, Intake: requests, Log: slog.New(slog.DiscardHandler)}
	c.Networks = networksOf(db)
	c.Networks.Store = deadly{db, os.Getenv(deadlyVar)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("listening on", ln.Addr())
	if err := webhook.New(c).Serve(ctx, ln); err != nil {
		t.Fatal(err)
	}
}

// A receiver that is killed after the commit and before the answer has the job, or has changed the network; the
// sender, who knows of nothing, sends again and gets that one. Killed before the commit, it has answered
// nothing and has nothing.
func TestKilled(t *testing.T) {
	if path := os.Getenv(killedVar); path != "" {
		receive(t, store.Config{Path: path, DSN: os.Getenv(dsnVar), Log: slog.New(slog.DiscardHandler)})
		return
	}
	for _, when := range []string{"before", "after"} {
		for what, body := range map[string]string{
			"a job":        create("web1"),
			"a network":    `{"action":"network-add","name":"lab","network":{"prefix":"10.130.0.0/24"}}`,
			"its settings": `{"action":"network-set","name":"spare","network":{"description":"of a ticket"}}`,
			"its end":      `{"action":"network-remove","name":"spare"}`,
		} {
			t.Run(what+" "+when+" the commit", func(t *testing.T) {
				t.Parallel()
				killed(t, when, body)
			})
		}
	}
}

// furnished is how many jobs and networks a receiver begins with.
const furnished = 3

func killed(t *testing.T, when, body string) {
	at := testdb.Empty(t)
	run := func(deadly string) (url string, end func() error) {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), killedVar+"="+at.Path, dsnVar+"="+at.DSN, deadlyVar+"="+deadly)
		in, err1 := child.StdinPipe()
		out, err2 := child.StdoutPipe()
		if err := child.Start(); err != nil || err1 != nil || err2 != nil {
			t.Fatal(err, err1, err2)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				go io.Copy(io.Discard, out)
				return "http://" + addr + "/hooks/ci", func() error { in.Close(); return child.Wait() }
			}
		}
		t.Fatalf("the child did not start: %v", child.Wait())
		return "", nil
	}
	made := func() (n int) {
		t.Helper()
		db, err := store.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		jobs, err1 := db.Jobs(t.Context(), 10)
		networks, err2 := db.Networks(t.Context())
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for _, network := range networks {
			if network.Description != "" {
				n++
			}
		}
		return max(n+len(jobs)+len(networks)-furnished, furnished-n-len(jobs)-len(networks))
	}
	url, end := run(when)
	if _, err := post(t, &http.Client{}, url, "msg_1", body); err == nil {
		t.Fatal("the dead receiver answered")
	}
	if err := end(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the receiver ended with %v, want killed", err)
	}
	committed := when == "after"
	if n := made(); (n == 1) != committed || (n == 0) == committed {
		t.Errorf("%d changes after it was killed", n)
	}
	url, end = run("never")
	client := newClient(t)
	res, err := post(t, client, url, "msg_1", body)
	if err != nil || res.Duplicate != committed || (res.status != 202 || res.Job == "") && (res.status != 200 || res.Decision != "done") {
		t.Errorf("sent again: %+v, %v; want what was made, as a duplicate: %t", res, err, committed)
	}
	client.CloseIdleConnections()
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := made(); n != 1 {
		t.Errorf("%d changes, want one", n)
	}
}
