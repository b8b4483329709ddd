package script

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision/script/sandbox"
)

// box is a sandbox whose process is a function of the test.
type box struct {
	mu      sync.Mutex
	devices map[string]string
	busy    bool     // devices are mounted inside
	printed []string // lines that come to the output when it is drained
	output  func(stream string, line []byte)
	closed  int
	err     error // what Wait gives
	done    chan struct{}
}

func (b *box) AddDevice(path, device string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.devices[path] = device
	return nil
}

func (b *box) RemoveDevice(path string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		return seedbed.Errorf(seedbed.ErrInUse, "%s is mounted", path)
	}
	delete(b.devices, path)
	return nil
}

func (b *box) Drain(bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.printed {
		b.output("stdout", []byte(line))
	}
	b.printed = nil
}

func (b *box) Wait() error {
	<-b.done
	return b.err
}

func (b *box) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return nil
}

// ends is how often it was closed.
func (b *box) ends() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// fakeMapper is a pool's, in memory.
type fakeMapper struct {
	mu     sync.Mutex
	mapped map[string]seedbed.InstanceID
	images []string // what are no volumes
	stuck  bool     // unmapping fails
}

func (m *fakeMapper) MapVolume(_ context.Context, _ seedbed.JobID, name string, id seedbed.InstanceID) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.images, name) {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "volume %s does not exist", name)
	}
	m.mapped[name] = id
	return "/dev/loop7", nil
}

func (m *fakeMapper) UnmapVolume(_ context.Context, name string, id seedbed.InstanceID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the device does not go")
	}
	if m.mapped[name] == id {
		delete(m.mapped, name)
	}
	return nil
}

func (m *fakeMapper) MappedVolumes(id seedbed.InstanceID) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, of := range m.mapped {
		if of == id {
			names = append(names, name)
		}
	}
	return names
}

// runner is the test's side of a session: what the process in the sandbox does.
type runner struct {
	in     *bufio.Scanner
	out    *os.File
	output func(stream string, line []byte)
	box    *box
}

func (r *runner) hear() (m map[string]any) {
	if r.in.Scan() {
		_ = json.Unmarshal(r.in.Bytes(), &m)
	}
	return m
}

// print leaves a line where it is until it is asked for.
func (r *runner) print(line string) {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	r.box.printed = append(r.box.printed, line)
}

func (r *runner) say(text string) { fmt.Fprintln(r.out, text) }

// bench has sessions whose processes are play.
type bench struct {
	*Driver
	t     *testing.T
	m     *fakeMapper
	mu    sync.Mutex
	boxes []*box
	specs []sandbox.Spec
}

func newBench(t *testing.T, play func(r *runner)) *bench {
	t.Helper()
	b := &bench{t: t, m: &fakeMapper{mapped: map[string]seedbed.InstanceID{}}}
	b.Driver = New(Config{
		Mappers: map[string]Mapper{
			"default": b.m,
		}, Idle: time.Minute, Limits: sandbox.Limits{Time: time.Hour, Memory: seedbed.GiB, Output: seedbed.MiB},
		Start: func(_ context.Context, spec sandbox.Spec) (Box, error) {
			one := &box{devices: map[string]string{}, output: spec.Output, done: make(chan struct{})}
			b.mu.Lock()
			b.boxes, b.specs = append(b.boxes, one), append(b.specs, spec)
			b.mu.Unlock()
			fd, err := dup(spec.Channel)
			if err != nil {
				return nil, err
			}
			in := bufio.NewScanner(fd)
			in.Buffer(nil, maxLine)
			go func() {
				defer close(one.done)
				defer fd.Close()
				play(&runner{in: in, out: fd, output: spec.Output, box: one})
			}()
			return one, nil
		},
	})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) run(turn seedbed.ScriptTurn) (seedbed.ScriptResult, []seedbed.OutputLine, error) {
	var lines []seedbed.OutputLine
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	result, err := b.RunScript(ctx, call, turn, func(l seedbed.OutputLine) { lines = append(lines, l) })
	return result, lines, err
}

func (b *bench) must(turn seedbed.ScriptTurn) (seedbed.ScriptResult, []seedbed.OutputLine) {
	b.t.Helper()
	result, lines, err := b.run(turn)
	if err != nil {
		b.t.Fatal(err)
	}
	return result, lines
}

// dup is a copy of a file, as the sandbox makes one of the channel.
func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
