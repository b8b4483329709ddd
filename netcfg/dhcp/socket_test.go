package dhcp

import (
	"bytes"
	"net/netip"
	"testing"
)

// TestDatagram: the checksums come out right over the whole packet, also for an odd length.
func TestDatagram(t *testing.T) {
	t.Parallel()
	src, dst := netip.MustParseAddr("10.213.0.1"), netip.MustParseAddr("255.255.255.255")
	for _, payload := range [][]byte{nil, {1}, []byte("even"), bytes.Repeat([]byte{0xff}, 301)} {
		d := datagram(src, dst, payload)
		if got := sum(0, d[:20]); got != 0xffff {
			t.Errorf("%d bytes: header sums to %#x, want 0xffff", len(payload), got)
		}
		pseudo := bytes.Join([][]byte{d[12:20], {0, 17}, d[24:26], d[20:]}, nil)
		if got := sum(0, pseudo); got != 0xffff {
			t.Errorf("%d bytes: datagram sums to %#x, want 0xffff", len(payload), got)
		}
	}
}
