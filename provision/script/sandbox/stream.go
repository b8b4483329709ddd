package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stream splits the output of one pipe into lines. It has two readers: follow waits for more output,
// and drain reads what is in the pipe now.
type stream struct {
	out  *output
	name string
	file *os.File

	mu  sync.Mutex // held from a read until its lines are handed over
	buf []byte     // what has been read and is no whole line yet
}

func newStream(o *output, name string, file *os.File) *stream {
	return &stream{out: o, name: name, file: file, buf: make([]byte, 0, 16*longest)}
}

// follow reads everything until all writers have closed the pipe.
func (s *stream) follow() {
	pipe, err := s.file.SyscallConn()
	for err == nil {
		var got error
		err = pipe.Read(func(fd uintptr) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, got = s.pull(reader(fd), cap(s.buf))
			return !errors.Is(got, unix.EAGAIN)
		})
		if err == nil {
			err = got
		}
	}
	s.mu.Lock()
	s.rest(len(s.buf))
	s.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		s.out.note(fmt.Sprintf("%s was not read to its end: %v", s.name, err))
	}
}

// drain reads only what the pipe holds now, so that a program that continues to print cannot delay
// it. With rest, an incomplete line counts as a line.
func (s *stream) drain(rest bool) {
	pipe, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	// An error means that the pipe is closed. Then follow has read everything.
	_ = pipe.Control(func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for n := 0; err == nil && left > 0; left -= n {
			n, err = s.pull(reader(fd), left)
		}
		if rest {
			s.rest(runeEnd(s.buf))
		}
	})
}

// pull reads once, at most so many bytes, and passes on the complete lines.
func (s *stream) pull(read func([]byte) (int, error), most int) (int, error) {
	room := s.buf[len(s.buf):cap(s.buf)]
	n, err := read(room[:min(len(room), most)])
	s.buf = s.buf[:len(s.buf)+n]
	rest := s.buf
	for {
		line, after, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok && len(rest) > longest {
			cut := runeEnd(rest[:longest])
			line, after, ok = rest[:cut], rest[cut:], true
		}
		if !ok {
			break
		}
		s.out.line(s.name, line)
		rest = after
	}
	s.buf = s.buf[:copy(s.buf, rest)]
	return n, err
}

// rest passes on an incomplete line.
func (s *stream) rest(n int) {
	if n > 0 {
		s.out.line(s.name, s.buf[:n])
		s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	}
}

// reader reads from a descriptor that does not block.
func reader(fd uintptr) func([]byte) (int, error) {
	return func(p []byte) (int, error) {
		for {
			n, err := unix.Read(int(fd), p)
			switch {
			case err == unix.EINTR:
			case err != nil:
				return 0, err
			case n == 0:
				return 0, io.EOF
			default:
				return n, nil
			}
		}
	}
}
