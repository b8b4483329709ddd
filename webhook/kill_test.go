package webhook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision"
	"seedbed/store"
	"seedbed/webhook"
)

// The variables that make this test its own child: the receiver on that
// database, and whether it dies of the first commit.
const (
	killedVar = "SEEDBED_WEBHOOK_KILL_TEST"
	deadlyVar = "SEEDBED_WEBHOOK_KILL_DEADLY"
)

// deadly is an intake that is killed between the commit and the answer.
type deadly struct{ *provision.Intake }

func (d deadly) Submit(ctx context.Context, r seedbed.Request, e *seedbed.Delivery) (seedbed.Receipt, error) {
	if _, err := d.Intake.Submit(ctx, r, e); err != nil {
		return seedbed.Receipt{}, err
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// receive is the child: it says where it listens, and ends with its input.
func receive(t *testing.T, path string) {
	db, err := store.Open(t.Context(), store.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	intake := provision.NewIntake(db, provision.Serving{Node: "host1"})
	if all, err := db.Hooks(t.Context()); err == nil && len(all) == 0 {
		furnish(t, db, intake)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := webhook.Config{Hooks: db, History: db, Jobs: db, Intake: intake, Log: slog.New(slog.DiscardHandler)}
	if os.Getenv(deadlyVar) != "" {
		c.Intake = deadly{intake}
	}
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

// A receiver that is killed after the commit and before the answer has the job;
// the sender, who knows of nothing, sends again and gets that one.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	if path := os.Getenv(killedVar); path != "" {
		receive(t, path)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	run := func(deadly string) (url string, end func() error) {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledBetweenCommitAndAnswer$")
		child.Env = append(os.Environ(), killedVar+"="+path, deadlyVar+"="+deadly)
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
	url, end := run("yes")
	if _, err := post(t, &http.Client{}, url, "msg_1", create("web1")); err == nil {
		t.Fatal("the dead receiver answered")
	}
	if err := end(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the receiver ended with %v, want killed", err)
	}
	url, end = run("")
	client := newClient(t)
	res, err := post(t, client, url, "msg_1", create("web1"))
	if err != nil || res.status != 202 || !res.Duplicate || res.Job == "" {
		t.Errorf("sent again: %+v, %v; want the job as a duplicate", res, err)
	}
	client.CloseIdleConnections()
	if err := end(); err != nil {
		t.Error(err)
	}
	db, err := store.Open(t.Context(), store.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if all, err := db.Jobs(t.Context(), 10); err != nil || len(all) != 2 || all[0].ID != res.Job {
		t.Errorf("jobs %+v (%v), want the import and one create", all, err)
	}
}
