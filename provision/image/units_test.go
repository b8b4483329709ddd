package image

import (
	"errors"
	"testing"

	"seedbed"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quantity, units, fallback string
		want                      seedbed.Bytes
	}{
		{"16", "byte * 2^30", "byte", 16 * seedbed.GiB},
		{"16", "byte*2^30", "byte", 16 * seedbed.GiB},
		{"3", "byte * 2^10 * 2^10", "byte", 3 * seedbed.MiB},
		{"5", "byte * 10^9", "byte", 5_000_000_000},
		{"2", "byte * 1024", "byte", 2048},
		{"17179869184", "byte", "byte", 16 * seedbed.GiB},
		{"17179869184", "", "byte", 16 * seedbed.GiB},
		{"512", "", "byte * 2^20", 512 * seedbed.MiB},
		{"4", "MegaBytes", "byte", 4 * seedbed.MiB},
		{"4", "GB", "byte", 4 * seedbed.GiB},
		{"4", "gigabyte", "byte", 4_000_000_000},
		{"4", "gibibyte", "byte", 4 * seedbed.GiB},
		{"4", "megabyte * 10^3", "byte", 4_000_000_000},
		{"16", "bit", "byte", 2},
		{"9", "bit", "byte", 2},
		{"8", "kilobit", "byte", 1000},
		{"4096", "byte / 1024", "byte", 4},
		{"1", "byte * 10^-3 * 10^3", "byte", 1},
		{" 7 ", " byte ", "byte", 7},
		{"0", "byte * 2^40", "byte", 0},
	} {
		if got, err := amount(c.quantity, c.units, c.fallback); err != nil || got != c.want {
			t.Errorf("%q of %q: %d, %v; want %d", c.quantity, c.units, got, err, c.want)
		}
	}
	for _, c := range [][2]string{
		{"", "byte"}, {"-1", "byte"}, {"1.5", "byte"}, {"1", "hertz"}, {"1", "byte *"}, {"1", "byte * x"}, {"1", "byte ^ 2"}, {"1", "byte * 0"},
		{"1", "byte * 2^99999999"}, {"1", "byte * 99999999999^70"}, {"9223372036854775807", "byte * 2^10"}, {"1", "byte * 2^-2^3"},
		{"1", "byte byte"},
	} {
		if got, err := amount(c[0], c[1], "byte"); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%q of %q: %d, %v; want ErrInvalid", c[0], c[1], got, err)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"byte * 2^30", "MegaBytes", "bit/8", "byte * 10^-80", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, units string) {
		unit, err := parseUnits(units)
		if err == nil && unit.Sign() <= 0 {
			t.Fatalf("%q is %s", units, unit)
		}
	})
}
