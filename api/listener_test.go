package api_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
	apiserver "seedbed/api/server"
	"seedbed/internal/lab"
)

// abroad is a listener whose peers on loopback look as if each had an address elsewhere.
type abroad struct{ net.Listener }

func (l abroad) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at := *conn.RemoteAddr().(*net.TCPAddr)
	at.IP = net.IPv4(192, 0, 2, at.IP.To4()[3]) // 127.0.0.7 is 192.0.2.7
	return posing{conn, &at}, nil
}

type posing struct {
	net.Conn
	remote net.Addr
}

func (p posing) RemoteAddr() net.Addr { return p.remote }

// TestShareOfConnections checks that a peer from elsewhere has its share of the connections, and that
// another is served then.
func TestShareOfConnections(t *testing.T) {
	t.Parallel()
	s := start(t)
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- api.New(s.config()).Serve(ctx, abroad{ln}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(lab.Patience))
		return conn
	}
	healthy := func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s: %d", conn.LocalAddr(), res.StatusCode)
		}
		return nil
	}
	for range apiserver.ShareOfConnections - 1 {
		dial("127.0.0.7")
	}
	// A connection that stands still is closed after a while, so that there may be room for more.
	lab.Await(t, lab.Patience, "the peer has its share", func() bool { return healthy(dial("127.0.0.7")) != nil })
	if err := healthy(dial("127.0.0.8")); err != nil {
		t.Errorf("another peer: %v", err)
	}
}

// TestLargeLogin checks that the body of a login, which anyone may send, is short.
func TestLargeLogin(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/login", "/auth/login"} {
		body := "token=" + strings.Repeat("x", 4<<10)
		if r := s.do(t, "POST", "/api/v1"+path, body, "Content-Type", formType, "Authorization", ""); r.status != 413 {
			t.Errorf("%s: %d %s, want 413", path, r.status, r.body)
		}
		if r := s.do(t, "POST", "/api/v1"+path, body[:4<<10], "Content-Type", formType, "Authorization", ""); r.status != 401 {
			t.Errorf("%s with as much as it takes: %d %s, want 401", path, r.status, r.body)
		}
	}
}

// TestShareOfUploads checks that one operator cannot have all uploads.
func TestShareOfUploads(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, other := s.newToken(t, "one", seedbed.RoleOperator), s.newToken(t, "other", seedbed.RoleOperator)
	upload := func(ctx context.Context, secret, name string, body io.Reader) (int, error) {
		at := s.url + "/api/v1/images/" + name + "/content?sha256=" + strings.Repeat("0", 64)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, body)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", "application/octet-stream")
		res, err := s.client.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var senders []*io.PipeWriter
	for range 8 { // all that there are
		body, more := io.Pipe()
		senders = append(senders, more)
		go func() { more.Write([]byte("x")) }()
		go func() {
			upload(ctx, one, "held", body)
			body.Close()
			done <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		for _, sender := range senders {
			sender.Close()
		}
		for range senders {
			<-done
		}
	}()
	last := 0
	lab.Await(t, lab.Patience, "the operator has its share of the uploads", func() bool {
		var err error
		last, err = upload(t.Context(), one, "more", strings.NewReader("x"))
		return err == nil && last == 503
	})
	if status, err := upload(t.Context(), other, "more", strings.NewReader("x")); status == 503 || status == 0 {
		t.Errorf("an upload of another operator: %d, %v", status, err)
	}
}
