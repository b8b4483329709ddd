package seedbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSplit compares the points of random boxes with those of what split makes of them.
func TestSplit(t *testing.T) {
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
		parts := split(boxes, 0)
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
	if got := split([]box{whole, part}, 0); len(got) != 1 {
		t.Errorf("a box and a part of it: %q", got)
	}
}

// TestRuleParts counts the parts of groups, and refuses one with too many.
func TestRuleParts(t *testing.T) {
	t.Parallel()
	many := func(text func(i int) string) (g SecurityGroup) {
		g.Name = "web"
		for i := range MaxSecurityRules {
			r, err := ParseSecurityRule(text(i))
			if err != nil {
				t.Fatal(err)
			}
			g.Rules = append(g.Rules, r)
		}
		return g
	}
	nested := func(i int) string { return fmt.Sprintf("in tcp %d from 2001:db8::/%d", 1000+2*i, 60+i) }
	for name, tt := range map[string]struct {
		text  func(i int) string
		parts int
	}{
		"prefixes apart":           {func(i int) string { return fmt.Sprintf("in tcp %d from 10.%d.0.0/16", i+1, i) }, 60},
		"both versions of IP":      {func(i int) string { return fmt.Sprintf("out tcp %d", 2*i+1) }, 120},
		"ports beside each other":  {func(i int) string { return fmt.Sprintf("out tcp %d", i+1) }, 2},
		"groups":                   {func(i int) string { return fmt.Sprintf("in udp 53 from group g%d", i) }, 60},
		"prefixes within prefixes": {nested, 1830},
	} {
		g := many(tt.text)
		if got := RuleParts(g.Rules); got != tt.parts {
			t.Errorf("%s: %d parts, want %d", name, got, tt.parts)
		}
		if err := g.CheckParts(nil); (err != nil) != (tt.parts > MaxRuleParts) {
			t.Errorf("%s, %d parts: %v", name, tt.parts, err)
		}
		if err := g.Check(); err != nil {
			t.Errorf("%s: a node does not take a group that is older than the bound: %v", name, err)
		}
	}
	large, less := many(nested), many(nested)
	less.Rules = less.Rules[:59]
	if err := less.CheckParts(large.Rules); err != nil {
		t.Errorf("a rule less: %v", err)
	}
	if err := large.CheckParts(large.Rules); err != nil {
		t.Errorf("the same rules: %v", err)
	}
	if err := large.CheckParts(less.Rules); err == nil {
		t.Error("a rule more is not refused")
	}
	if err := large.CheckParts(nil); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "needs 1830 parts for them that do not overlap, expected at most 256") {
		t.Errorf("too many parts: %v", err)
	}
}
