package lab

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The daemons of a stack.
const (
	Seedbedd = "seedbedd"
	Worker   = "seedbed-worker"
	Metadata = "seedbed-metadata"
)

// Daemons are Seedbed's on one host.
type Daemons struct {
	Dir    string // data directory; everything of theirs is below it
	Config string // their configuration file

	shell
	names []string // in the order in which they start
	mu    *sync.Mutex
	proc  map[string]*Process
}

func newDaemons(t testing.TB, at place, dir string, names ...string) Daemons {
	return Daemons{Dir: dir, Config: filepath.Join(dir, "seedbed.yaml"), shell: shell{t, at}, names: names, mu: new(sync.Mutex),
		proc: map[string]*Process{}}
}

// Start starts one daemon.
func (d *Daemons) Start(name string) {
	d.t.Helper()
	p := d.at.start(filepath.Join(d.Dir, name+".log"), filepath.Join(Programs(d.t), name), "--config", d.Config)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proc[name] = p
}

// Kill ends one daemon with SIGKILL.
func (d *Daemons) Kill(name string) { d.process(name).Kill() }

// Stop ends one daemon in an orderly way, and waits for its end.
func (d *Daemons) Stop(name string) { d.process(name).Stop(syscall.SIGTERM) }

// Signal sends a signal to one daemon.
func (d *Daemons) Signal(name string, sig syscall.Signal) { d.process(name).Cmd.Process.Signal(sig) }

// Alive reports whether one daemon still runs.
func (d *Daemons) Alive(name string) bool { return d.process(name).Alive() }

// Log is all that one daemon has written.
func (d *Daemons) Log(name string) string { return d.process(name).Output() }

// Logs are the ends of the daemons' outputs, for messages.
func (d *Daemons) Logs() string {
	var all string
	for _, name := range d.names {
		if p := d.process(name); p != nil {
			all += "--- " + name + "\n" + p.Tail()
		}
	}
	return all
}

func (d *Daemons) process(name string) *Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proc[name]
}

// stop ends those that run, and shows their logs of a test that has failed.
func (d *Daemons) stop() {
	if d.t.Failed() {
		d.t.Log(d.Logs())
	}
	for _, name := range d.names {
		if p := d.process(name); p != nil {
			p.Stop(syscall.SIGTERM)
		}
	}
}
