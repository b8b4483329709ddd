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

// Private is a file with the disk of a source whose content stays as it is while
// an image is made of it, and with the source's digest where that is known: of what was
// uploaded or copied, since it was all read for that, and of what is to have a certain one.
type Private struct {
	file *os.File
	// shared is set for a file that is the source's own, and was not made for this.
	shared bool
	source *Source
	sum    string
	// The following are of a frozen file.
	digest bool         // it is found meanwhile, to compare it
	done   atomic.Int64 // bytes that are in the digest
	stop   context.CancelCauseFunc
	hashed chan struct{} // closed once sum is known, or err
	read   chan struct{} // closed once the file is not needed any more
	ended  chan struct{} // closed once nobody looks after it any more
	err    error
}

// Private looks at the source (Look), and gives it where nobody changes it: the
// file itself when it was uploaded and is the disk as a whole, since nobody else
// writes to it, or where it can be frozen, and else a copy in the file that room
// makes. ctx ends when the import has to. See Copy for errors.
func (s *Source) Private(ctx context.Context, room func() (*os.File, error), progress func(seedbed.Progress)) (context.Context, *Private, error) {
	frozen := s.spec.Upload == "" && s.freeze()
	if err := s.Look(); err != nil || frozen && s.archive != nil {
		thaw(s.file)
		if err != nil {
			return ctx, nil, err
		}
	}
	switch {
	case s.archive != nil: // the disk is but a part of the file
	case s.spec.Upload != "":
		return ctx, &Private{file: s.file, shared: true, source: s, sum: s.spec.SHA256}, nil
	case frozen:
		p := &Private{file: s.file, shared: true, source: s, digest: s.spec.SHA256 != "", hashed: make(chan struct{}), read: make(chan struct{}), ended: make(chan struct{})}
		ctx, p.stop = context.WithCancelCause(ctx)
		go p.guard(ctx)
		return ctx, p, nil
	}
	dst, err := room()
	if err != nil {
		return ctx, nil, err
	}
	s.copied = true
	sum, err := s.Copy(ctx, dst, progress)
	if err != nil {
		return ctx, nil, errors.Join(err, dst.Close())
	}
	return ctx, &Private{file: dst, source: s, sum: sum}, nil
}

// Path is where the programs that root starts find the file, whether it has a
// name or not (proc_pid_fd(5)).
func (p *Private) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd()) }

// Written is how far the import is when so much of the image is written: as far as
// the digest, where that takes longer.
func (p *Private) Written(percent float64) seedbed.Progress {
	q := p.source.written(percent)
	if p.digest {
		q.Done = min(q.Done, seedbed.Bytes(p.done.Load()))
	}
	return q
}

// Digest is the SHA-256 digest of the source, empty where it is not known. It is asked for
// once, when all is read: with an error, ErrInvalid and a predicate of the file, that is worth
// nothing. It calls waiting now and then until it is known.
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
	thaw(p.file) // what becomes of it now does not matter
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

// Close forgets the file. Whoever waits to write to it goes on.
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

// Cause is why what was done with the file has ended with err: where somebody
// else was about to write to it, that.
func Cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errChanged) {
		return cause
	}
	return err
}

// errChanged ends an import of a file that somebody opens to write to it.
var errChanged = seedbed.Errorf(seedbed.ErrInvalid, "changed while it was read: want a file that nobody writes to")

// digestTick is how often it is told how far a digest is that is waited for.
const digestTick = 200 * time.Millisecond

// leaseLook is how often it is looked whether somebody wants to write to a frozen
// file, who waits as long.
const leaseLook = 50 * time.Millisecond

// freeze has the kernel keep everybody from changing the file, by a read lease
// (fcntl(2), F_SETLEASE): nobody has it open for writing, and who opens it so, or
// truncates it, waits until the lease is given back, for at most a time that is the
// host's (proc_sys_fs(5), lease-break-time). It tells whether it did: not while
// somebody has the file open for writing, nor on a file system that other hosts may write to.
func (s *Source) freeze() bool {
	if !local(s.file) {
		return false
	}
	if _, err := unix.FcntlInt(s.file.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	st, err := s.file.Stat()
	if err != nil || seedbed.Bytes(st.Size()) != s.Size { // since it was opened
		thaw(s.file)
		return false
	}
	return true
}

// thaw gives the lease back, if there is one.
func thaw(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // EAGAIN without one
}

// counter counts the bytes that are written to it.
type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// guard ends the import when somebody wants to write. The digest is found meanwhile.
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

// find finds the digest, where there is one to compare it with: it takes about as much of
// a processor as it takes to write the disk, and who writes that has use for all of them.
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

// leased tells whether the lease holds, and nobody waits for its end.
func leased(f *os.File) bool {
	kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && kind == unix.F_RDLCK
}

// local tells whether only this host writes to the file system of f.
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
