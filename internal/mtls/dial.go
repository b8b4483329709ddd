package mtls

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// With these values, either side notices after lostAfter that the other has silently gone, such as
// after a power failure. The kernel's default is a quarter of an hour.
const (
	lostAfter = 10 * time.Second
	askEvery  = 2 * time.Second
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: lostAfter / 2, Interval: askEvery, Count: 3}

// Dial connects to addr, host:port, with conf. An error of the connection below TLS is a
// *net.OpError with the Op "dial".
func Dial(ctx context.Context, addr string, conf *tls.Config) (*tls.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive, Control: control}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// control bounds how long sent data may stay unacknowledged by the peer's kernel (tcp(7),
// TCP_USER_TIMEOUT). Accepted connections inherit the option from the listener.
func control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lostAfter.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
