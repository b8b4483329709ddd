package seedbed

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size in bytes.
type Bytes int64

// Binary multiples, as IEC 80000-13 names them.
const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// unit is what a number in a text may be followed by.
type unit[T ~int64] struct {
	suffix string
	size   T
}

// inUnits parses a whole number with one of the units, which are tried in their order. It returns false for any other text.
func inUnits[T ~int64](s string, units []unit[T]) (T, bool) {
	for _, u := range units {
		n, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		return T(v) * u.size, err == nil && v >= 0 && v <= math.MaxInt64/int64(u.size)
	}
	return 0, false
}

// largest returns the number and the suffix of the first of some units that divides v, or v itself.
func largest[T ~int64](v T, units []unit[T]) (T, string) {
	for _, u := range units {
		if v != 0 && v%u.size == 0 {
			return v / u.size, u.suffix
		}
	}
	return v, ""
}

var units = []unit[Bytes]{
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"T", TiB}, {"G", GiB}, {"M", MiB}, {"K", KiB},
	{"B", 1}, {"", 1},
}

// ParseBytes parses a size: a whole number and an optional unit, KiB to TiB or K to T, all binary.
// "10GiB", "10G" and "10737418240" are the same size. Any other text is ErrInvalid.
func ParseBytes(s string) (Bytes, error) {
	if b, ok := inUnits(s, units); ok {
		return b, nil
	}
	return 0, Errorf(ErrInvalid, "%q is not a size: expected a whole number and a unit, such as 512MiB or 10GiB", Clip(s))
}

// String returns the exact size in the largest unit that divides it.
func (b Bytes) String() string {
	n, suffix := largest(b, units[:4])
	return strconv.FormatInt(int64(n), 10) + suffix
}

// Human returns the size for people to read: to a tenth, in the largest unit that it reaches.
func (b Bytes) Human() string {
	for _, u := range units[:4] {
		if b >= u.size {
			return strconv.FormatFloat(float64(b)/float64(u.size), 'f', 1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText implements encoding.TextMarshaler with the exact form.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(t []byte) error {
	v, err := ParseBytes(string(t))
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a string as in UnmarshalText, or a number of bytes.
func (b *Bytes) UnmarshalJSON(t []byte) error {
	text := string(t)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(t, &text); err != nil {
			return err
		}
	} else if text == "null" {
		return nil
	}
	return b.UnmarshalText([]byte(text))
}

// BitRate is a rate in bits a second.
type BitRate int64

// bitUnits are decimal, as in networks.
var bitUnits = []unit[BitRate]{{"Gbit", 1_000_000_000}, {"Mbit", 1_000_000}, {"kbit", 1_000}, {"bit", 1}, {"", 1}}

// ParseBitRate parses a rate: a whole number and a unit, bit, kbit, Mbit or Gbit, as tc(8) writes it. "100Mbit" and
// "100000000" are the same rate. Any other text is ErrInvalid.
func ParseBitRate(s string) (BitRate, error) {
	if r, ok := inUnits(s, bitUnits); ok {
		return r, nil
	}
	return 0, Errorf(ErrInvalid, "%q is not a rate: expected a whole number and a unit, such as 100Mbit or 1Gbit", Clip(s))
}

// CheckBandwidth returns ErrInvalid unless NICs can be kept to the rates, of which 0 is none.
func CheckBandwidth(rates ...BitRate) error {
	for _, r := range rates {
		if r != 0 && (r < minBandwidth || r > maxBandwidth) {
			return Errorf(ErrInvalid, "bandwidth %s: expected %s to %s, or 0 for no limit", r, minBandwidth, maxBandwidth)
		}
	}
	return nil
}

// String returns the exact rate in the largest unit that divides it.
func (r BitRate) String() string {
	n, suffix := largest(r, bitUnits[:3])
	return strconv.FormatInt(int64(n), 10) + cmp.Or(suffix, "bit")
}

// MarshalText implements encoding.TextMarshaler with the exact form.
func (r BitRate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *BitRate) UnmarshalText(t []byte) error {
	v, err := ParseBitRate(string(t))
	if err == nil {
		*r = v
	}
	return err
}

// longUnits are the units of a duration that package time does not have. A day has 24 hours.
var longUnits = []struct {
	suffix string
	size   time.Duration
}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}}

// ParseDuration parses a duration as time.ParseDuration does, but it may begin with whole weeks and
// days, such as 30d, 2w or 1d12h. Any other text is ErrInvalid.
func ParseDuration(s string) (time.Duration, error) {
	bad := Errorf(ErrInvalid, "%q is not a duration: expected a number and a unit, such as 30s, 10m, 24h or 30d", Clip(s))
	rest, negative := strings.CutPrefix(s, "-")
	sum := time.Duration(0)
	for _, u := range longUnits {
		n, after, ok := strings.Cut(rest, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseUint(n, 10, 63)
		if err != nil || v > uint64(math.MaxInt64/u.size) || time.Duration(v)*u.size > math.MaxInt64-sum {
			return 0, bad
		}
		sum, rest = sum+time.Duration(v)*u.size, after
		if rest == "" {
			return sign(sum, negative), nil
		}
	}
	short, err := time.ParseDuration(rest)
	if err != nil || strings.ContainsAny(rest[:1], "+-") && (negative || sum > 0) || short > math.MaxInt64-sum {
		return 0, bad
	}
	return sign(sum+short, negative), nil
}

func sign(d time.Duration, negative bool) time.Duration {
	if negative {
		return -d
	}
	return d
}
