package webhook

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"seedbed/internal/header"
)

// FuzzForwarded feeds X-Forwarded-For. A stranger's word changes nothing, and a proxy's never makes
// a sender one of this host.
func FuzzForwarded(f *testing.F) {
	f.Add("127.0.0.1, 192.0.2.9")
	f.Add("192.0.2.9, 10.2.2.2")
	f.Add("::ffff:127.0.0.1,fe80::1%eth0,,x")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, value string) {
		fields := header.Fields{"x-forwarded-for": {value}}
		stranger, proxy := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(10, 1, 1, 1)}
		if p := peerOf(stranger, fields, trusted); p.addr.String() != "192.0.2.1" || p.local() {
			t.Errorf("a stranger is %+v", p)
		}
		p := peerOf(proxy, fields, trusted)
		if !p.addr.IsValid() || p.addr.Zone() != "" || p.local() {
			t.Errorf("by a proxy it is %+v", p)
		}
		if last := strings.TrimSpace(value[strings.LastIndex(value, ",")+1:]); p.addr.String() != "10.1.1.1" {
			if a, err := netip.ParseAddr(last); err != nil || !within(trusted, a.Unmap()) && a.Unmap().WithZone("") != p.addr {
				t.Errorf("%q is %s", value, p.addr)
			}
		}
	})
}

// FuzzPrefer feeds Prefer: nobody waits longer than the most.
func FuzzPrefer(f *testing.F) {
	f.Add("respond-async, wait=5")
	f.Add("wait=99999999")
	f.Fuzz(func(t *testing.T, header string) {
		if d := preferred(header); d < 0 || d > maxWait || d > 0 && !strings.Contains(header, "wait=") {
			t.Errorf("%q: %s", header, d)
		}
	})
}

// FuzzBody feeds the decoders and a rule that looks everywhere.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,{"b":null}],"n":"x"}`), "n == 'x'")
	f.Add([]byte(`a=1&b=2`), "")
	r, err := compile(`has(body.n) && body.n == "x"`, `{"action": "create", "name": string(body.n), "params": {"all": body}}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, form string) {
		if _, err := decodeForm(form); err != nil && len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		v, err := decodeJSON(body)
		if err != nil {
			return
		}
		e := event{headers: map[string]string{}, query: map[string]string{}, body: v}
		if matched, err := r.matches(t.Context(), e); err == nil && matched {
			if p, err := r.request(t.Context(), e); err == nil && p.Name != "x" {
				t.Errorf("the name is %q", p.Name)
			}
		}
	})
}
