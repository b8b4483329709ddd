package metadata

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"seedbed"
)

const tagPath = "/latest/meta-data/tags/instance/Name"

// tagged is guestA with another value of a tag.
func tagged(value string) seedbed.Guest {
	g := guestA()
	g.Tags = map[string]string{"Name": value}
	return g
}

// waiting waits until so many requests wait.
func (l *lab) waiting(n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d requests wait", n), func() bool { return l.srv.Stats().Waiting == n })
}

// later makes a request that is answered later.
func (l *lab) later(c *http.Client, path string, headers ...string) <-chan reply {
	answered := make(chan reply, 1)
	go func() {
		r, err := l.try(c, "GET", path, headers...)
		if err != nil {
			r.body = err.Error()
		}
		answered <- r
	}()
	return answered
}

// got returns an answer that must come.
func (l *lab) got(answered <-chan reply, status int, body string) reply {
	l.t.Helper()
	select {
	case r := <-answered:
		if r.status != status || status != 404 && r.body != body {
			l.t.Fatalf("answer %d %q, want %d %q", r.status, r.body, status, body)
		}
		return r
	case <-time.After(patience):
		l.t.Fatal("no answer")
	}
	return reply{}
}

// TestWait: a request waits for a change of its leaf or listing, and of nothing else.
func TestWait(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, tagged("one"), guestB()))
	a := l.client(addrA)
	first := l.want(a, 200, "GET", tagPath)
	tag := first.header.Get("ETag")
	if len(tag) != etagLen {
		t.Fatalf("ETag %q", tag)
	}
	for _, query := range []string{"last_etag=0", "last_etag=NONE", "last_etag=", "timeout_sec=0", "timeout_sec=0&last_etag=" + tag} {
		if r := l.want(a, 200, "GET", tagPath+"?wait_for_change=true&"+query); r.body != "one" || r.header.Get("ETag") != tag {
			t.Errorf("%s: %q, ETag %q", query, r.body, r.header.Get("ETag"))
		}
	}
	l.want(a, 200, "GET", tagPath+"?wait_for_change=false&last_etag="+tag)
	l.want(a, 200, "GET", tagPath+"?last_etag="+tag)
	l.want(a, 404, "GET", "/latest/meta-data/nothing?wait_for_change=true")
	l.want(a, 200, "GET", "/nocloud/meta-data?wait_for_change=true") // not a path of EC2's

	docs := map[seedbed.InstanceID][]byte{idB: []byte("#!/bin/sh\n")}
	l.apply(stateOf(docs, tagged("one"), guestB()))
	b := l.client(addrB)
	data := l.want(b, 200, "GET", "/latest/user-data").header.Get("ETag")
	script := l.later(b, "/latest/user-data?wait_for_change=true&last_etag="+data)
	l.waiting(1)
	docs[idB] = []byte("#!/bin/bash\n")
	l.apply(stateOf(docs, tagged("one"), guestB()))
	l.got(script, 200, "#!/bin/bash\n")

	leaf := l.later(a, tagPath+"?wait_for_change=true&last_etag="+url.QueryEscape(`"`+tag+`"`))
	list := l.later(a, "/latest/meta-data/tags/instance/?wait_for_change=true")
	other := l.later(l.client(addrB), "/latest/meta-data/local-hostname?wait_for_change=true")
	l.waiting(3)
	change := func(revision int64, changed []seedbed.InstanceID, guests ...seedbed.Guest) {
		t.Helper()
		s := stateOf(nil, guests...)
		s.Revision, s.Since, s.Changed = revision, revision-1, changed
		l.apply(s)
	}
	renamed := guestB()
	renamed.Name = "other"
	change(2, []seedbed.InstanceID{idB}, tagged("one"), renamed)
	l.got(other, 200, "other")
	l.waiting(2)
	change(3, []seedbed.InstanceID{idA}, tagged("two"), renamed)
	if r := l.got(leaf, 200, "two"); r.header.Get("ETag") == tag {
		t.Error("another value has the same ETag")
	}
	l.waiting(1) // the listing is the same
	more := tagged("two")
	more.Tags["role"] = "web"
	change(4, []seedbed.InstanceID{idA}, more, renamed)
	l.got(list, 200, "Name\nrole")
	l.waiting(0)
	if h := l.srv.Stats().Latency; h.Sum > patience/2 {
		t.Errorf("the time of waiting counts as latency: %s", h.Sum)
	}
}

// TestWaitForNotice: a request waits for something that is not there yet, and for its end, although
// a crawl has fixed what the guest sees otherwise.
func TestWaitForNotice(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	a := l.client(addrA)
	l.want(a, 200, "GET", "/latest/meta-data/")
	const state, spot = "/latest/meta-data/autoscaling/target-lifecycle-state", "/latest/meta-data/spot/instance-action"
	none := l.want(a, 404, "GET", spot).header.Get("ETag")
	notice := l.later(a, spot+"?wait_for_change=true&last_etag="+none)
	target := l.later(a, state+"?wait_for_change=true")
	l.waiting(2)
	g := guestA()
	g.Options.TargetState = "Terminated"
	g.Spot = &seedbed.Spot{Action: "stop", Time: time.Date(2026, 9, 3, 0, 0, 0, 0, time.UTC)}
	l.apply(stateOf(nil, g))
	l.got(target, 200, "Terminated")
	told := l.got(notice, 200, `{"action":"stop","time":"2026-09-03T00:00:00Z"}`)
	notice = l.later(a, spot+"?wait_for_change=true&last_etag="+told.header.Get("ETag"))
	l.waiting(1)
	l.apply(stateOf(nil, guestA()))
	if r := l.got(notice, 404, ""); r.header.Get("ETag") != none {
		t.Errorf("the ETag of nothing is %q, and %q", none, r.header.Get("ETag"))
	}
	node := l.later(a, "/latest/meta-data/events/maintenance/scheduled?wait_for_change=true")
	l.waiting(1)
	s := stateOf(nil, guestA())
	s.Revision, s.Since = 2, 1 // no instance has changed
	s.Maintenance = []seedbed.Maintenance{{ID: "instance-event-00000000000000003", Code: "system-reboot", State: seedbed.MaintenanceActive}}
	l.apply(s)
	if r := <-node; r.status != 200 || !strings.Contains(r.body, "system-reboot") {
		t.Errorf("maintenance of the node: %d %q", r.status, r.body)
	}
}

// TestWaitEnds: with the time, with the instance, with the options, and with the server.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, tagged("one")))
	a := l.client(addrA)
	l.got(l.later(a, tagPath+"?wait_for_change=true&timeout_sec=1"), 200, "one")

	required := tagged("one")
	required.Options.Tokens = seedbed.TokensRequired
	plain := l.later(a, tagPath+"?wait_for_change=true")
	token := l.want(a, 200, "PUT", tokenPath, ttlHeader, "60").body
	with := l.later(a, tagPath+"?wait_for_change=true", tokenHeader, token)
	l.waiting(2)
	l.apply(stateOf(nil, required))
	l.got(plain, 401, string(page(401)))
	l.want(a, 401, "GET", tagPath+"?wait_for_change=true")
	l.want(a, 401, "GET", tagPath+"?wait_for_change=true", tokenHeader, token+"x")
	l.waiting(1)
	l.pass(time.Hour) // the token ends before the value changes
	required.Tags = map[string]string{"Name": "two"}
	l.apply(stateOf(nil, required))
	l.got(with, 401, string(page(401)))

	l.apply(stateOf(nil, tagged("one"), guestB()))
	removed := l.later(a, tagPath+"?wait_for_change=true")
	l.waiting(1)
	l.apply(stateOf(nil, guestB()))
	l.got(removed, 404, "")

	last := l.later(l.client(addrB), "/latest/meta-data/local-hostname?wait_for_change=true")
	l.waiting(1)
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	l.got(last, 200, "bare")
	l.waiting(0)
}

// TestWaitLimits: an instance has room for so many, which those that have left do not take.
func TestWaitLimits(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.GuestWaits = 2 })
	l.apply(stateOf(nil, tagged("one"), guestB()))
	a := l.client(addrA)
	const waitPath = tagPath + "?wait_for_change=true"
	one := l.later(a, waitPath)
	l.waiting(1)
	var gone net.Conn = l.dial(addrA)
	if _, err := fmt.Fprintf(gone, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", waitPath); err != nil {
		t.Fatal(err)
	}
	l.waiting(2)
	r := l.want(a, 503, "GET", waitPath)
	if !strings.Contains(r.body, "2 requests of this instance wait") || r.header.Get("Retry-After") == "" {
		t.Errorf("%q, %v", r.body, r.header)
	}
	l.want(a, 200, "GET", tagPath)
	b := l.later(l.client(addrB), "/latest/meta-data/local-hostname"+"?wait_for_change=true")
	l.waiting(3)
	gone.Close()
	eventually(t, "the place of the one that left is free", func() bool { // once its end has arrived
		return l.do(a, "GET", waitPath+"&timeout_sec=1").status == 200
	})
	two := l.later(a, waitPath)
	l.waiting(3)
	renamed := guestB()
	renamed.Name = "other"
	l.apply(stateOf(nil, tagged("two"), renamed))
	l.got(one, 200, "two")
	l.got(two, 200, "two")
	l.got(b, 200, "other")
	l.waiting(0)
}

// TestWaitRefuses: what is wrong with the parameters is said in a sentence.
func TestWaitRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	for query, want := range map[string]string{
		"wait_for_change=yes": "expected true or false", "wait_for_change": "expected true or false",
		"wait_for_change=true&timeout_sec=-1":          "expected a number of seconds",
		"wait_for_change=true&timeout_sec=1m":          "expected a number of seconds",
		"wait_for_change=true&timeout_sec=99999999999": "expected a number of seconds",
	} {
		if r := l.want(l.client(addrA), 400, "GET", "/latest/meta-data/mac?"+query); !strings.Contains(r.body, want) {
			t.Errorf("%s: %q", query, r.body)
		}
	}
}
