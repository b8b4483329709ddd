package image

import (
	"math/big"
	"strconv"
	"strings"

	"seedbed"
)

// baseUnits are the bytes in a unit of information, over 8: programmatic units as of DSP0004 annex
// C, with their SI and binary prefixes, and the older names, which meant binary multiples.
var baseUnits = func() map[string]*big.Rat {
	all := map[string]*big.Rat{"byte": big.NewRat(1, 1), "bit": big.NewRat(1, 8)}
	for i, p := range []string{"kilo", "mega", "giga", "tera", "peta"} {
		decimal := new(big.Rat).SetInt(power(10, 3*(i+1)))
		all[p+"byte"], all[p+"bit"] = decimal, new(big.Rat).Quo(decimal, big.NewRat(8, 1))
	}
	for i, p := range []string{"kibi", "mebi", "gibi", "tebi", "pebi"} {
		binary := new(big.Rat).SetInt(power(2, 10*(i+1)))
		all[p+"byte"], all[p+"bit"] = binary, new(big.Rat).Quo(binary, big.NewRat(8, 1))
	}
	for i, names := range [][]string{{"Bytes", "B"}, {"KiloBytes", "KB"}, {"MegaBytes", "MB"}, {"GigaBytes", "GB"}, {"TeraBytes", "TB"}} {
		for _, n := range names {
			all[n] = new(big.Rat).SetInt(power(2, 10*i))
		}
	}
	return all
}()

func power(base int64, exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil)
}

// maxExponent is far more than any size needs, and still cheap to compute.
const maxExponent = 80

// amount converts quantity, a whole number, from units such as "byte * 2^20" to bytes, and rounds
// up. Empty units mean fallback.
func amount(quantity, units, fallback string) (seedbed.Bytes, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(quantity), 10, 64)
	if err != nil || n < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "has the quantity %q: expected a whole number", seedbed.Clip(quantity))
	}
	if strings.TrimSpace(units) == "" {
		units = fallback
	}
	unit, err := parseUnits(units)
	if err != nil {
		return 0, err
	}
	total := new(big.Rat).Mul(unit, new(big.Rat).SetInt64(n))
	whole, rest := new(big.Int).QuoRem(total.Num(), total.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "has the size %s of %q: more than the largest possible", seedbed.Clip(quantity),
			seedbed.Clip(units))
	}
	return seedbed.Bytes(whole.Int64()), nil
}

// parseUnits reads a base unit with its multipliers and divisors, from left to right.
func parseUnits(s string) (*big.Rat, error) {
	bad := seedbed.Errorf(seedbed.ErrInvalid, `has the units %q: expected units such as "byte * 2^30"`, seedbed.Clip(s))
	if len(s) > 100 {
		return nil, bad
	}
	fields := strings.Fields(strings.NewReplacer("*", " * ", "/", " / ").Replace(s))
	if len(fields)%2 == 0 {
		return nil, bad
	}
	base, ok := baseUnits[fields[0]]
	if !ok {
		return nil, bad
	}
	total := new(big.Rat).Set(base)
	for i := 1; i < len(fields); i += 2 {
		m, ok := multiplier(fields[i+1])
		switch {
		case !ok:
			return nil, bad
		case fields[i] == "*":
			total.Mul(total, m)
		case fields[i] == "/":
			total.Quo(total, m)
		default:
			return nil, bad
		}
	}
	return total, nil
}

// multiplier reads a whole number, or a power such as 2^20 or 10^-3.
func multiplier(s string) (*big.Rat, bool) {
	base, exponent, powered := strings.Cut(s, "^")
	n, err := strconv.ParseInt(base, 10, 64)
	if err != nil || n <= 0 {
		return nil, false
	}
	if !powered {
		return new(big.Rat).SetInt64(n), true
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || n > 1024 || e > maxExponent || e < -maxExponent {
		return nil, false
	}
	if e < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), power(n, -e)), true
	}
	return new(big.Rat).SetInt(power(n, e)), true
}
