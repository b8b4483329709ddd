package worker

import (
	"crypto/tls"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision/effects"
)

// TestGiveUp checks that a connection from another host is limited, also beneath TLS.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	if beyond := LostAfter + effects.Keepalive + lateGrace + cancelTime; beyond >= seedbed.NodeSilence {
		t.Errorf("a call whose client is lost may go on for %s: others take over after %s", beyond, seedbed.NodeSilence)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := giveUp(tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS13})); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	ctl := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err != nil || ctl != nil || got != int(LostAfter.Milliseconds()) {
		t.Errorf("TCP_USER_TIMEOUT is %d: %v, %v", got, err, ctl)
	}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if err := giveUp(one); err != nil {
		t.Errorf("a connection that is not TCP: %v", err)
	}
}
