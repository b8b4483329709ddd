package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"seedbed/internal/durable"
)

// class separates events that must not be lost from those that may.
type class byte

const (
	classKey    class = 'k' // all except access records
	classAccess class = 'a'
)

// maxLine bounds one event on disk. The events of metadata and dhcp are far smaller.
const maxLine = 64 << 10

// segment is one append-only file of events, one JSON object per line.
type segment struct {
	path  string
	class class
	spool string
	n     uint64
	size  int64    // written
	sent  int64    // acknowledged
	file  *os.File // nil once the file is sealed
}

var segmentForm = regexp.MustCompile(`^([ka])-([0-9a-f]{32})-([0-9a-f]{16})\.log$`)

func segmentPath(dir string, l class, spool string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%c-%s-%016x.log", l, spool, n))
}

func createSegment(dir string, l class, spool string, n uint64) (*segment, error) {
	path := segmentPath(dir, l, spool, n)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.SyncDir(dir); err != nil {
		f.Close()
		return nil, err
	}
	return &segment{path: path, class: l, spool: spool, n: n, file: f}, nil
}

// existingSegment describes a file of an earlier process; nil if it is not a spool file.
func existingSegment(dir string, f os.DirEntry) (*segment, error) {
	m := segmentForm.FindStringSubmatch(f.Name())
	if m == nil {
		return nil, nil
	}
	info, err := f.Info()
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(m[3], 16, 64)
	if err != nil {
		return nil, err
	}
	return &segment{path: filepath.Join(dir, f.Name()), class: class(m[1][0]), spool: m[2], n: n, size: info.Size()}, nil
}

// append adds lines. After an error the file is as before, or does not accept further lines.
func (s *segment) append(lines []byte, sync bool) error {
	_, err := s.file.Write(lines)
	if err == nil && sync {
		err = s.file.Sync()
	}
	if err != nil {
		if s.file.Truncate(s.size) != nil {
			s.seal()
		}
		return err
	}
	s.size += int64(len(lines))
	return nil
}

func (s *segment) seal() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// read returns whole lines from what was not acknowledged, and where they end. Lines that are not
// JSON (a tail cut by a crash) are skipped and counted.
func (s *segment) read(most int) (lines []json.RawMessage, end int64, broken int, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	buf := make([]byte, min(s.size-s.sent, maxBatch))
	n, err := f.ReadAt(buf, s.sent)
	if err != nil && err != io.EOF {
		return nil, 0, 0, err
	}
	buf, end = buf[:n], s.sent
	for len(lines) < most && len(buf) > 0 {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			break
		}
		if line := buf[:i]; json.Valid(line) {
			lines = append(lines, line)
		} else {
			broken++
		}
		buf, end = buf[i+1:], end+int64(i)+1
	}
	if end == s.sent {
		// No line ends here: the tail was cut, or the file is damaged.
		broken++
		end = s.size
	}
	return lines, end, broken, nil
}
