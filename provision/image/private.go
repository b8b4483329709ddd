package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// Private is a file that contains a source's disk and does not change while an image is made from
// it. It also has the source's digest if that is known: for an upload or a copy, which was read as
// a whole, and for an import that must have a certain digest.
type Private struct {
	file *os.File
	// shared is set for the source's own file, as opposed to a copy.
	shared bool
	source *Source
	sum    string
	// The following fields are for a frozen file.
	digest bool         // it is computed during the import, to be compared
	done   atomic.Int64 // bytes hashed so far
	stop   context.CancelCauseFunc
	hashed chan struct{} // closed once sum is known, or err
	read   chan struct{} // closed once the file is no longer needed
	ended  chan struct{} // closed once guard has returned
	err    error
}

// Private checks the source (Look) and returns its data in a file that no other process can change.
// That is the file itself if it was uploaded and is the disk as a whole, because only we write to
// it, or if it can be frozen; otherwise a copy in dir, in a file that has no name and disappears when
// it is closed. Before anything is copied, need is called with the space that the copy takes; an
// error of need is returned. ctx must end with the import. See Copy for other errors.
func (s *Source) Private(
	ctx context.Context,
	dir string,
	need func(seedbed.Bytes) error,
	progress func(seedbed.Progress),
) (context.Context, *Private, error) {
	frozen := s.spec.Upload == "" && s.freeze()
	if err := s.Look(ctx); err != nil || frozen && s.archive != nil {
		thaw(s.file)
		if err != nil {
			return ctx, nil, err
		}
	}
	switch {
	case s.archive != nil: // the disk is only a part of the file
	case s.spec.Upload != "":
		return ctx, &Private{file: s.file, shared: true, source: s, sum: s.spec.SHA256}, nil
	case frozen:
		p := &Private{
			file: s.file, shared: true, source: s, digest: s.spec.SHA256 != "", hashed: make(chan struct{}), read: make(chan struct{}),
			ended: make(chan struct{}),
		}
		ctx, p.stop = context.WithCancelCause(ctx)
		go p.guard(ctx)
		return ctx, p, nil
	}
	if err := need(min(s.Size, s.Allocated)); err != nil {
		return ctx, nil, err
	}
	dst, err := unnamed(dir)
	if err != nil {
		return ctx, nil, fmt.Errorf("make a private copy: %w", err)
	}
	s.copied = true
	sum, err := s.Copy(ctx, dst, progress)
	if err != nil {
		return ctx, nil, errors.Join(err, dst.Close())
	}
	return ctx, &Private{file: dst, source: s, sum: sum}, nil
}

// unnamed creates a file without a name. Only for a moment does it have one, by which a pool in a
// directory finds what a crash leaves.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "seedbed-*.part")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Path is a path by which programs that root starts can open the file, even if it has no name
// (proc_pid_fd(5)).
func (p *Private) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd()) }

// Written returns the progress of the import when that share of the image is written. The digest
// may be further behind.
func (p *Private) Written(percent float64) seedbed.Progress {
	q := p.source.written(percent)
	if p.digest {
		q.Done = min(q.Done, seedbed.Bytes(p.done.Load()))
	}
	return q
}

// Digest returns the SHA-256 digest of the source, or "" if it is not known. It is called once,
// when everything is read. If it returns an error (ErrInvalid with a predicate of the file), what
// was read must not be used. It calls waiting from time to time until the digest is known.
func (p *Private) Digest(waiting func()) (string, error) {
	if p.stop == nil {
		return p.sum, nil
	}
	p.awaitDigest(waiting)
	close(p.read)
	<-p.ended
	if p.err == nil && !leased(p.file) {
		p.err = errChanged
	}
	thaw(p.file) // changes no longer matter
	return p.sum, p.err
}

func (p *Private) awaitDigest(waiting func()) {
	tick := time.NewTicker(digestTick)
	defer tick.Stop()
	for {
		select {
		case <-p.hashed:
			return
		case <-tick.C:
			waiting()
		}
	}
}

// Close closes the file. Processes that wait to write to it continue.
func (p *Private) Close() error {
	if p.stop != nil {
		p.stop(context.Canceled)
		<-p.ended
		thaw(p.file)
	}
	if p.shared {
		return nil
	}
	return p.file.Close()
}

// Cause returns why an operation on the file ended with err: errChanged if another process was
// about to write to the file.
func Cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errChanged) {
		return cause
	}
	return err
}

// errChanged ends the import of a file that another process opens for writing.
var errChanged = seedbed.Errorf(seedbed.ErrInvalid, "changed while it was read: no process may write to it")

// digestTick is the interval of progress reports while waiting for a digest.
const digestTick = 200 * time.Millisecond

// leaseLook is the interval at which a frozen file is polled for processes that want to write to
// it, which wait for that time.
const leaseLook = 50 * time.Millisecond

// freeze asks the kernel to keep all processes from changing the file, with a read lease (fcntl(2),
// F_SETLEASE): no process has it open for writing, and a process that opens it for writing or
// truncates it waits until the lease is released, for at most a time that the host sets
// (proc_sys_fs(5), lease-break-time). It reports whether it succeeded. It cannot while a process
// has the file open for writing, nor on a file system to which other hosts may write.
func (s *Source) freeze() bool {
	if !local(s.file) {
		return false
	}
	if _, err := unix.FcntlInt(s.file.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	st, err := s.file.Stat()
	if err != nil || seedbed.Bytes(st.Size()) != s.Size { // changed since it was opened
		thaw(s.file)
		return false
	}
	return true
}

// thaw releases the lease, if there is one.
func thaw(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // EAGAIN without one
}

// counter counts the bytes written to it.
type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// guard ends the import when another process wants to write. It computes the digest in the
// meantime.
func (p *Private) guard(ctx context.Context) {
	defer close(p.ended)
	go p.find(ctx)
	defer func() { <-p.hashed }()
	look := time.NewTicker(leaseLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if !leased(p.file) {
				p.stop(errChanged)
				return
			}
		case <-p.read:
			return
		case <-ctx.Done():
			return
		}
	}
}

// find computes the digest if there is one to compare it with. Otherwise it does not, because
// hashing takes about as much CPU as writing the disk, which can use all processors.
func (p *Private) find(ctx context.Context) {
	defer close(p.hashed)
	if !p.digest {
		return
	}
	h := sha256.New()
	if p.err = hashPart(ctx, io.MultiWriter(h, counter{&p.done}), p.file, 0, p.source.Size); p.err == nil {
		p.sum = hex.EncodeToString(h.Sum(nil))
		p.err = p.source.expect(p.sum)
	}
}

// leased reports whether the lease holds and no process waits for its end.
func leased(f *os.File) bool {
	kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && kind == unix.F_RDLCK
}

// local reports whether only this host writes to the file system of f.
func local(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}
