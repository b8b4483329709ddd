package mtls

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// failing is a listener whose first accepts fail with the given error.
type failing struct {
	net.Listener
	mu     sync.Mutex
	errors []syscall.Errno
}

func (f *failing) Accept() (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errors) > 0 {
		err := f.errors[0]
		f.errors = f.errors[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return f.Listener.Accept()
}

// TestAcceptFails checks that a listener survives temporary errors, and ends with permanent ones.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	w := open(t, issue(t, a, Worker, "hv1"), Worker, "hv1")
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	for name, tt := range map[string]struct {
		errors []syscall.Errno
		ends   error
	}{
		"no files":         {[]syscall.Errno{syscall.EMFILE, syscall.ENFILE}, nil},
		"no memory":        {[]syscall.Errno{syscall.ENOBUFS, syscall.ENOMEM}, nil},
		"the network's":    {[]syscall.Errno{syscall.EPROTO, syscall.ENETDOWN, syscall.EHOSTUNREACH}, nil},
		"left, or not let": {[]syscall.Errno{syscall.ECONNABORTED, syscall.EPERM}, nil},
		"no listener":      {[]syscall.Errno{syscall.ENOMEM, syscall.EBADF}, syscall.EBADF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ln := w.listen(&failing{Listener: raw, errors: tt.errors}, Control, handshakeTime)
			defer ln.Close()
			asked := make(chan error, 1)
			if tt.ends == nil {
				go func() {
					_, err := ask(t.Context(), raw.Addr().String(), cp.Client(Worker, "hv1", "127.0.0.1"))
					asked <- err
				}()
			}
			c, err := ln.Accept()
			if !errors.Is(err, tt.ends) {
				t.Fatalf("accept: %v, want %v", err, tt.ends)
			}
			if err != nil {
				return
			}
			c.Close()
			select {
			case <-asked:
			case <-time.After(patience):
				t.Error("the caller gets no answer")
			}
		})
	}
}
