package seedbed_test

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
)

func TestParseListen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"tcp:1": "", "udp:65535": "", "tcp:8000-8010": "", "udp:192.0.2.1:53": "", "tcp:192.0.2.1:1-1024": "",
		"": "no protocol", "8080": "no protocol", "sctp:80": "no protocol", "TCP:80": "no protocol",
		"tcp:": "no ports", "tcp:0": "no ports", "tcp:65536": "no ports", "tcp:90-80": "no ports", "tcp:080": "no ports", "tcp:80-80": "no ports",
		"tcp:+80": "no ports", "tcp: 80": "no ports", "tcp:1-1025": "1025 ports, and 1024 is the most", "udp:1-65535": "65535 ports",
		"tcp::80": "no address", "tcp:0.0.0.0:80": "no address", "tcp:127.0.0.1:80": "no address",
		"tcp:169.254.169.254:80": "no address", "tcp:224.0.0.1:80": "no address", "tcp:[2001:db8::1]:80": "", "tcp:[::]:80-90": "",
		"tcp:2001:db8::1:80": "no address", "tcp:[192.0.2.1]:80": "no address", "tcp:[::1]:80": "no address", "tcp:[fe80::1]:80": "no address",
		"tcp:[::ffff:192.0.2.1]:80": "no address", "tcp:[fd00:ec2::254]:80": "no address", "tcp:[ff02::1]:80": "no address",
		"tcp:[2001:db8::1:80": "no address", "tcp:[::]80": "no address", "tcp:[::]": "no address",
	} {
		l, err := seedbed.ParseListen(in)
		switch {
		case want == "" && (err != nil || l.String() != in):
			t.Errorf("ParseListen(%q) = %q, %v", in, l, err)
		case want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("ParseListen(%q) = %v, want %q", in, err, want)
		}
	}
}

func TestForwardCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen string
		port   uint16
		want   string
	}{
		{"tcp:8080", 80, ""}, {"udp:60000-60100", 65435, ""}, {"tcp:192.0.2.1:22", 22, ""}, {"udp:22", 22, ""},
		{"tcp:8080", 0, "port 0 of the instance: expected 1 to 65535"},
		{"udp:60000-60100", 65436, "port 65436 of the instance: expected 1 to 65435"},
		{"tcp:22", 22, "SSH"}, {"tcp:[::]:22", 22, "SSH"}, {"tcp:[2001:db8::1]:22", 22, ""}, {"tcp:1-30", 1, "SSH"},
	} {
		l, err := seedbed.ParseListen(tt.listen)
		if err != nil {
			t.Fatal(err)
		}
		err = seedbed.Forward{Listen: l, Port: tt.port}.Check()
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s to %d: %v, want %q", tt.listen, tt.port, err, tt.want)
		}
	}
	if err := (seedbed.Forward{Port: 80}).Check(); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a forward of nothing: %v", err)
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"tcp:80", "tcp:80", true}, {"tcp:80-90", "tcp:90-99", true}, {"tcp:80-90", "tcp:85", true}, {"tcp:80-90", "tcp:91", false},
		{"tcp:80", "udp:80", false}, {"tcp:80", "tcp:192.0.2.1:80", false}, {"tcp:192.0.2.1:80", "tcp:192.0.2.1:80", true},
		{"tcp:192.0.2.1:80", "tcp:192.0.2.2:80", false}, {"tcp:80", "tcp:[::]:80", false}, {"tcp:[::]:80", "tcp:[::]:80-81", true},
		{"tcp:[::]:80", "tcp:[2001:db8::1]:80", false},
	} {
		a, _ := seedbed.ParseListen(tt.a)
		b, _ := seedbed.ParseListen(tt.b)
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s and %s: want %t", a, b, tt.want)
		}
	}
}

func FuzzParseListen(f *testing.F) {
	for _, s := range []string{"tcp:80", "udp:1-1024", "tcp:192.0.2.1:8080-8090", "tcp::", "udp:-1", "tcp:[2001:db8::1]:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := seedbed.ParseListen(s)
		if err != nil {
			return
		}
		if again, err := seedbed.ParseListen(l.String()); err != nil || again != l || l.First == 0 || l.Last < l.First {
			t.Errorf("%q is %q, which is %q: %v", s, l, again, err)
		}
	})
}

// TestForwardOfOverlays: no new forward takes the port of overlays, and one that is there still counts.
func TestForwardOfOverlays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"udp:4000-5000": false, "udp:4789": false, "udp:4790": true, "tcp:4789": true} {
		l, err := seedbed.ParseListen(text)
		f := seedbed.Forward{Listen: l, Port: 4000}
		if err != nil || f.Check() != nil || (f.CheckNew() == nil) != want {
			t.Errorf("%s: %v, %v, %v; want a new one: %t", text, err, f.Check(), f.CheckNew(), want)
		}
	}
}
