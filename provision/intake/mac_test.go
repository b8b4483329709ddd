package intake

import (
	"testing"

	"seedbed"
)

// TestMACs checks that MACs are consecutive, start elsewhere after one that was taken, and all lie
// in the range of NewMAC, wherever they start.
func TestMACs(t *testing.T) {
	t.Parallel()
	var m macs
	seen := map[seedbed.MAC]bool{}
	draw := func(mac seedbed.MAC) seedbed.MAC {
		if mac[0] != 0x52 || mac[1] != 0x54 || mac[2] != 0 {
			t.Fatalf("%s is not of 52:54:00", mac)
		}
		seen[mac] = true
		return mac
	}
	tail := func(mac seedbed.MAC) int { return int(mac[3])<<16 | int(mac[4])<<8 | int(mac[5]) }
	before := draw(m.draw())
	for range macRun - 1 {
		mac := draw(m.draw())
		if (tail(mac)-tail(before)-1)&0xffffff != 0 {
			t.Fatalf("%s comes after %s", mac, before)
		}
		before = mac
	}
	if len(seen) != macRun {
		t.Errorf("%d of %d are distinct", len(seen), macRun)
	}
	starts := map[int]bool{}
	for range 8 {
		starts[tail(draw(m.another()))] = true
	}
	if len(starts) < 4 {
		t.Errorf("8 starts are %d places", len(starts))
	}
	m.next, m.left = 0xffffff, 2
	if last, next := draw(m.draw()), draw(m.draw()); tail(last) != 0xffffff || tail(next) != 0 {
		t.Errorf("after %s comes %s", last, next)
	}
}
