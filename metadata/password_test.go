package metadata

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

const passwordPath = "/openstack/2013-04-04/password"

// TestPassword: it is posted once, of any version, and told.
func TestPassword(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	a, b := l.client(addrA), l.client(addrB)
	for name, r := range map[string]struct {
		path, body string
		want       int
	}{
		"empty":        {passwordPath, "", 400},
		"too long":     {passwordPath, strings.Repeat("a", maxPassword+1), 400},
		"no text":      {passwordPath, "a\x00b", 400},
		"no UTF-8":     {passwordPath, "\xff\xfe", 400},
		"version 1.0":  {"/openstack/1.0/password", "x", 405},
		"no version":   {"/openstack/password", "x", 405},
		"another leaf": {"/openstack/latest/user_data", "x", 405},
		"below":        {passwordPath + "/x", "x", 405},
		"EC2":          {"/latest/password", "x", 405},
	} {
		if got := l.post(a, r.path, r.body); got.status != r.want {
			t.Errorf("%s: %d, want %d", name, got.status, r.want)
		}
	}
	if got := l.want(a, 200, "GET", passwordPath).body; got != "" {
		t.Errorf("before: %q", got)
	}
	most := strings.Repeat("p", maxPassword)
	if r := l.post(a, passwordPath, most); r.status != 200 || r.body != "" {
		t.Fatalf("%d %q", r.status, r.body)
	}
	if r := l.post(a, "/openstack/latest/password/", "other"); r.status != 409 {
		t.Errorf("again: %d", r.status)
	}
	if got := l.want(a, 200, "GET", passwordPath).body; got != most {
		t.Errorf("after: %q", got)
	}
	if got := l.want(b, 200, "GET", passwordPath).body; got != "" {
		t.Errorf("another guest sees %q", got)
	}
	if r := l.do(a, "PUT", passwordPath); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: %d, Allow %q", r.status, r.header.Get("Allow"))
	}
	want := []seedbed.GuestEvent{{Instance: idA, Kind: seedbed.GuestPassword, At: l.clock(), Method: "POST", Path: passwordPath, Status: 200,
		Fields: map[string]string{"password": most}, Token: seedbed.TokenDigest(guestA().ReportToken)}}
	if diff := cmp.Diff(want, l.seen(seedbed.GuestPassword), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	recorded := guestB()
	recorded.Password = "known"
	l.apply(stateOf(nil, guestA(), recorded))
	if r := l.post(b, passwordPath, "x"); r.status != 409 {
		t.Errorf("with one in the record: %d", r.status)
	}
	if got := l.want(b, 200, "GET", passwordPath).body; got != "known" {
		t.Errorf("of the record: %q", got)
	}
}

// TestPasswordIsDurable: the guest is told so only once it is kept.
func TestPasswordIsDurable(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	l := newLab(t, func(c *Config) {
		c.OnReport = func(_ context.Context, e seedbed.GuestEvent) error {
			if e.Kind != seedbed.GuestPassword {
				t.Errorf("event %+v", e)
			}
			if calls.Add(1) == 1 {
				return errors.New("disk full")
			}
			return nil
		}
	})
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	for i, want := range []int{503, 200, 409} {
		if r := l.post(c, passwordPath, "secret"); r.status != want {
			t.Errorf("post %d: %d, want %d", i, r.status, want)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestPasswordAfterRestart: what was posted to an earlier process is not posted again, whether
// seedbedd has it or not yet.
func TestPasswordAfterRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.dir.Posted(seedbed.GuestEvent{Instance: idA, Kind: seedbed.GuestPassword, Fields: map[string]string{"password": "first"}})
	s := stateOf(nil, guestA(), guestB())
	s.InSync = false
	l.apply(s)
	a, b := l.client(addrA), l.client(addrB)
	if r := l.post(b, passwordPath, "x"); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("while seedbedd may know of one: %d", r.status)
	}
	if got := l.want(a, 200, "GET", passwordPath).body; got != "first" {
		t.Errorf("what is on its way: %q", got)
	}
	l.apply(stateOf(nil, guestA(), guestB()))
	for c, want := range map[*http.Client]int{a: 409, b: 200} {
		if r := l.post(c, passwordPath, "x"); r.status != want {
			t.Errorf("in sync: %d, want %d", r.status, want)
		}
	}
	if n := len(l.seen(seedbed.GuestPassword)); n != 1 {
		t.Errorf("%d passwords were told, want that of B alone", n)
	}
}

// TestPasswordOfRebuiltGuestAfterRestart: what the guest before a rebuild posted to an earlier process,
// and seedbedd ignores because it comes late, is not the rebuilt guest's.
func TestPasswordOfRebuiltGuestAfterRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.dir.Posted(seedbed.GuestEvent{Instance: idA, Kind: seedbed.GuestPassword, Fields: map[string]string{"password": "first"},
		Token: seedbed.TokenDigest(guestA().ReportToken)})
	rebuilt := guestA()
	rebuilt.ReportToken = "fedcba9876543210fedcba9876543210"
	l.apply(stateOf(nil, rebuilt))
	c := l.client(addrA)
	if got := l.want(c, 200, "GET", passwordPath).body; got != "" {
		t.Errorf("the rebuilt guest sees %q", got)
	}
	if r := l.post(c, passwordPath, "second"); r.status != 200 {
		t.Errorf("the rebuilt guest: %d, want 200", r.status)
	}
}

// TestPasswordOfRebuiltGuest: a password counts for the guest that posted it. Whether the rebuild is
// known by the record, which had the password and no longer has it, or by the report token.
func TestPasswordOfRebuiltGuest(t *testing.T) {
	t.Parallel()
	recorded, rebuilt, another := guestA(), guestA(), guestA()
	recorded.Password = "first"
	another.ReportToken = "fedcba9876543210fedcba9876543210"
	for name, states := range map[string][]seedbed.Guest{
		"the record had it":    {recorded, rebuilt},
		"another report token": {another},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(nil, guestA()))
			c := l.client(addrA)
			if r := l.post(c, passwordPath, "first"); r.status != 200 {
				t.Fatalf("the first guest: %d", r.status)
			}
			for _, g := range states {
				l.apply(stateOf(nil, g))
			}
			if got := l.want(c, 200, "GET", passwordPath).body; got != "" {
				t.Errorf("the rebuilt guest sees %q", got)
			}
			for _, want := range []int{200, 409} {
				if r := l.post(c, passwordPath, "second"); r.status != want {
					t.Errorf("the rebuilt guest: %d, want %d", r.status, want)
				}
			}
		})
	}
}
