package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

// takenTime is how long a client that was sent a file has to say that all of it has come.
const takenTime = time.Minute

// Export makes a file of a volume. A second call of the same job makes it again. Errors: those of Archiver.OpenVolume and
// Spooler.WriteDownload. progress may be nil.
func Export(ctx context.Context, job seedbed.JobID, pool interface {
	Transferable
	Spooler
}, a effects.VolumeExport, progress func(seedbed.Progress),
) (size seedbed.Bytes, err error) {
	src, err := pool.OpenVolume(ctx, job, a.Source)
	if err != nil {
		return 0, err
	}
	size, err = pool.WriteDownload(ctx, a.ID, a.Format, src, progress)
	if err := errors.Join(err, src.Close()); err != nil {
		return 0, err
	}
	return size, endReading(ctx, job, pool, a.Source)
}

// sendFile serves one download of a file. It removes the file when the client says that all of it has come.
func (s *Server) sendFile(ctx context.Context, f seedbed.VolumeFile, c *duplex.Conn) error {
	pool, err := s.pool(f.Pool)
	if err != nil {
		return err
	}
	file, err := pool.OpenDownload(ctx, f.ID)
	if err != nil {
		return err
	}
	taken, left := make(chan struct{}), make(chan struct{})
	var receiver sync.WaitGroup
	receiver.Go(func() {
		defer close(left)
		for over := false; ; {
			m, err := c.Receive()
			if err != nil {
				return
			}
			var n seedbed.ConsoleNote
			if m.Text && !over && json.Unmarshal(m.Data, &n) == nil && n.Note == seedbed.NoteEnd {
				over = true
				close(taken)
			}
		}
	})
	sum, err := send(ctx, file, c, left)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = c.Send(duplex.Message{Text: true, Data: seedbed.ConsoleNote{Note: seedbed.NoteSent, SHA256: sum}.JSON()})
	}
	if err == nil {
		err = s.taken(ctx, pool, f, taken, left)
	}
	if errors.Is(err, errLeft) {
		c.Close() // there is no one to tell
	} else {
		c.End(seedbed.EndNote(err).JSON())
	}
	receiver.Wait()
	return nil
}

// taken removes a file that was sent when the client says that it has all of it. It returns why the download ends.
func (s *Server) taken(ctx context.Context, pool Spooler, f seedbed.VolumeFile, taken, left <-chan struct{}) error {
	select {
	case <-taken:
	case <-left:
		return errLeft
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(takenTime):
		return seedbed.ErrCopied // it can be downloaded again
	}
	if err := pool.DropUpload(ctx, f.ID); err != nil {
		s.log.Warn("a file that was downloaded stays for now", "pool", f.Pool, "file", f.ID, "err", err)
	}
	return seedbed.ErrCopied
}

// send sends a file, and returns its digest.
func send(ctx context.Context, file io.Reader, c *duplex.Conn, left <-chan struct{}) (string, error) {
	sum, buf := sha256.New(), make([]byte, duplex.MaxMessage)
	for {
		n, err := io.ReadFull(file, buf)
		if n > 0 {
			sum.Write(buf[:n])
			if c.Send(duplex.Message{Data: buf[:n]}) != nil {
				return "", errLeft
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("read the file: %w", err)
		}
		select {
		case <-left:
			return "", errLeft
		case <-ctx.Done():
			return "", context.Cause(ctx)
		default:
		}
	}
}
