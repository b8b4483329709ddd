package feed

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

const (
	// maxBatch bounds what is read and sent at once; it fits the server's body limit.
	maxBatch = 512 << 10
	// segmentSize is the size at which a new file begins, and doneSize that at which a file whose
	// events are all sent is not appended to.
	segmentSize = 1 << 20
	doneSize    = 64 << 10
)

// journal is the files of the spool, the oldest of each process first.
type journal struct {
	dir, spool string
	most       int64 // bytes in all
	log        *slog.Logger

	mu      sync.Mutex
	segs    []*segment
	next    uint64
	dropped int64 // bytes that went unsent
}

// batch is what is sent at once. All of it is from one file.
type batch struct {
	seg   *segment
	lines []json.RawMessage
	end   int64
}

// openJournal opens the journal with the files that earlier processes left.
func openJournal(dir, spool string, most int64, log *slog.Logger) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{dir: dir, spool: spool, most: most, log: log}
	for _, f := range files {
		s, err := existingSegment(dir, f)
		if err != nil {
			return nil, err
		}
		if s != nil {
			j.segs = append(j.segs, s)
		}
	}
	slices.SortFunc(j.segs, func(a, b *segment) int {
		return cmp.Or(strings.Compare(a.spool, b.spool), cmp.Compare(a.n, b.n))
	})
	return j, nil
}

// append adds whole lines to the segment of a class. It syncs them in the class whose events must not be lost.
func (j *journal) append(l class, lines []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, err := j.active(l)
	if err != nil {
		return err
	}
	if err := s.append(lines, l == classKey); err != nil {
		return err
	}
	j.trim()
	return nil
}

func (j *journal) active(l class) (*segment, error) {
	for _, s := range j.segs {
		if s.class == l && s.file != nil {
			if s.size < segmentSize {
				return s, nil
			}
			s.seal()
			j.forget(s)
			break
		}
	}
	s, err := createSegment(j.dir, l, j.spool, j.next)
	if err != nil {
		return nil, err
	}
	j.next++
	j.segs = append(j.segs, s)
	return s, nil
}

// trim makes room. It removes the oldest access records first, and others only if no access records
// are left.
func (j *journal) trim() {
	total := int64(0)
	for _, s := range j.segs {
		total += s.size
	}
	for _, l := range []class{classAccess, classKey} {
		for i := 0; i < len(j.segs) && total > j.most; {
			s := j.segs[i]
			if s.class != l {
				i++
				continue
			}
			s.seal()
			total -= s.size
			j.dropped += s.size - s.sent
			j.log.Warn("guest events were dropped: the spool is full", "bytes", s.size-s.sent, "access", l == classAccess)
			s.sent = s.size
			j.forget(s)
		}
	}
}

// forget removes the file of s if it is sealed and sent.
func (j *journal) forget(s *segment) {
	if s.file != nil || s.sent < s.size {
		return
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.log.Warn("remove spool file", "err", err)
	}
	j.segs = slices.DeleteFunc(j.segs, func(o *segment) bool { return o == s })
}

// oldest returns the next batch to send, of at most most events; nil if everything is sent.
func (j *journal) oldest(most int) *batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range []class{classKey, classAccess} {
		for _, s := range slices.Clone(j.segs) {
			if s.class != l {
				continue
			}
			for s.sent < s.size {
				lines, end, broken, err := s.read(most)
				if err != nil {
					j.log.Error("read spool file; its events are lost", "file", s.path, "err", err)
					end = s.size
				}
				if broken > 0 {
					j.log.Warn("spool file has damaged lines", "file", s.path, "lines", broken)
				}
				if len(lines) > 0 {
					return &batch{s, lines, end}
				}
				s.sent = end
			}
			j.forget(s)
		}
	}
	return nil
}

// each reads all events in the files of a class, from their beginning.
func (j *journal) each(l class, fn func(json.RawMessage) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.segs {
		if s.class != l {
			continue
		}
		for at := (segment{path: s.path, size: s.size}); at.sent < at.size; {
			lines, end, _, err := at.read(maxEvents)
			if err != nil {
				j.log.Warn("read spool file", "file", s.path, "err", err)
				break
			}
			for _, line := range lines {
				if !fn(line) {
					return
				}
			}
			at.sent = end
		}
	}
}

// done records that a batch is acknowledged.
func (j *journal) done(b *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b.seg.sent = max(b.seg.sent, b.end)
	if b.seg.sent >= b.seg.size && b.seg.size >= doneSize {
		b.seg.seal()
	}
	j.forget(b.seg)
}

// close closes all files and removes those that are sent.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range slices.Clone(j.segs) {
		s.seal()
		j.forget(s)
	}
}

// size returns the number of bytes that wait, and of those that were dropped unsent.
func (j *journal) size() (waiting, dropped int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.segs {
		waiting += s.size - s.sent
	}
	return waiting, j.dropped
}
