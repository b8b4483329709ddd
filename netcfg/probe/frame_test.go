package probe

import (
	"net/netip"
	"testing"

	"seedbed"
)

// FuzzAnswer checks that no frame makes answer panic, and that it understands the answers to its requests.
func FuzzAnswer(f *testing.F) {
	mac := seedbed.MAC{2, 0, 0, 0, 0, 3}
	for _, a := range []string{"10.79.0.3", "fd12:3456:789a:1::7"} {
		b, err := request(mac, netip.MustParseAddr(a))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		if got, _, ok := answer(b); ok && got == netip.MustParseAddr(a) {
			f.Errorf("a request for %s is taken for an answer", a)
		}
	}
	f.Add([]byte{12: 0x86, 13: 0xdd, 20: 58, 21: 255, 54: 136, 93: 0})
	f.Add([]byte{12: 8, 13: 6, 14: 0, 15: 1, 16: 8, 18: 6, 19: 4, 21: 2, 41: 0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if a, _, ok := answer(frame); ok && !a.IsValid() {
			t.Error("an answer without an address")
		}
	})
}
