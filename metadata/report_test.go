package metadata

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

func (l *lab) post(c *http.Client, path, body string) reply {
	l.t.Helper()
	req, err := http.NewRequest("POST", "http://169.254.169.254"+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r, err := do(c, req)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	a, b := l.client(addrA), l.client(addrB)
	path := reportPrefix + guestA().ReportToken
	form := url.Values{"pub_key_rsa": {"ssh-rsa AAAA"}, "instance_id": {idA.EC2()}, "hostname": {"web-1"},
		"fqdn": {strings.Repeat("f", 1000)}, "other": {"x"}}.Encode()

	for name, r := range map[string]reply{
		"wrong token": l.post(a, path+"x", form), "no token": l.post(a, reportPrefix, form),
		"other guest": l.post(b, path, form), "guest without one": l.post(b, reportPrefix, form),
	} {
		if r.status != 404 && r.status != 405 {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	if n := len(l.seen(seedbed.GuestReport)); n != 0 {
		t.Fatalf("%d reports", n)
	}
	for range 3 {
		if r := l.post(a, path, form); r.status != 200 || r.body != "ok" {
			t.Fatalf("%d %q", r.status, r.body)
		}
	}
	l.want(a, 404, "GET", path)
	want := []seedbed.GuestEvent{{Instance: idA, Kind: seedbed.GuestReport, At: l.clock(), Method: "POST", Path: reportPrefix, Status: 200,
		Fields: map[string]string{"instance_id": idA.EC2(), "hostname": "web-1", "fqdn": strings.Repeat("f", maxField)},
		Token:  seedbed.TokenDigest(guestA().ReportToken)}}
	if diff := cmp.Diff(want, l.seen(seedbed.GuestReport), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	l.want(a, 404, "GET", "/x/"+guestA().ReportToken)
	for _, e := range l.seen(seedbed.GuestAccess) {
		if strings.Contains(e.Path, guestA().ReportToken) {
			t.Errorf("the token is in a record: %+v", e)
		}
	}
	l.apply(stateOf(nil))
	if r := l.post(a, path, form); r.status != 404 {
		t.Errorf("retracted: %d", r.status)
	}
}

// TestReportIgnoresSessionToken checks that phone home works with or without a session token, valid
// or not.
func TestReportIgnoresSessionToken(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	l.want(l.client(addrA), 200, "POST", reportPrefix+guestA().ReportToken, tokenHeader, "junk")
}

// TestReportIsDurable: the guest is told ok only once the report is kept.
func TestReportIsDurable(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	l := newLab(t, func(c *Config) {
		c.OnReport = func(context.Context, seedbed.GuestEvent) error {
			if calls.Add(1) == 1 {
				return errors.New("disk full")
			}
			return nil
		}
	})
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	path := reportPrefix + guestA().ReportToken
	for i, want := range []int{503, 200, 200} {
		if r := l.post(c, path, "hostname=x"); r.status != want {
			t.Errorf("post %d: %d, want %d", i, r.status, want)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("12345")}, guestA(), guestB()))
	a, b := l.client(addrA), l.client(addrB)
	l.want(a, 200, "HEAD", "/latest/user-data")
	l.want(a, 200, "GET", "/latest/user-data")
	l.want(a, 200, "GET", "/2009-04-04/user-data")
	l.want(b, 404, "GET", "/latest/user-data")
	if got := l.raw(addrB, "GET /latest/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n"); got == "" {
		t.Error("no answer to an odd path")
	}
	at := l.clock()
	want := []seedbed.GuestEvent{
		{Instance: idA, Kind: seedbed.GuestUserData, At: at, Method: "GET", Path: "/latest/user-data", Status: 200, Bytes: 5,
			Token: seedbed.TokenDigest(guestA().ReportToken)},
		{Instance: idB, Kind: seedbed.GuestUserData, At: at, Method: "GET", Path: "/latest/user-data", Status: 404, Bytes: int64(len(page(404))),
			Token: seedbed.TokenDigest(guestB().ReportToken)},
	}
	if diff := cmp.Diff(want, l.seen(seedbed.GuestUserData), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("user-data events (-want +got):\n%s", diff)
	}
	access := l.seen(seedbed.GuestAccess)
	if len(access) != 5 || access[4].Path != "/latest/??" || access[0].Bytes != 0 || access[1].Bytes != 5 || access[3].Status != 404 {
		t.Errorf("access events %+v", access)
	}
	if st := l.srv.Stats(); st.Requests[200] != 3 || st.Requests[404] != 2 || st.Guests != 2 || !st.InSync {
		t.Errorf("stats %+v", st)
	}
}

// TestReportOfRebuiltGuest: a rebuild gives the guest another token, and the report with it counts.
func TestReportOfRebuiltGuest(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	rebuilt := guestA()
	rebuilt.ReportToken = "fedcba9876543210fedcba9876543210"
	c := l.client(addrA)
	for n, g := range []seedbed.Guest{guestA(), rebuilt} {
		l.apply(stateOf(nil, g))
		for range 2 {
			if r := l.post(c, reportPrefix+g.ReportToken, "hostname=x"); r.status != 200 {
				t.Errorf("report of guest %d: %d", n, r.status)
			}
		}
		if got := len(l.seen(seedbed.GuestReport)); got != n+1 {
			t.Errorf("%d reports were told of %d guests", got, n+1)
		}
	}
	if r := l.post(c, reportPrefix+guestA().ReportToken, "hostname=x"); r.status != 404 {
		t.Errorf("the token of the first guest: %d", r.status)
	}
}

// TestUserDataOfRebuiltGuest: that a guest fetched its user-data is told once for each report token, of
// which a rebuild draws another, and so is what is told of each request for it.
func TestUserDataOfRebuiltGuest(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	created, rebuilt, again := guestA(), guestA(), guestA()
	created.ReportToken, again.ReportToken = "", "fedcba9876543210fedcba9876543210"
	c := l.client(addrA)
	var want []string
	for _, g := range []seedbed.Guest{created, rebuilt, again} {
		l.apply(stateOf(map[seedbed.InstanceID][]byte{idA: []byte("x")}, g))
		for range 2 {
			l.want(c, 200, "GET", "/latest/user-data")
		}
		l.want(c, 200, "GET", "/latest/meta-data/hostname")
		want = append(want, seedbed.TokenDigest(g.ReportToken))
	}
	tokens := func(kind string) (all []string) {
		for _, e := range l.seen(kind) {
			all = append(all, e.Token)
		}
		return all
	}
	if d := cmp.Diff(want, tokens(seedbed.GuestUserData)); d != "" {
		t.Errorf("fetches (-want +got):\n%s", d)
	}
	asked := []string{want[0], want[0], "", want[1], want[1], "", want[2], want[2], ""}
	if d := cmp.Diff(asked, tokens(seedbed.GuestAccess)); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}
