package libvirt

import (
	"testing"

	"seedbed"
)

func TestParseUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, load, memory string
		wantLoad           float64
		wantFree           seedbed.Bytes
		bad                bool
	}{
		{"a host", "0.52 0.58 0.59 1/467 12345\n",
			"MemTotal:       16384000 kB\nMemFree:          100000 kB\nMemAvailable:    8192000 kB\n", 0.52, 8192000 * seedbed.KiB, false},
		{"without MemAvailable", "1.00 1 1", "MemTotal: 1 kB\nMemFree: 1 kB\n", 0, 0, true},
		{"another unit", "1.00 1 1", "MemAvailable: 1 MB\n", 0, 0, true},
		{"below zero", "1.00 1 1", "MemAvailable: -1 kB\n", 0, 0, true},
		{"beyond all memory", "1.00 1 1", "MemAvailable: 99999999999999999999 kB\n", 0, 0, true},
		{"no load", "", "MemAvailable: 1 kB\n", 0, 0, true},
		{"no number", "NaN 1 1", "MemAvailable: 1 kB\n", 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			load, loadErr := ParseLoad(tt.load)
			free, freeErr := ParseMemAvailable(tt.memory)
			if (loadErr != nil || freeErr != nil) != tt.bad {
				t.Fatalf("errors %v, %v", loadErr, freeErr)
			}
			if !tt.bad && (load != tt.wantLoad || free != tt.wantFree) {
				t.Errorf("load %v, free %v", load, free)
			}
		})
	}
	if u, err := ReadUsage(); err != nil || u.MemoryFree <= 0 {
		t.Errorf("this host: %+v, %v", u, err)
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add("0.52 0.58 0.59 1/467 12345", "MemAvailable:    8192000 kB\n")
	f.Fuzz(func(t *testing.T, load, memory string) {
		if l, err := ParseLoad(load); err == nil && !(l >= 0) {
			t.Errorf("load %v", l)
		}
		if m, err := ParseMemAvailable(memory); err == nil && m < 0 {
			t.Errorf("memory %d", m)
		}
	})
}
