package feed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
)

// SpoolConfig configures a Spool. All fields except Remotes and MaxBytes must be set.
type SpoolConfig struct {
	// Socket is the path of seedbedd's feed socket, unless there are Remotes.
	Socket string
	// Remotes are the control hosts that serve the feed over TLS, tried in turn.
	Remotes []Remote
	// Node is the name of this node.
	Node string
	// Dir is the state directory; the spool is in its subdirectory "spool".
	Dir string
	// MaxBytes bounds the spool on disk; zero means 64 MiB.
	MaxBytes seedbed.Bytes
	Log      *slog.Logger
}

const (
	queueKey    = 4096
	queueAccess = 8192
	accessEvery = 500 * time.Millisecond
)

// ErrSpoolClosed is what AddDurable returns once Run has ended.
var ErrSpoolClosed = errors.New("the spool is closed")

// Spool stores the events of guests until seedbedd has them.
type Spool struct {
	cfg     SpoolConfig
	journal *journal
	up      *upstream

	key    chan queued
	access chan seedbed.GuestEvent
	more   chan struct{} // something was written
	ended  chan struct{}
	seq    int64

	lost atomic.Int64 // events that never reached the disk
	sent atomic.Int64
}

type queued struct {
	event seedbed.GuestEvent
	// done receives the outcome once the event is on disk; nil if no caller waits.
	done chan error
}

// SpoolStats is a snapshot for metrics and health.
type SpoolStats struct {
	// Sent counts events that were acknowledged, Lost those dropped before they reached the disk.
	Sent, Lost int64
	// Waiting and Dropped are bytes on disk: to be sent, and dropped unsent because of MaxBytes.
	Waiting, Dropped seedbed.Bytes
}

// OpenSpool opens the spool under cfg.Dir, with what earlier processes left there.
func OpenSpool(cfg SpoolConfig) (*Spool, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 64 * seedbed.MiB
	}
	var id [16]byte
	rand.Read(id[:])
	j, err := openJournal(filepath.Join(cfg.Dir, "spool"), hex.EncodeToString(id[:]), int64(cfg.MaxBytes), cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return &Spool{cfg: cfg, journal: j, up: newUpstream(cfg.Socket, cfg.Remotes), key: make(chan queued, queueKey),
		access: make(chan seedbed.GuestEvent, queueAccess), more: make(chan struct{}, 1), ended: make(chan struct{})}, nil
}

// Add adds an event, assigns its Seq, and never blocks. Under overload, events are dropped and
// counted, access records long before others.
func (s *Spool) Add(e seedbed.GuestEvent) {
	ok := false
	if e.Kind == seedbed.GuestAccess {
		select {
		case s.access <- e:
			ok = true
		default:
		}
	} else {
		select {
		case s.key <- queued{event: e}:
			ok = true
		default:
		}
	}
	if !ok {
		s.lost.Add(1)
	}
}

// AddDurable adds an event and returns once it is on disk, or an error if it is not.
func (s *Spool) AddDurable(ctx context.Context, e seedbed.GuestEvent) error {
	q := queued{e, make(chan error, 1)}
	select {
	case s.key <- q:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		return ErrSpoolClosed
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		select {
		case err := <-q.done: // it was among the last
			return err
		default:
			return ErrSpoolClosed
		}
	}
}

// Posted returns the reports and passwords on disk, including those of earlier processes. seedbedd
// may or may not have them.
func (s *Spool) Posted() iter.Seq[seedbed.GuestEvent] {
	return func(yield func(seedbed.GuestEvent) bool) {
		s.journal.each(classKey, func(line json.RawMessage) bool {
			var e seedbed.GuestEvent
			if err := json.Unmarshal(line, &e); err != nil || e.Kind != seedbed.GuestReport && e.Kind != seedbed.GuestPassword {
				return true
			}
			return yield(e)
		})
	}
}

// Stats returns a snapshot of the spool's state.
func (s *Spool) Stats() SpoolStats {
	waiting, dropped := s.journal.size()
	return SpoolStats{Sent: s.sent.Load(), Lost: s.lost.Load(), Waiting: seedbed.Bytes(waiting), Dropped: seedbed.Bytes(dropped)}
}

// Run writes and sends events until ctx ends. Then it writes what was added so far and returns nil.
// It must be called only once.
func (s *Spool) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	sending.Go(func() { s.send(ctx) })
	s.write(ctx)
	sending.Wait()
	s.journal.close()
	s.up.close()
	return nil
}

// write moves events from the queues to disk.
func (s *Spool) write(ctx context.Context) {
	defer close(s.ended)
	tick := time.NewTicker(accessEvery)
	defer tick.Stop()
	var again []queued // could not be written yet
	for {
		select {
		case q := <-s.key:
			again = s.writeKey(append(again, q))
		case <-tick.C:
			again = s.writeKey(again)
			s.writeAccess()
		case <-ctx.Done():
			s.writeKey(again)
			s.writeAccess()
			return
		}
	}
}

// writeKey writes batch and everything else that is queued, and answers waiting callers. If the
// write fails, it returns the events that no caller waits for, to be retried.
func (s *Spool) writeKey(batch []queued) (again []queued) {
	for len(batch) < 2*queueKey {
		select {
		case q := <-s.key:
			batch = append(batch, q)
			continue
		default:
		}
		break
	}
	if len(batch) == 0 {
		return nil
	}
	events := make([]seedbed.GuestEvent, len(batch))
	for i, q := range batch {
		events[i] = q.event
	}
	err := s.put(classKey, events)
	if err != nil {
		s.cfg.Log.Error("write guest events", "events", len(batch), "err", err)
	}
	for _, q := range batch {
		if q.done != nil {
			q.done <- err
		} else if err != nil {
			again = append(again, q)
		}
	}
	if n := len(again) - queueKey; n > 0 {
		s.lost.Add(int64(n))
		again = again[n:]
	}
	return again
}

func (s *Spool) writeAccess() {
	var events []seedbed.GuestEvent
	for n := len(s.access); n > 0; n-- {
		events = append(events, <-s.access)
	}
	if len(events) == 0 {
		return
	}
	if err := s.put(classAccess, events); err != nil {
		s.lost.Add(int64(len(events)))
		s.cfg.Log.Error("write access records", "events", len(events), "err", err)
	}
}

// put writes events as lines, in chunks of suitable size for a file.
func (s *Spool) put(l class, events []seedbed.GuestEvent) error {
	var lines []byte
	for i, e := range events {
		s.seq++
		e.Seq = s.seq
		line, err := json.Marshal(e)
		if err != nil || len(line) > maxLine {
			s.lost.Add(1)
			s.cfg.Log.Error("guest event cannot be kept", "instance", string(e.Instance), "kind", e.Kind, "bytes", len(line), "err", err)
			continue
		}
		lines = append(append(lines, line...), '\n')
		if l == classAccess && len(lines) >= maxBatch && i < len(events)-1 {
			if err := s.journal.append(l, lines); err != nil {
				return err
			}
			lines = lines[:0]
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := s.journal.append(l, lines); err != nil {
		return err
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}
