package outbox

import (
	"errors"
	"net/netip"
	"testing"

	"seedbed"
)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	const public, private, never = "public", "private", "never"
	for addr, want := range map[string]string{
		"1.1.1.1": public, "8.8.8.8": public, "172.32.0.1": public, "100.128.0.1": public, "2606:4700::1111": public, "2a00::1": public,
		"64:ff9b::8.8.8.8": public, "2002:808:808::1": public, "::ffff:8.8.8.8": public, "2620:4f:8000::1": public,

		"127.0.0.1": private, "127.255.0.1": private, "10.1.2.3": private, "172.16.0.1": private, "172.31.255.255": private,
		"192.168.1.1": private,
		"100.64.0.1":  private, "169.254.1.1": private, "169.254.170.2": private, "198.18.0.1": private, "192.0.2.1": private,
		"198.51.100.1": private, "203.0.113.9": private, "192.0.0.8": private,
		"::1": private, "fe80::1": private, "fe80::1%eth0": private, "fc00::1": private, "fd12::1": private, "fec0::1": private,
		"100::1":      private,
		"2001:db8::1": private, "3fff::1": private, "64:ff9b:1::8.8.8.8": private,
		"::ffff:127.0.0.1": private, "::ffff:10.0.0.1": private, "64:ff9b::10.0.0.1": private, "::127.0.0.1": private,
		"::ffff:0:127.0.0.1": private,
		"2002:7f00:1::":      private, "2002:a00:1::1": private, "2001:0:a00:1::f7f7:f7f7": private,
		"2001:0:808:808:0:0:80ff:fffe": private, // Teredo: a private server; client 127.0.0.1
		"2a00::5efe:10.0.0.1":          private, "2a00::200:5efe:10.0.0.1": private,

		"169.254.169.254": never, "::ffff:169.254.169.254": never, "64:ff9b::169.254.169.254": never, "64:ff9b:1::169.254.169.254": never,
		"2002:a9fe:a9fe::1": never, "::169.254.169.254": never, "::ffff:0:169.254.169.254": never, "2a00::5efe:169.254.169.254": never,
		"2001:0:808:808::5601:5601": never, // Teredo: the client 169.254.169.254
		"fd00:ec2::254":             never, "fd00:ec2::254%eth0": never,
		"0.0.0.0": never, "0.1.2.3": never, "::": never, "224.0.0.1": never, "239.1.1.1": never, "255.255.255.255": never,
		"240.0.0.1": never, "ff02::1": never,
	} {
		a := netip.MustParseAddr(addr)
		for allowed, refused := range map[bool]bool{false: want != public, true: want == never} {
			err := checkAddress(a, allowed)
			if (err != nil) != refused || err != nil && !errors.Is(err, seedbed.ErrForbidden) {
				t.Errorf("%s, private allowed %v: %v, want it %s", addr, allowed, err, want)
			}
		}
	}
	if err := checkAddress(netip.Addr{}, true); err == nil {
		t.Error("no address at all is allowed")
	}
}

// No address panics, and whatever is refused when private ones are allowed is refused when they are
// not; its IPv4-mapped form is judged alike.
func FuzzCheckAddress(f *testing.F) {
	for _, s := range []string{"169.254.169.254", "::1", "2002:a9fe:a9fe::1", "2001::", "64:ff9b::1"} {
		b := netip.MustParseAddr(s).AsSlice()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		strict, loose := checkAddress(a, false), checkAddress(a, true)
		if loose != nil && strict == nil {
			t.Errorf("%s is refused only where more is allowed", a)
		}
		if !a.Is4() {
			return
		}
		for _, prefix := range []string{"::ffff:", "64:ff9b::", "::ffff:0:"} {
			mapped := netip.MustParseAddr(prefix + a.String())
			if (checkAddress(mapped, false) == nil) != (strict == nil) || loose != nil && checkAddress(mapped, true) == nil {
				t.Errorf("%s is judged unlike %s", mapped, a)
			}
		}
		if s := a.As4(); loose != nil {
			six := [16]byte{0x20, 0x02, s[0], s[1], s[2], s[3]}
			if checkAddress(netip.AddrFrom16(six), true) == nil {
				t.Errorf("%s hides in 6to4", a)
			}
		}
	})
}
