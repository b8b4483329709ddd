package mtls

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLostPeersAreNoticed checks that both ends of a connection notice when the other is gone.
func TestLostPeersAreNoticed(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	w := open(t, issue(t, a, Worker, "hv1"), Worker, "hv1")
	cp := open(t, issue(t, a, Control, "cp1"), Control, "cp1")
	ln, err := w.Listen(t.Context(), "127.0.0.1:0", Control)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := ln.Accept(); err == nil {
			accepted <- c
		}
	}()
	client, err := Dial(t.Context(), ln.Addr().String(), cp.Client(Worker, "hv1", "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server := <-accepted
	defer server.Close()
	for end, conn := range map[string]net.Conn{"client": client.NetConn(), "server": server.(*Conn).NetConn()} {
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			for name, want := range map[int][2]int{
				unix.TCP_USER_TIMEOUT: {unix.IPPROTO_TCP, 10_000}, unix.TCP_KEEPIDLE: {unix.IPPROTO_TCP, 5}, unix.TCP_KEEPINTVL: {unix.IPPROTO_TCP, 2},
			} {
				if got, err := unix.GetsockoptInt(int(fd), want[0], name); got != want[1] || err != nil {
					t.Errorf("%s: option %d is %d (%v), want %d", end, name, got, err, want[1])
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
