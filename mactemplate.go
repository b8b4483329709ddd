package seedbed

import (
	"strconv"
	"strings"
)

// MACTemplate makes the MAC addresses of an instance's NICs. It is a format string of Python's
// str.format with three fields: {prefix} is 52:54:01, {vmid} the instance's number and {netid} the
// NIC's, each modulo 16 as one hexadecimal digit. {{ and }} are braces. A field may be padded:
// {vmid:0>2}.
type MACTemplate string

// macPrefix is what {prefix} stands for (PVC's provisioning scripts).
const macPrefix = "52:54:01"

// maxMACTemplate bounds a template and what it makes, in bytes.
const maxMACTemplate = 128

// Check returns ErrInvalid unless t makes a unicast MAC address for every instance and NIC.
func (t MACTemplate) Check() error {
	if len(t) > maxMACTemplate {
		return Errorf(ErrInvalid, "MAC template has %d bytes: expected at most %d", len(t), maxMACTemplate)
	}
	for vm := range 16 {
		for nic := range 16 {
			if _, err := t.MAC(vm, nic); err != nil {
				return err
			}
		}
	}
	return nil
}

// PerNIC reports whether the NICs of one instance get different addresses.
func (t MACTemplate) PerNIC() bool {
	a, errA := t.MAC(0, 0)
	b, errB := t.MAC(0, 1)
	return errA == nil && errB == nil && a != b
}

// MAC returns the address of NIC number nic of instance number vm, both from 0. It is ErrInvalid if
// the template does not make a unicast address.
func (t MACTemplate) MAC(vm, nic int) (MAC, error) {
	text, err := t.expand(map[string]string{
		"prefix": macPrefix, "vmid": strconv.FormatInt(int64(vm&15), 16), "netid": strconv.FormatInt(int64(nic&15), 16),
	})
	if err != nil {
		return MAC{}, err
	}
	m, err := ParseMAC(text)
	if err != nil {
		return MAC{}, Errorf(ErrInvalid,
			"MAC template %q makes %q, which is not a MAC address: expected six hexadecimal pairs, such as {prefix}:00:{vmid}0:{netid}0",
			Clip(string(t)), Clip(text))
	}
	if m[0]&1 != 0 || m == (MAC{}) {
		return MAC{}, Errorf(ErrInvalid,
			"MAC template %q makes %s, which is not the address of a single NIC: expected an even first pair", Clip(string(t)), m)
	}
	return m, nil
}

// expand returns t with its fields replaced by the values.
func (t MACTemplate) expand(values map[string]string) (string, error) {
	var out strings.Builder
	for rest := string(t); rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		brace := rest[i]
		rest = rest[i+1:]
		if rest != "" && rest[0] == brace {
			out.WriteByte(brace)
			rest = rest[1:]
			continue
		}
		field, after, ok := strings.Cut(rest, "}")
		if brace == '}' || !ok || strings.Contains(field, "{") {
			return "", Errorf(ErrInvalid, "MAC template %q has a single %q: expected fields such as {vmid}, or %q for the character",
				Clip(string(t)), brace, strings.Repeat(string(brace), 2))
		}
		name, format, _ := strings.Cut(field, ":")
		value, known := values[name]
		if !known {
			return "", Errorf(ErrInvalid, "MAC template %q has the field {%s}: expected {prefix}, {vmid} and {netid}", Clip(string(t)), Clip(field))
		}
		padded, ok := pad(value, format)
		if !ok {
			return "", Errorf(ErrInvalid, "MAC template %q has the format %q: expected a fill, one of <, > and ^, and a width, such as {vmid:0>2}",
				Clip(string(t)), Clip(format))
		}
		out.WriteString(padded)
		rest = after
	}
	return out.String(), nil
}

// pad formats a string as Python does: [[fill]align][0][width]. It reports whether format is valid.
func pad(value, format string) (string, bool) {
	fill, align := " ", byte('<')
	isAlign := func(i int) bool { return len(format) > i && strings.IndexByte("<>^", format[i]) >= 0 }
	switch {
	case isAlign(1):
		fill, align, format = format[:1], format[1], format[2:]
	case isAlign(0):
		align, format = format[0], format[1:]
	}
	if zero, ok := strings.CutPrefix(format, "0"); ok {
		format = zero
		if fill == " " {
			fill = "0"
		}
	}
	if format == "" {
		return value, true
	}
	width, err := strconv.ParseUint(format, 10, 8)
	if err != nil || width > maxMACTemplate {
		return "", false
	}
	missing := max(0, int(width)-len(value))
	left := map[byte]int{'<': 0, '>': missing, '^': missing / 2}[align]
	return strings.Repeat(fill, left) + value + strings.Repeat(fill, missing-left), true
}
