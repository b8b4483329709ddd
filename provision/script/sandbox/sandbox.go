package sandbox

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"seedbed"
)

// DefaultUIDs is the first outside user id of the ranges that sandboxes get: the one above those
// that systemd assigns to containers.
const DefaultUIDs = 1879048192

// span is how many user and group ids one sandbox has, and ranges how many sandboxes may exist at
// once.
const (
	span   = 65536
	ranges = 1024
)

// Config is what all sandboxes of a host share.
type Config struct {
	// Dir is the directory with one small record for each live sandbox. Only root can read it. It
	// is created if missing.
	Dir string
	// UIDs is the first user and group id outside; sandbox n has the 65536 from UIDs+65536n.
	// Nothing else on the host may use them. Zero means DefaultUIDs.
	UIDs uint32
	// Show are further host directories or files that a sandbox sees read-only, in addition to
	// those of the system. Hide are those that it does not see although they are below a visible
	// one.
	Show, Hide []string
	// Log receives what the worker should know about a sandbox, but never its output.
	Log *slog.Logger
}

// Limits bound what one sandbox may use. A zero field means the default.
type Limits struct {
	// CPUs is how many processors' time it may take; 2 by default.
	CPUs float64
	// Memory bounds the memory of its processes and of its files in memory together; 2 GiB by
	// default.
	Memory seedbed.Bytes
	// Processes is how many processes and threads it may have at once; 512 by default.
	Processes int
	// Time is how long it may exist; an hour by default.
	Time time.Duration
	// Output is how much it may print before the rest is dropped; 16 MiB by default.
	Output seedbed.Bytes
	// Tmp is the size of its scratch space: /tmp, /var/tmp, /mnt, /run and /dev/shm together; 1 GiB
	// by default.
	Tmp seedbed.Bytes
}

func (l Limits) orDefaults() Limits {
	def(&l.CPUs, 2)
	def(&l.Memory, 2*seedbed.GiB)
	def(&l.Processes, 512)
	def(&l.Time, time.Hour)
	def(&l.Output, 16*seedbed.MiB)
	def(&l.Tmp, seedbed.GiB)
	return l
}

func def[T int | float64 | seedbed.Bytes | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// The streams of output lines.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	// Notes are the sandbox's own lines: what the broker refused and why.
	Notes = "sandbox"
)

// Spec describes one sandbox.
type Spec struct {
	// ID names it, its cgroup and its record: the job's id.
	ID string
	// Argv is the program, an absolute path inside, and its arguments; Env its whole environment.
	Argv, Env []string
	// Files are shown read-only below /run/seedbed, under their names; a name may hold slashes.
	Files map[string][]byte
	// Channel becomes file descriptor 3 of the program; nil means none. The caller closes its own
	// copy after Start.
	Channel *os.File
	// Output is called with each printed line, without the line break, valid UTF-8 and at most 4
	// KiB, and with the sandbox's Notes. Calls do not overlap. It must not block for long.
	Output func(stream string, line []byte)
	// Limits bounds it.
	Limits Limits
	// Network gives it the host's network; otherwise it has only a loopback interface of its own.
	Network bool
	// Privileged removes the isolation: real root, with the host's /dev, /sys and /run.
	Privileged bool
}

var goodID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (s Spec) check() error {
	switch {
	case !goodID.MatchString(s.ID):
		return seedbed.Errorf(seedbed.ErrInvalid, "sandbox id %q: expected letters, digits, dots, dashes, at most 64", s.ID)
	case len(s.Argv) == 0 || !filepath.IsAbs(s.Argv[0]):
		return seedbed.Errorf(seedbed.ErrInvalid, "sandbox %s: expected the program's absolute path", s.ID)
	case s.Output == nil:
		return seedbed.Errorf(seedbed.ErrInvalid, "sandbox %s: nothing receives its output", s.ID)
	}
	for name := range s.Files {
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
			return seedbed.Errorf(seedbed.ErrInvalid, "sandbox %s: file name %q: expected a clean relative path", s.ID, name)
		}
	}
	return nil
}

// Host makes sandboxes. It is safe for concurrent use.
type Host struct {
	cfg Config
	// places finds where cgroups may be made.
	places func() (map[string]place, error)
	mu     sync.Mutex
	// live holds the range of each live sandbox by its id.
	live map[string]int
}

// Open prepares the host for sandboxes. It does not remove what a dead worker left. Sweep does
// that, and should run before the first Start.
func Open(cfg Config) (*Host, error) {
	if cfg.UIDs == 0 {
		cfg.UIDs = DefaultUIDs
	}
	if cfg.UIDs < span || cfg.UIDs > 1<<32-1-ranges*span {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"sandbox user ids from %d: expected a number between %d and %d", cfg.UIDs, span, uint32(1<<32-1-ranges*span))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the sandbox directory: %w", err)
	}
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("close the sandbox directory to others: %w", err)
	}
	return &Host{cfg: cfg, places: hierarchies, live: map[string]int{}}, nil
}

// take claims the id and the lowest free range of user ids for it.
func (h *Host) take(id string) (base uint32, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.live[id]; ok {
		return 0, seedbed.Errorf(seedbed.ErrExists, "sandbox %s exists already", id)
	}
	used := map[int]bool{}
	for _, n := range h.live {
		used[n] = true
	}
	for n := range ranges {
		if !used[n] {
			h.live[id] = n
			return h.cfg.UIDs + uint32(n)*span, nil
		}
	}
	return 0, seedbed.Errorf(seedbed.ErrFull, "%d sandboxes live already", ranges)
}

func (h *Host) release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, id)
}

func (h *Host) lives(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.live[id]
	return ok
}
