package netcfg

import (
	"math/rand/v2"
	"testing"
)

// TestDisjoint compares the points of random boxes with those of what disjoint makes of them.
func TestDisjoint(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(18, 1))
	in := func(b box, x, y, z byte) bool {
		for dim, v := range []byte{x, y, z} {
			if b[dim][0] > string([]byte{v}) || b[dim][1] < string([]byte{v}) {
				return false
			}
		}
		return true
	}
	// The numbers are the first and the last eight of a byte, so that both ends are met.
	number := func(i int) byte {
		if i < 4 {
			return byte(i)
		}
		return byte(248 + i)
	}
	for range 300 {
		var boxes []box
		for range r.IntN(8) {
			var b box
			for dim := range b {
				lo, hi := r.IntN(8), r.IntN(8)
				b[dim] = interval{string([]byte{number(min(lo, hi))}), string([]byte{number(max(lo, hi))})}
			}
			boxes = append(boxes, b)
		}
		parts := disjoint(boxes)
		for i := range 512 {
			x, y, z := number(i&7), number(i>>3&7), number(i>>6)
			want, got := 0, 0
			for _, b := range boxes {
				if in(b, x, y, z) {
					want = 1
				}
			}
			for _, b := range parts {
				if in(b, x, y, z) {
					got++
				}
			}
			if got != want {
				t.Fatalf("point %d,%d,%d is in %d parts, want %d: %q of %q", x, y, z, got, want, parts, boxes)
			}
		}
	}
	whole := box{{"\x06", "\x06"}, {"\x00", "\xff"}, {"\x50", "\x50"}}
	part := box{{"\x06", "\x06"}, {"\x0a", "\x0a"}, {"\x50", "\x50"}}
	if got := disjoint([]box{whole, part}); len(got) != 1 {
		t.Errorf("a box and a part of it: %q", got)
	}
}
