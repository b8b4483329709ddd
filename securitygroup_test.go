package seedbed_test

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
)

func TestParseSecurityRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"in tcp 443":                             "in tcp 443 from any",
		"in tcp 8000-8100 from 10.0.0.0/8":       "in tcp 8000-8100 from 10.0.0.0/8",
		"in tcp 22 from 192.0.2.1":               "in tcp 22 from 192.0.2.1/32",
		"in  tcp 5432 from group app":            "in tcp 5432 from group app",
		"in icmp 8":                              "in icmp 8 from any",
		"in icmp6 1/4 from 2001:db8::1":          "in icmp6 1/4 from 2001:db8::1/128",
		"out any":                                "out any to any",
		"out any to any":                         "out any to any",
		"out 47 to 2001:db8::/32 # the tunnel":   "out 47 to 2001:db8::/32",
		"in":                                     "expected in or out, a protocol",
		"tcp 443":                                "direction",
		"in tpc 443":                             "protocol \"tpc\" is unknown",
		"in 6 from any":                          "protocol 6 has a name: expected tcp",
		"in any 443":                             "protocol any has no ports",
		"in tcp 0443":                            "ports \"0443\"",
		"in tcp 90-80":                           "ports \"90-80\"",
		"in tcp 70000":                           "ports \"70000\"",
		"in icmp 8/256":                          "ICMP \"8/256\"",
		"in icmp 8 from 2001:db8::/32":           "protocol icmp does not reach 2001:db8::/32",
		"in tcp from 10.0.0.1/8":                 "expected 10.0.0.0/8",
		"in tcp to 10.0.0.0/8":                   "expected in or out, a protocol",
		"out tcp from 10.0.0.0/8":                "expected in or out, a protocol",
		"in tcp from group":                      "expected in or out, a protocol",
		"in tcp 443 from 10.0.0.0/8 10.1.0.0/16": "expected in or out, a protocol",
		"in tcp from ::ffff:10.0.0.0/104":        "write it as IPv4",
		"in tcp # a\tb":                          "is not one line",
	} {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if r.String() != want {
			t.Errorf("%q is %q, want %q", text, r, want)
		}
		again, err := seedbed.ParseSecurityRule(r.String())
		if again.Description = r.Description; err != nil || again != r {
			t.Errorf("%q is %+v, and again %+v, %v", text, r, again, err)
		}
	}
}

func TestSecurityGroupCheck(t *testing.T) {
	t.Parallel()
	one := seedbed.SecurityRule{Direction: seedbed.DirectionIn, Protocol: "tcp"}
	twice := one
	twice.Description = "again"
	for want, g := range map[string]seedbed.SecurityGroup{
		"that is the built-in group":             {}, // set below
		"security group name":                    {Name: "-"},
		"expected at most 60":                    {Name: "web", Rules: make([]seedbed.SecurityRule, 61)},
		`has the rule "in tcp from any" already`: {Name: "acme/web", Rules: []seedbed.SecurityRule{one, twice}},
		"rule 1 (in tcp from any): its description": {Name: "web", Rules: []seedbed.SecurityRule{
			{Direction: seedbed.DirectionIn, Protocol: "tcp", Description: strings.Repeat("x", 257)}}},
	} {
		if want == "that is the built-in group" {
			g.Name = "acme/open"
		}
		if err := g.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
	if err := (seedbed.SecurityGroup{Name: "acme/default", Rules: seedbed.DefaultRules("acme/default")}).Check(); err != nil {
		t.Error(err)
	}
}

func FuzzParseSecurityRule(f *testing.F) {
	for _, text := range []string{
		"in tcp 443 from 10.0.0.0/8", "out any", "in icmp6 1/4 from group app", "out 47 to ::/0 # x", "in udp 1-65535",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if s := r.Targets(); s.First > s.Last || r.Protocols().First > r.Protocols().Last {
			t.Fatalf("%q: ports %v, protocols %v", text, s, r.Protocols())
		}
		again, err := seedbed.ParseSecurityRule(r.String())
		if again.Description = r.Description; err != nil || again != r {
			t.Fatalf("%q: %+v, and again %+v, %v", text, r, again, err)
		}
	})
}
