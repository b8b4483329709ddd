//go:build integration && libvirt

package e2e

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/webhook/signature"

	_ "modernc.org/sqlite" // to age a database
)

// TestBadInput gives the running daemons what they must refuse: each gets one
// clear message where the user is, and nothing half made stays.
func TestBadInput(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{URI: "test:///default"})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})

	t.Run("cli", func(t *testing.T) {
		text := filepath.Join(s.Dir, "notes.txt")
		if err := os.WriteFile(text, []byte("no image at all\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		gzip := filepath.Join(s.Dir, "multi.txt")
		if err := os.WriteFile(gzip, []byte("\x1f\x8b\x08\x00 and so on"), 0o644); err != nil {
			t.Fatal(err)
		}
		nowhere := filepath.Join(s.Dir, "nowhere.img")
		for _, c := range []struct {
			name string
			args []string
			want int
			says []string
		}{
			{"no image", []string{"image", "add", "notes", text}, 1, []string{"notes.txt", "not"}},
			{"no file", []string{"image", "add", "none", nowhere}, 4, []string{"nowhere.img does not exist"}},
			{"no file, planned", []string{"image", "add", "none", nowhere, "--dry-run"}, 4, []string{"would be refused", "nowhere.img"}},
			{"a directory", []string{"image", "add", "none", "/usr"}, 4, []string{"is not a regular file"}},
			{"unknown profile", []string{"create", "vm1", "--profile", "nosuch"}, 3, []string{`"nosuch"`, "small"}},
			{"no host name", []string{"create", "Not_A_Host", "--profile", "small"}, 4, []string{"Not_A_Host", "host name"}},
			{"unknown parameter", []string{"create", "vm1", "--profile", "small", "--param", "colour=red"}, 4, []string{"colour"}},
			{"profile of an unknown image", []string{"profile", "add", "p", "--image", "nosuch"}, 4, []string{"nosuch"}},
			{"user-data that cannot be combined",
				[]string{"profile", "add", "p", "--image", "blank", "--ready", "report", "--user-data", gzip}, 4, []string{"gzip"}},
			{"unknown instance", []string{"vm", "show", "nosuch"}, 3, []string{"nosuch"}},
			{"usage", []string{"create"}, 2, []string{"NAME"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				stdout, stderr, status := s.CLI(c.args...)
				if status == 1 && strings.Count(stdout+stderr, "stage import: ") != 1 {
					t.Errorf("the reason is not said once: %s%s", stdout, stderr)
				}
				if status != c.want {
					t.Errorf("exit status %d, want %d: %s", status, c.want, stderr)
				}
				for _, word := range c.says {
					if !strings.Contains(stderr, word) {
						t.Errorf("the message does not say %q: %s", word, stderr)
					}
				}
			})
		}
		jobs, stderr, _ := s.CLI("job", "list", "-f", "json")
		if !strings.Contains(jobs, `"notes"`) || strings.Contains(jobs, `"none"`) {
			t.Errorf("want a job for the file that is there, and none for the others: %s%s", jobs, stderr)
		}
		stdout, stderr, status := s.CLI("image", "list", "-f", "json")
		if status != 0 || strings.Contains(stdout, "notes") {
			t.Errorf("after a refused import: %s%s", stdout, stderr)
		}
	})

	t.Run("webhook", func(t *testing.T) {
		forge := newSender(t, s, wire.HookRequest{Name: "forge", Profiles: []string{"small"}})
		const body = `{"action":"create","name":"hooked","profile":"small"}`
		wrong := forge
		wrong.key = []byte("another key of 32 bytes in all..")
		for _, c := range []struct {
			name string
			from sender
			id   string
			at   time.Time
			body string
			want int
		}{
			{"wrong signature", wrong, "evt_1", time.Now(), body, 401},
			{"old timestamp", forge, "evt_2", time.Now().Add(-time.Hour), body, 401},
			{"future timestamp", forge, "evt_3", time.Now().Add(time.Hour), body, 401},
			{"not JSON", forge, "evt_4", time.Now(), "name=vm", 400},
			{"unknown field", forge, "evt_5", time.Now(), `{"action":"create","name":"x","profile":"small","nmae":"y"}`, 400},
			{"profile that is not the hook's", forge, "evt_6", time.Now(), `{"action":"create","name":"x","profile":"other"}`, 403},
			{"action that is not the hook's", forge, "evt_7", time.Now(), `{"action":"remove","name":"x"}`, 403},
			{"no host name", forge, "evt_8", time.Now(), `{"action":"create","name":"-x-","profile":"small"}`, 422},
			{"too long", forge, "evt_9", time.Now(), `{"action":"` + strings.Repeat("x", 256<<10) + `"}`, 413},
		} {
			t.Run(c.name, func(t *testing.T) {
				if a := c.from.post(t, c.id, c.at, c.body); a.Status != c.want || a.Detail == "" || a.Job != "" {
					t.Errorf("answer %+v, want %d with a detail", a, c.want)
				}
			})
		}
		if vms, err := s.API.Instances(t.Context()); err != nil || len(vms) != 0 {
			t.Errorf("instances after refused deliveries: %v %v", vms, err)
		}
		first := forge.post(t, "evt_ok", time.Now(), body)
		if first.Status != 202 {
			t.Fatalf("a good one: %+v", first)
		}
		waitJob(t, s, first.Job)
		again := exec.Command(filepath.Join(lab.Root(), "examples/send-webhook.py"), forge.url, secretFile(t, forge), body)
		again.Env = append(os.Environ(), "WEBHOOK_ID=evt_ok")
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), first.Job) {
			t.Errorf("the same delivery by the example sender: %v %s, want job %s", err, out, first.Job)
		}
		if a := forge.post(t, "evt_other", time.Now(), body); a.Status != 409 || a.Job != first.Job {
			t.Errorf("a name that is taken: %+v, want 409 with the holder %s", a, first.Job)
		}
		if a := forge.post(t, "evt_ok", time.Now(), strings.Replace(body, "hooked", "hooked2", 1)); a.Status != 409 {
			t.Errorf("the same id with another body: %+v, want 409", a)
		}
		removeInstance(t, s, "hooked")
	})
}

// secretFile is a file with the sender's secret.
func secretFile(t *testing.T, h sender) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(signature.FormatSecret(h.key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFullPool fills a pool: the job says so and leaves nothing.
func TestFullPool(t *testing.T) {
	pool := filepath.Join(lab.Dir(t), "pool")
	if err := os.Mkdir(pool, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", pool, "tmpfs", 0, "size=1100m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(pool, 0) })
	s := lab.NewStack(t, lab.StackOptions{Netns: lab.Netns(t), URI: "test:///default", Pool: pool})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	ballast := filepath.Join(pool, "ballast")
	if err := exec.Command("fallocate", "-l", "1000M", ballast).Run(); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := s.CLI("create", "vm1", "--profile", "small", "--wait")
	if status != 1 || !strings.Contains(stderr, "pool") {
		t.Errorf("exit status %d: %s, want 1 and a message that names the pool", status, stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(pool, "volumes", "*")); len(files) != 0 {
		t.Errorf("left in the pool: %v", files)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := s.CLI("create", "vm1", "--profile", "small", "--wait"); status != 0 {
		t.Errorf("with room again: exit status %d: %s", status, stderr)
	}
}

// TestNoLibvirt asks for an instance while libvirt is not there.
func TestNoLibvirt(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{
		Netns: lab.Netns(t),
		URI:   "qemu+unix:///system?socket=/nonexistent/libvirt-sock",
		Jobs:  "{lease: 1s, poll: 50ms, stage_timeout: {define: 3s}}",
	})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	_, stderr, status := s.CLI("create", "vm1", "--profile", "small", "--wait")
	if status != 1 || !strings.Contains(stderr, "libvirt") {
		t.Errorf("exit status %d: %s, want 1 and a message that names libvirt", status, stderr)
	}
	if v := volumes(t, s); len(v) != 0 {
		t.Errorf("volumes are left: %v", v)
	}
	stdout, stderr, status := s.CLI("cleanup")
	if !strings.Contains(stdout+stderr, "libvirt") {
		t.Errorf("cleanup without libvirt: exit status %d: %s%s, want it to say why it does nothing", status, stdout, stderr)
	}
	stdout, _, status = s.CLI("doctor")
	if status != 1 || !strings.Contains(stdout, "libvirt") {
		t.Errorf("doctor: exit status %d:\n%s", status, stdout)
	}
}

// TestNewerDatabase starts seedbedd on a database that a newer release has written.
func TestNewerDatabase(t *testing.T) {
	s := lab.NewStack(t, lab.StackOptions{Netns: lab.Netns(t), URI: "test:///default"})
	s.Kill(lab.Seedbedd)
	path := filepath.Join(s.Dir, "seedbed.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE version SET schema = 999, min_program = 999`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(lab.Programs(t), lab.Seedbedd), "--config", s.Config)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), path) || !strings.Contains(string(out), "999") {
		t.Errorf("%v\n%s, want exit status 1 and a message that names the database and its schema", err, out)
	}
}
