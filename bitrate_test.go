package seedbed

import (
	"errors"
	"testing"
)

func TestBitRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100Mbit": "100Mbit", "1000 Mbit": "1Gbit", "1500kbit": "1500kbit", "1Gbit": "1Gbit", "999": "999bit", "8bit": "8bit", "0": "0bit",
		"100000000": "100Mbit",
	} {
		r, err := ParseBitRate(text)
		if err != nil || r.String() != want {
			t.Errorf("%q = %s, %v; want %s", text, r, err, want)
		}
		var again BitRate
		if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
			t.Errorf("%s becomes %s, %v", r, again, err)
		}
	}
	for _, text := range []string{"", "Mbit", "-1Mbit", "1.5Gbit", "100MB", "100mbit", "9223372036854775807Gbit", "1Tbit"} {
		if r, err := ParseBitRate(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q = %s, %v", text, r, err)
		}
	}
}
