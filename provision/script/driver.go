package script

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/script/python"
	"seedbed/provision/script/sandbox"
)

// Mapper maps the volumes of one pool to block devices (worker.Mapper).
type Mapper interface {
	MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (device string, err error)
	UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error
	MappedVolumes(id seedbed.InstanceID) []string
}

// Devices are the block devices that a sandbox shows.
type Devices interface {
	// AddDevice makes path inside the sandbox the host's block device.
	AddDevice(path, device string) error
	// RemoveDevice removes it; ErrInUse while it is mounted inside.
	RemoveDevice(path string) error
}

// Box is a running sandbox.
type Box interface {
	Devices
	// Drain returns when everything printed by now has been passed on. With rest, that includes a
	// line without an end.
	Drain(rest bool)
	// Wait returns when the process has ended: nil, or what ended it.
	Wait() error
	// Close ends and removes everything inside. It may be repeated.
	Close(ctx context.Context) error
}

// Config is how scripts run.
type Config struct {
	// Start starts a sandbox.
	Start func(ctx context.Context, spec sandbox.Spec) (Box, error)
	// Mappers are those of the pools, by name.
	Mappers map[string]Mapper
	// Python is the interpreter. Default /usr/bin/python3.
	Python string
	// Limits are the defaults of a script, and the most that it may ask for.
	Limits sandbox.Limits
	// Privileged is this host's consent to privileged scripts, which are root here. Node is the
	// host's name for a refusal.
	Privileged bool
	Node       string
	// Idle is how long a session lives without a turn. Default 5 min.
	Idle time.Duration
	Log  *slog.Logger
}

// closeTime bounds the closing of a session.
const closeTime = 30 * time.Second

// Driver has the sessions of this host.
type Driver struct {
	cfg      Config
	mu       sync.Mutex
	sessions map[seedbed.JobID]*session
	ends     sync.WaitGroup
}

// New makes a driver without sessions.
func New(c Config) *Driver {
	c.Python = cmp.Or(c.Python, "/usr/bin/python3")
	c.Idle = cmp.Or(c.Idle, 5*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{cfg: c, sessions: map[seedbed.JobID]*session{}}
}

// RunScript implements worker.Scripts.
func (d *Driver) RunScript(
	ctx context.Context,
	call seedbed.Call,
	turn seedbed.ScriptTurn,
	output func(seedbed.OutputLine),
) (seedbed.ScriptResult, error) {
	var s *session
	var err error
	if turn.Start != nil {
		s, err = d.begin(ctx, call, *turn.Start, output)
	} else {
		s, err = d.find(call)
	}
	if err != nil {
		return seedbed.ScriptResult{}, err
	}
	result, err := s.turn(ctx, turn, output)
	if err != nil {
		d.end(s, "its turn was cut off: "+err.Error())
		return result, err
	}
	s.rest(func() { d.end(s, "no turn came for "+d.cfg.Idle.String()) }, d.cfg.Idle)
	return result, nil
}

// find returns the session of the call's job and epoch.
func (d *Driver) find(call seedbed.Call) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[call.Job]
	if s == nil || s.call.Epoch != call.Epoch || s.closing {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "the script of job %s no longer runs here", call.Job.Short())
	}
	return s, nil
}

// begin starts a sandbox for the job, and ends an earlier one.
func (d *Driver) begin(
	ctx context.Context,
	call seedbed.Call,
	start seedbed.ScriptStart,
	output func(seedbed.OutputLine),
) (*session, error) {
	if err := d.CloseScript(ctx, call.Job, start.Instance); err != nil {
		return nil, err
	}
	s, err := d.open(ctx, call, start, output)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.sessions[call.Job] = s
	d.mu.Unlock()
	return s, nil
}

// end closes a session in the background. After its return no turn finds the session.
func (d *Driver) end(s *session, why string) {
	d.leave(s)
	d.ends.Go(func() {
		d.cfg.Log.Info("script ended", "job", s.call.Job, "reason", why)
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := d.close(ctx, s); err != nil {
			d.cfg.Log.Warn("end a script", "job", s.call.Job, "err", err)
		}
	})
}

// leave makes a session unavailable for turns.
func (d *Driver) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.closing = true
}

// close removes everything of a session. If that fails, the session is kept for the next attempt.
func (d *Driver) close(ctx context.Context, s *session) error {
	d.leave(s)
	if err := s.close(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[s.call.Job] == s {
		delete(d.sessions, s.call.Job)
	}
	return nil
}

// CloseScript implements worker.Scripts. It also removes mappings of the instance that an earlier
// process of this worker has left.
func (d *Driver) CloseScript(ctx context.Context, job seedbed.JobID, id seedbed.InstanceID) error {
	d.mu.Lock()
	s := d.sessions[job]
	d.mu.Unlock()
	if s != nil {
		if err := d.close(ctx, s); err != nil {
			return err
		}
	}
	var errs []error
	for _, m := range d.cfg.Mappers {
		for _, name := range m.MappedVolumes(id) {
			errs = append(errs, m.UnmapVolume(ctx, name, id))
		}
	}
	return errors.Join(errs...)
}

// Close ends every session.
func (d *Driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	d.mu.Lock()
	var all []*session
	for _, s := range d.sessions {
		all = append(all, s)
	}
	d.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, d.close(ctx, s))
	}
	d.ends.Wait()
	return errors.Join(errs...)
}

// Tools implements worker.Scripts.
func (d *Driver) Tools(names []string) []string {
	missing := []string{}
	for _, name := range names {
		if !onPath(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// onPath reports whether scripts find a program of that name.
func onPath(name string) bool {
	if name == "" || strings.ContainsRune(name, '/') {
		return false
	}
	for _, v := range python.Env() {
		dirs, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(dirs) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return true
			}
		}
	}
	return false
}
