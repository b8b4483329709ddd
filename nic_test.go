package seedbed_test

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
)

func TestMACTemplate(t *testing.T) {
	t.Parallel()
	for template, want := range map[seedbed.MACTemplate]string{
		"{prefix}:ff:f6:{vmid}{netid}":       "52:54:01:ff:f6:c3",
		"{prefix}:00:{vmid:0>2}:{netid:0>2}": "52:54:01:00:0c:03",
		"{prefix}:00:{vmid:02}:{netid:<02}":  "52:54:01:00:c0:30",
		"02:00:00:00:{vmid}0:FF":             "02:00:00:00:c0:ff",
		"{vmid}2:00:00:00:00:0{netid}":       "c2:00:00:00:00:03",
		"0200.0000.00{vmid}{netid}":          "02:00:00:00:00:c3",
	} {
		got, err := template.MAC(12+16, 3+16)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", template, got, err, want)
		}
		if err := template.Check(); err != nil {
			t.Error(err)
		}
	}
	for template, say := range map[seedbed.MACTemplate]string{
		"":                              "not a MAC address",
		"{prefix}:XX:XX:{vmid}{netid}":  "not a MAC address",
		"{prefix}:00:00":                "not a MAC address",
		"{prefix}:00:00:00:00":          "not a MAC address",
		"{prefix}:00:{vm}0:00":          "{vm}",
		"{prefix}:00:{}0:00":            "{}",
		"{prefix}:00:{0}0:00":           "{0}",
		"{prefix}:00:{vmid:x}0:00":      `format "x"`,
		"{prefix}:00:{vmid!r}0:00":      "{vmid!r}",
		"{prefix}:00:{vmid:999999}:00":  "format",
		"{prefix}:00:{vmid:+2}:00":      "format",
		"{prefix}:00:{vmid:{netid}}:00": `single '{'`,
		"{prefix}:00:{vmid:00":          `single '{'`,
		"{prefix}:00:}:00":              `single '}'`,
		"{{prefix}}:00:00:00":           "not a MAC address",
		"0{vmid}:00:00:00:00:00":        "even first pair",
		"00:00:00:00:0{vmid}:0{netid}":  "even first pair",
		"a\x00":                         "not a MAC address",
		seedbed.MACTemplate(strings.Repeat("{vmid:128}", 20)): "200 bytes",
	} {
		err := template.Check()
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want %q", template, err, say)
		}
	}
}

func TestMACTemplatePerNIC(t *testing.T) {
	t.Parallel()
	if !seedbed.MACTemplate("{prefix}:00:{vmid}0:{netid}0").PerNIC() ||
		seedbed.MACTemplate("{prefix}:00:{vmid}0:00").PerNIC() || seedbed.MACTemplate("x").PerNIC() {
		t.Error("PerNIC does not tell")
	}
}

// A template that passes makes an address of one NIC for every machine and NIC.
func FuzzMACTemplate(f *testing.F) {
	for _, s := range []string{
		"{prefix}:ff:f6:{vmid}{netid}", "{prefix}:00:{vmid:0>2}:{netid:^02}", "{{}}", "{", "{vmid:", "52:54:00:00:00:0{netid}",
	} {
		f.Add(s, 1, 2)
	}
	f.Fuzz(func(t *testing.T, s string, vm, nic int) {
		template := seedbed.MACTemplate(s)
		if template.Check() != nil {
			return
		}
		m, err := template.MAC(vm, nic)
		if err != nil || m[0]&1 != 0 || m == (seedbed.MAC{}) {
			t.Errorf("%q passed, and makes %s for %d and %d: %v", s, m, vm, nic, err)
		}
	})
}
