package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// keepSleeper has a new keeper start a process in a directory, as a component does.
func keepSleeper(t *testing.T, file string) (dir string, p *Process) {
	t.Helper()
	k := openKeeper(t, file)
	defer k.Close()
	c := &kept{Component: "sleeper", Section: "sleep: {}"}
	if err := k.locked(c, k.expect); err != nil {
		t.Fatal(err)
	}
	dir = Dir(k)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p = Start(k, filepath.Join(dir, "log"), "sleep", "600")
	t.Cleanup(p.Kill)
	return dir, p
}

func openKeeper(t *testing.T, file string) *Keeper {
	t.Helper()
	k, err := OpenKeeper(file)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeeperDown: another process, which has the record alone, ends what was
// started, also when its start did not come to an end.
func TestKeeperDown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lab", "record.json")
	dir, p := keepSleeper(t, file)
	k := openKeeper(t, file)
	defer k.Close()
	want := []Kept{{Component: "sleeper", PIDs: []int{p.Cmd.Process.Pid}, Section: "sleep: {}"}}
	if d := cmp.Diff(want, k.Kept()); d != "" {
		t.Errorf("on record (-want +got):\n%s", d)
	}
	if err := k.Down(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	<-p.done
	if err := k.Down(); err != nil || len(k.Kept()) != 0 {
		t.Errorf("a second time: %v, %v", err, k.Kept())
	}
}

// TestKeeperAbandon: what is being started goes, what was started before stays.
func TestKeeperAbandon(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, filepath.Join(t.TempDir(), "record.json"))
	defer k.Close()
	var procs []*Process
	for _, name := range []string{"before", "now"} {
		if err := k.locked(&kept{Component: name}, k.expect); err != nil {
			t.Fatal(err)
		}
		procs = append(procs, Start(k, filepath.Join(Dir(k), "log"), "sleep", "600"))
		t.Cleanup(procs[len(procs)-1].Kill)
		t.Cleanup(func() { os.RemoveAll(k.kept[0].Dirs[0]) })
	}
	if err := k.Abandon(); err != nil {
		t.Fatal(err)
	}
	<-procs[1].done
	if !procs[0].Alive() || len(k.kept) != 1 || k.kept[0].Component != "before" {
		t.Errorf("on record: %+v", k.Kept())
	}
}

// TestKeeperSparesOthers: the number of an ended process belongs to another one now.
func TestKeeperSparesOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "record.json")
	_, p := keepSleeper(t, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identify(p.Cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	earlier := strings.ReplaceAll(string(text), id.Began, id.Began+"1")
	if earlier == string(text) {
		t.Fatalf("the record does not say when the process began:\n%s", text)
	}
	if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	k := openKeeper(t, file)
	defer k.Close()
	if err := k.Down(); err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("a process was ended that is not on record")
	}
}

// TestKeeperRefuses: what cannot be started or used says so.
func TestKeeperRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "record.json")
	k := openKeeper(t, file)
	defer k.Close()
	if _, err := OpenKeeper(file); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second keeper of the record: %v", err)
	}
	if err := k.Up("etcd"); err == nil || !strings.Contains(err.Error(), "ceph, postgres, zookeeper") {
		t.Errorf("an unknown component: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeeper(broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("a broken record: %v", err)
	}
}

// TestIdentity: a process is itself until it has ended, reaped or not.
func TestIdentity(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := identify(cmd.Process.Pid)
	if err != nil || !id.alive() {
		t.Fatalf("%+v: %v", id, err)
	}
	if err := id.stop(syscall.SIGTERM, Patience); err != nil {
		t.Error(err)
	}
	if id.alive() {
		t.Error("it lives, though it has ended")
	}
	cmd.Wait()
	if err := id.stop(syscall.SIGTERM, time.Second); err != nil {
		t.Errorf("stop what has ended: %v", err)
	}
}
