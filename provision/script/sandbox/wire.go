package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// message is one message between worker, warden and launcher: a JSON object in one packet of a
// socketpair.
type message struct {
	Op string `json:"op"`
	// Path, Major and Minor are a device.
	Path  string `json:"path,omitempty"`
	Major uint32 `json:"major,omitempty"`
	Minor uint32 `json:"minor,omitempty"`
	// Dev and Ino identify the root directory that was built.
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
	// Text is a note or the message of an error. Kind is the name of the error's kind.
	Text string `json:"text,omitempty"`
	Kind string `json:"kind,omitempty"`
}

// The operations.
const (
	opReady    = "ready"    // warden: the root is built; launcher: the filter is on, its listener comes along
	opHello    = "hello"    // launcher: it is done with what needs the host's root directory
	opFailed   = "failed"   // either: it cannot go on, Text says why
	opNote     = "note"     // warden: a line for the log
	opListener = "listener" // to the warden: the filter's listener and the user namespace come along
	opDevice   = "device"   // to the warden: show a device
	opRemove   = "remove"   // to the warden: take a device away
	opAnswer   = "answer"   // warden: done, or not, with Text and Kind
	opGo       = "go"       // to the warden: change the root; to the launcher: the root is this one; next, execute
)

const packet = 64 << 10

// pair makes a connected pair of sockets: ours for the poller, theirs to be inherited.
func pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	a, b := os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox")
	defer a.Close()
	c, err := net.FileConn(a)
	if err != nil {
		b.Close()
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return c.(*net.UnixConn), b, nil
}

// tell sends m and the descriptors from the worker's end.
func tell(c *net.UnixConn, m message, fds ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, _, err = c.WriteMsgUnix(b, rights(fds), nil)
	return err
}

// hear receives one message at the worker's end, with at most two descriptors.
func hear(c *net.UnixConn) (message, []int, error) {
	b, oob := make([]byte, packet), make([]byte, unix.CmsgSpace(8))
	n, on, _, _, err := c.ReadMsgUnix(b, oob)
	if errors.Is(err, unix.ECONNRESET) { // it went without hearing us; what it said comes after this
		n, on, _, _, err = c.ReadMsgUnix(b, oob)
	}
	if err != nil {
		return message{}, nil, err
	}
	return decode(b[:n], oob[:on])
}

// tellFD and hearFD do the same at the child's end, where reads may block.
func tellFD(fd int, m message, fds ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return unix.Sendmsg(fd, b, rights(fds), nil, unix.MSG_NOSIGNAL)
}

func hearFD(fd int) (message, []int, error) {
	b, oob := make([]byte, packet), make([]byte, unix.CmsgSpace(8))
	for {
		n, on, _, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return message{}, nil, err
		}
		return decode(b[:n], oob[:on])
	}
}

func rights(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}

func decode(b, oob []byte) (m message, fds []int, err error) {
	if len(oob) > 0 {
		controls, err := unix.ParseSocketControlMessage(oob)
		if err != nil {
			return m, nil, err
		}
		for _, c := range controls {
			got, err := unix.ParseUnixRights(&c)
			if err != nil {
				return m, nil, err
			}
			fds = append(fds, got...)
		}
	}
	if len(b) == 0 {
		return m, fds, io.EOF
	}
	return m, fds, json.Unmarshal(b, &m)
}

// memory returns a file that exists only in memory and holds v as JSON, at its beginning.
func memory(v any) (*os.File, error) {
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "sandbox")
	if err := json.NewEncoder(f).Encode(v); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
