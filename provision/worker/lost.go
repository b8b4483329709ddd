package worker

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// LostAfter is how long a worker may continue a call whose client has silently become unreachable.
// It then gives up the connection and ends the call.
const LostAfter = 15 * time.Second

// giveUp makes the kernel end a connection whose other side has acknowledged nothing for LostAfter
// (tcp(7), TCP_USER_TIMEOUT). A line is written every second, so there is always something to
// acknowledge. Without the option that takes a quarter of an hour. A connection within the host
// does not need it.
func giveUp(conn net.Conn) error {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("bound a connection: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(LostAfter.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("bound a connection: %w", err)
	}
	return nil
}
