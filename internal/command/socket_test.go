package command

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"seedbed"
)

// A program, confined or not, inherits its end of a connection, to which nothing else has a name.
func TestChannel(t *testing.T) {
	t.Parallel()
	held, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	for name, c := range map[string]Command{
		"not confined": sh("echo hello >&3"),
		"limited":      {Name: "sh", Args: []string{"-c", "echo hello >&3"}, Timeout: patience, Limits: Limits{Memory: seedbed.GiB}},
		"confined": {Name: "sh", Args: []string{"-c", "echo hello >&4"}, Timeout: patience,
			Confined: &Confined{Files: []*os.File{held}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, conn, err := Channel()
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.FileListener(listener)
			if err := errors.Join(err, listener.Close()); err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err := os.Lstat(l.Addr().String()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket %s has a name: %v", l.Addr(), err)
			}
			c.Sockets = []*os.File{conn}
			_, err = Run(t.Context(), c)
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Fatal(err)
			}
			other, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if got, err := io.ReadAll(other); string(got) != "hello\n" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
