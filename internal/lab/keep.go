package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Keeper is the T of a program that leaves running what it started. What it
// makes is on record in a file before it is used, so that it can be taken down
// later, by another process and also after a crash. One process uses a record
// at a time.
type Keeper struct {
	file string
	lock *os.File

	mu   sync.Mutex
	kept []*kept
	cur  *kept // the one that is being started
}

// kept is the record of one component.
type kept struct {
	Component string
	Ready     bool   // it was started to the end
	Where     string // for a person
	Section   string // of seedbed.yaml
	Pool      string // that libvirt may hold a key for
	Dirs      []string
	Processes []started
}

// OpenKeeper reads the record, which need not be there.
func OpenKeeper(file string) (*Keeper, error) {
	k := &Keeper{file: file}
	var err error
	if err = os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if k.lock, err = os.Open(filepath.Dir(file)); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(k.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s is in use: another process starts or stops the lab", file)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &k.kept)
	}
	if err != nil {
		return nil, fmt.Errorf("the lab's record %s: %w", file, err)
	}
	return k, nil
}

// Close lets others use the record.
func (k *Keeper) Close() error {
	// Closing the file leaves the lock to a child that has been forked and has not executed its program yet.
	return errors.Join(syscall.Flock(int(k.lock.Fd()), syscall.LOCK_UN), k.lock.Close())
}

// save writes the record; the caller holds mu.
func (k *Keeper) save() error {
	text, err := json.MarshalIndent(k.kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.file+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(k.file+".new", k.file)
}

// mkdir makes a directory on record.
func (k *Keeper) mkdir() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir, err := os.MkdirTemp(dirRoot, dirPrefix)
	if err != nil {
		return "", err
	}
	k.cur.Dirs = append(k.cur.Dirs, dir)
	return dir, k.save()
}

// begin starts a process on record, which the terminal's signals do not reach.
func (k *Keeper) begin(cmd *exec.Cmd) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	id, err := identify(cmd.Process.Pid)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	k.cur.Processes = append(k.cur.Processes, id)
	return k.save()
}

// Helper does nothing: a program has no line to report.
func (k *Keeper) Helper() {}

// Cleanup does nothing: what was started stays.
func (k *Keeper) Cleanup(func()) {}

// fatal is what ends the start of a component.
type fatal string

// Fatal gives the component up that is being started.
func (k *Keeper) Fatal(args ...any) { panic(fatal(strings.TrimSpace(fmt.Sprintln(args...)))) }

// Fatalf is Fatal with a format.
func (k *Keeper) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

// remove ends what is on record of a component; the caller holds mu.
func (k *Keeper) remove(c *kept) error {
	if c.Pool != "" {
		forgetSecret(c.Pool)
	}
	// PostgreSQL's children end with it by this signal, as they do not by SIGKILL.
	sig := syscall.SIGKILL
	if c.Component == "postgres" {
		sig = syscall.SIGQUIT
	}
	var problems []error
	for _, p := range c.Processes {
		problems = append(problems, p.stop(sig, Patience))
	}
	for _, dir := range c.Dirs {
		if strings.HasPrefix(filepath.Base(dir), dirPrefix) {
			problems = append(problems, os.RemoveAll(dir))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("stop %s: %w", c.Component, err)
	}
	for i, other := range k.kept {
		if other == c {
			k.kept = append(k.kept[:i:i], k.kept[i+1:]...)
			break
		}
	}
	if len(k.kept) == 0 {
		return os.Remove(k.file)
	}
	return k.save()
}
