// Package clock passes the questions of guests for the time on to the time server of the node, and its answers back (NTP,
// RFC 5905). Other than that server, it answers by the bridge on which it was asked. It must run behind filters that verify
// who asks and bound how often.
package clock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"seedbed/internal/ifbind"
)

// Server is where the time server of the node is asked.
var Server = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 123)

const (
	// messageSize is the size of a message without extensions and keys, which are not passed on.
	messageSize = 48
	// wait is how long an answer may take.
	wait = 500 * time.Millisecond
	// most is how many guests of a network may wait for an answer at an address. Each has a socket, of which the node's connection
	// table has an entry, so the sockets are kept.
	most = 16
)

// The modes of messages: of a client, and of a server.
const (
	client = 3
	server = 4
)

// The fields of a message that hold a time, of the 8 bytes of which a server repeats one: when the client sent its question, or
// in the interleaved mode when it got the last answer.
const (
	origin   = 24
	received = 32
	sent     = 40
)

// message returns the part of b that is passed on. It returns false if b is not a message of that mode, or of an unknown version.
func message(b []byte, mode byte) ([]byte, bool) {
	if len(b) < messageSize {
		return nil, false
	}
	version := b[0] >> 3 & 7
	return b[:messageSize], b[0]&7 == mode && version >= 1 && version <= 4
}

// answers reports whether a message of a server is the answer to a question.
func answers(answer, question []byte) bool {
	to := answer[origin:received]
	return bytes.Equal(to, question[sent:]) || bytes.Equal(to, question[received:sent])
}

// Serve answers at an address of the interface until ctx ends, and then returns nil. It needs CAP_NET_RAW and
// CAP_NET_BIND_SERVICE. If the interface is removed, it must be called again.
func Serve(ctx context.Context, iface string, at netip.Addr) error {
	return serve(ctx, iface, netip.AddrPortFrom(at, Server.Port()), Server)
}

func serve(ctx context.Context, iface string, at, upstream netip.AddrPort) error {
	lc := ifbind.ListenConfig(iface)
	pc, err := lc.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return fmt.Errorf("serve the time on %s: %w", iface, err)
	}
	r := relay{conn: pc.(*net.UDPConn), upstream: net.UDPAddrFromAddrPort(upstream), free: make(chan *net.UDPConn, most)}
	defer r.close()
	stop := context.AfterFunc(ctx, func() { pc.Close() })
	defer stop()
	if err := r.run(); ctx.Err() == nil {
		return fmt.Errorf("serve the time on %s: %w", iface, err)
	}
	return nil
}

// relay passes the messages of one network on.
type relay struct {
	conn     *net.UDPConn
	upstream *net.UDPAddr
	// free are the sockets to the time server on which no answer is awaited, and opened is how many there are in all.
	free    chan *net.UDPConn
	opened  int
	waiting sync.WaitGroup
}

// run passes messages on until the socket fails. What comes while too many guests wait is lost, as on a wire.
func (r *relay) run() error {
	buf := make([]byte, 1024)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		question, ok := message(buf[:n], client)
		if !ok {
			continue
		}
		up, err := r.socket()
		if err != nil {
			return err
		}
		if up == nil {
			continue
		}
		question = bytes.Clone(question)
		r.waiting.Go(func() {
			defer func() { r.free <- up }()
			if answer, ok := ask(up, question); ok {
				_, _ = r.conn.WriteToUDPAddrPort(answer, from) // one that is lost is asked for again
			}
		})
	}
}

// socket returns a socket to the time server, or nil if all are in use.
func (r *relay) socket() (*net.UDPConn, error) {
	select {
	case up := <-r.free:
		return up, nil
	default:
	}
	if r.opened == most {
		return nil, nil
	}
	up, err := net.DialUDP("udp4", nil, r.upstream)
	if err != nil {
		return nil, fmt.Errorf("open a socket to the time server: %w", err)
	}
	r.opened++
	return up, nil
}

// ask returns the answer to a question, and false if there is none in time. An answer to an earlier question is skipped.
func ask(up *net.UDPConn, question []byte) ([]byte, bool) {
	if up.SetDeadline(time.Now().Add(wait)) != nil {
		return nil, false
	}
	_, err := up.Write(question)
	if errors.Is(err, syscall.ECONNREFUSED) { // what became of an earlier question
		_, err = up.Write(question)
	}
	if err != nil {
		return nil, false
	}
	buf := make([]byte, 1024)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return nil, false
		}
		if answer, ok := message(buf[:n], server); ok && answers(answer, question) {
			return answer, true
		}
	}
}

// close waits until no answer is awaited, and closes the sockets.
func (r *relay) close() {
	r.conn.Close()
	r.waiting.Wait()
	for range r.opened {
		(<-r.free).Close()
	}
}
