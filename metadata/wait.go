package metadata

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// A guest can wait for a change of what the EC2 tree has at a path, with Google's parameters
// (Compute Engine, "Wait for updates"): wait_for_change, last_etag and timeout_sec. Each answer of
// the tree carries an ETag to compare with.
//
// A waiting request keeps the goroutine of its connection, as an idle connection does, and no
// thread. It is woken when its own instance changes, or something that all guests see.

// maxWait is how long a request waits at most, and without timeout_sec.
const maxWait = time.Hour

// wait is what a request says about waiting.
type wait struct {
	on      bool
	last    []byte // the ETag that the caller knows; nil for that of the present value
	timeout time.Duration
}

// readWait reads the parameters of a request. asked is false if it has no wait_for_change. problem
// is a sentence about a value that is wrong.
func readWait(ctx *fasthttp.RequestCtx) (w wait, asked bool, problem string) {
	if bytes.IndexByte(ctx.Request.Header.RequestURI(), '?') < 0 {
		return w, false, ""
	}
	args := ctx.QueryArgs()
	if !args.Has("wait_for_change") {
		return w, false, ""
	}
	switch v := string(args.Peek("wait_for_change")); v {
	case "true":
		w.on = true
	case "false":
	default:
		return w, true, "wait_for_change: expected true or false\n"
	}
	w.timeout = maxWait
	if args.Has("timeout_sec") {
		n, err := strconv.ParseUint(string(args.Peek("timeout_sec")), 10, 31)
		if err != nil {
			return w, true, "timeout_sec: expected a number of seconds\n"
		}
		w.timeout = min(maxWait, time.Duration(n)*time.Second)
	}
	if args.Has("last_etag") {
		w.last = append([]byte{}, bytes.Trim(args.Peek("last_etag"), `"`)...) // an empty one is not nil
	}
	return w, true, ""
}

// etagLen is the length of an ETag, in bytes.
const etagLen = 16

// etag returns the ETag of what r has at a place: the same for the same content, on each node. Nothing
// at a path has one too. User-data may be large, and its digest is known.
func (r *record) etag(a answer) (tag [etagLen]byte) {
	if b := r.guest.UserData; a.node == userDataLeaf && a.ok && b != nil && len(b.SHA256) >= etagLen {
		copy(tag[:], b.SHA256)
		return tag
	}
	const digits = "0123456789abcdef"
	sum := xxhash.Sum64(a.body)
	if !a.ok {
		sum = xxhash.Sum64String("nothing is at this path")
	}
	for i := range tag {
		tag[i] = digits[sum>>(60-4*i)&0xf]
	}
	return tag
}

// await returns what is at the place of the request as of now, or once it has changed, or at the end
// of the time. It does not see the state that a crawl has pinned. ok is false if await has answered
// or dropped the request.
func (s *Server) await(ctx *fasthttp.RequestCtx, who *conn, w wait) (a answer, ok bool) {
	serving, of := who.ln.ctx, who.session
	began := time.Now()
	defer func() { who.waited = time.Since(began) }()
	var gone chan struct{}
	var over <-chan time.Time
	for ended := false; ; {
		changed := of.waits.next() // of the state that is looked at next, or of a later one
		if !s.identify(serving, ctx, who.where) {
			return answer{}, false
		}
		if who.session != of { // the instance was removed in between, and is another one now
			who.drop(ctx)
			return answer{}, false
		}
		if gone != nil { // the options may have changed, and a token ends
			if status, _ := s.refused(&ctx.Request.Header, who); status != 0 {
				fail(ctx, status)
				return answer{}, false
			}
		}
		a = who.record.at(who.where)
		tag := who.record.etag(a)
		switch {
		case !w.on, ended, a.node == nil, w.timeout == 0, w.last != nil && !bytes.Equal(w.last, tag[:]):
			return a, true
		case w.last == nil:
			w.last = append(w.last, tag[:]...)
		}
		if gone == nil {
			var problem string
			if gone, problem = s.enterWait(of, who); problem != "" {
				explain(ctx, http.StatusServiceUnavailable, problem)
				ctx.Response.Header.Set("Retry-After", "1")
				return answer{}, false
			}
			defer s.leaveWait(of, who)
			t := time.NewTimer(w.timeout)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-changed:
		case <-over:
			ended = true
		case <-serving.Done():
			ended = true
			ctx.SetConnectionClose()
		case <-gone:
			who.drop(ctx)
			return answer{}, false
		}
	}
}

// explain answers a refusal with a sentence for whoever wrote the request.
func explain(ctx *fasthttp.RequestCtx, status int, sentence string) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	ctx.SetContentType(typeText)
	ctx.Response.SetBodyString(sentence)
}

// enterWait makes room for a waiting request of a guest. gone is closed if another one needs the
// room and the caller turns out to have left. problem is a sentence if there is no room.
func (s *Server) enterWait(of *session, who *conn) (gone chan struct{}, problem string) {
	if n := s.count.waiting.Add(1); int(n) > s.cfg.Limits.Conns/2 {
		s.count.waiting.Add(-1)
		return nil, "too many requests of all guests wait for a change: try again later\n"
	}
	if gone = of.waits.enter(who, s.cfg.Limits.GuestWaits); gone == nil {
		s.count.waiting.Add(-1)
		return nil, fmt.Sprintf("%d requests of this instance wait for a change already: end one of them first\n", s.cfg.Limits.GuestWaits)
	}
	return gone, ""
}

func (s *Server) leaveWait(of *session, who *conn) {
	of.waits.leave(who)
	s.count.waiting.Add(-1)
}

// waits are the waiting requests of an instance.
type waits struct {
	mu      sync.Mutex
	by      map[*conn]chan struct{} // closed once the caller is known to have left
	changed chan struct{}           // closed at the next change; nil if no request looks
}

// next returns a channel that is closed at the next change.
func (w *waits) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// wake ends the present wait of each request.
func (w *waits) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// enter adds a request, unless there are most already whose callers are still there. The server does
// not read from a connection while its request waits, so this is where it notices.
func (w *waits) enter(c *conn, most int) (gone chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) >= most {
		for other, ch := range w.by {
			if other.left() {
				close(ch)
				delete(w.by, other)
			}
		}
	}
	if len(w.by) >= most {
		return nil
	}
	if w.by == nil {
		w.by = map[*conn]chan struct{}{}
	}
	gone = make(chan struct{})
	w.by[c] = gone
	return gone
}

func (w *waits) leave(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by, c)
}

// left reports whether the caller has closed the connection. It is called while nothing reads from
// it.
func (c *conn) left() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return closed || err != nil
}
