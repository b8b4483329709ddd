package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

// Backups is what a worker may do for backups.
type Backups struct {
	// Dirs are the directories of the host in which backups may be, or below which.
	Dirs []string
	// Commands are the commands that may run before a place is used, and after that.
	Commands []string
}

// commandTime is how long a command of a place may run.
const commandTime = 5 * time.Minute

// places runs the commands of places. What one call has mounted, another one uses as well, and the last of them unmounts.
type places struct {
	allowed Backups
	log     *slog.Logger

	mu   sync.Mutex
	used map[string]*mounted
}

// mounted is the state of the places that have the same commands.
type mounted struct {
	turn  chan struct{} // held while commands run
	users int           // under places.mu: who uses it, or waits for it
	ready bool          // who has the turn may use it: the commands before have run
}

// check returns ErrForbidden for what the worker's configuration does not allow.
func (p *places) check(at seedbed.BackupPlace) error {
	for _, line := range slices.Concat(at.Before, at.After) {
		if !slices.Contains(p.allowed.Commands, line) {
			return seedbed.Errorf(seedbed.ErrForbidden,
				"this host may not run %q for backups: list it in storage.backup_commands of its configuration", seedbed.Clip(line))
		}
	}
	if at.Kind != seedbed.BackupDir || !filepath.IsAbs(at.Path) { // which the place refuses
		return nil
	}
	path := filepath.Clean(at.Path)
	for _, dir := range p.allowed.Dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return nil
		}
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"this host keeps no backups in %s: expected one of storage.backup_dirs (%s), or a directory below one",
		path, strings.Join(p.allowed.Dirs, ", "))
}

// use runs the commands of a place around f. If those before fail, f is not called. An error of those after is only logged, because what f
// did is done.
func (p *places) use(ctx context.Context, at seedbed.BackupPlace, f func(context.Context) error) (err error) {
	if err := p.check(at); err != nil {
		return err
	}
	if len(at.Before)+len(at.After) == 0 {
		return f(ctx)
	}
	key := strings.Join(at.Before, "\n") + "\n\n" + strings.Join(at.After, "\n")
	m := p.enter(key)
	defer func() { p.leave(ctx, key, m, at.After) }()
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !m.ready {
		err = run(ctx, at.Before)
		m.ready = err == nil
	}
	<-m.turn
	if err != nil {
		return fmt.Errorf("before backups are used: %w", err)
	}
	return f(ctx)
}

func (p *places) enter(key string) *mounted {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.used[key]
	if m == nil {
		m = &mounted{turn: make(chan struct{}, 1)}
		p.used[key] = m
	}
	m.users++
	return m
}

// leave runs the commands after, if no other call uses the place. One that comes in the meantime waits, and begins again.
func (p *places) leave(ctx context.Context, key string, m *mounted, after []string) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	p.mu.Lock()
	m.users--
	last := m.users == 0
	p.mu.Unlock()
	if !last {
		return
	}
	// They also run for a call whose commands before have failed: some of these may have had an effect.
	if err := run(context.WithoutCancel(ctx), after); err != nil {
		p.log.Warn("a command after backups failed", "err", err)
	}
	m.ready = false
	p.mu.Lock()
	if m.users == 0 {
		delete(p.used, key)
	}
	p.mu.Unlock()
}

// run runs commands, up to the first that fails.
func run(ctx context.Context, lines []string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 {
			return seedbed.Errorf(seedbed.ErrInvalid, "a command of a backup place is empty")
		}
		_, err := command.Run(ctx, command.Command{Name: words[0], Args: words[1:], Timeout: commandTime})
		if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil {
			return seedbed.Errorf(seedbed.ErrUnavailable, "%s: %v", seedbed.Clip(line), err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", seedbed.Clip(line), err)
		}
	}
	return nil
}
