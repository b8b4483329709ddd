package instances

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"seedbed"
)

// The assigned address is always the lowest free address that a host may have. There is none only
// if all are taken.
func TestLowestFree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(24, 30).Draw(t, "bits")
		base := netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "b"), rapid.Byte().Draw(t, "c"), rapid.Byte().Draw(t, "d")})
		p := netip.PrefixFrom(base, bits).Masked()
		var hosts []netip.Addr
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			hosts = append(hosts, a)
		}
		hosts = hosts[1 : len(hosts)-1]
		gateway := rapid.SampledFrom(hosts).Draw(t, "gateway")
		n := seedbed.Network{Prefix: p, Gateway: gateway}
		taken := map[netip.Addr]bool{}
		want := 0
		for range hosts {
			most := rapid.IntRange(1, 5).Draw(t, "most")
			free := lowestFree(n, taken, most)
			if len(free) != min(most, len(hosts)-1-want) {
				t.Fatalf("%d addresses were given where %d were asked for and %d are free", len(free), most, len(hosts)-1-want)
			}
			if len(free) == 0 {
				break
			}
			if !slices.IsSortedFunc(free, netip.Addr.Compare) {
				t.Fatalf("%v are in no order", free)
			}
			a := free[0]
			if !p.Contains(a) || a == gateway || taken[a] || a == p.Addr() || a == seedbed.LastAddr(p) {
				t.Fatalf("%s was given in %s, gateway %s", a, p, gateway)
			}
			taken[a] = true
			want++
			if rapid.IntRange(0, 3).Draw(t, "release") == 0 {
				delete(taken, a)
				if again := lowestFree(n, taken, 1); !slices.Equal(again, free[:1]) {
					t.Fatalf("%s is free, and %v was given", a, again)
				}
				taken[a] = true
			}
		}
		if want != len(hosts)-1 {
			t.Fatalf("%d addresses of %s were given, want %d", want, p, len(hosts)-1)
		}
	})
}
