package seedbed

import (
	"errors"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "10s": 10 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "500ms": time.Second / 2,
		"30d": 30 * day, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d1h1m": 8*day + time.Hour + time.Minute, "0d": 0,
		"-5m": -5 * time.Minute, "-1d1h": -25 * time.Hour, "+5m": 5 * time.Minute, "106751d": 106751 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "10", "d", "1.5d", "1d2w", "1d-2h", "--5m", "-+5m", "1d1d", "1 d", "30D", "1y", "106752d", "106751d24h", "99999999999999999999d",
		"+1d", "five", "-",
	} {
		if got, err := ParseDuration(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, %v, want ErrInvalid", text, got, err)
		}
	}
}

// FuzzParseDuration checks that whatever package time can parse means the same here.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "-5m", "30d", "1w2d3h", "0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseDuration(text)
		if want, known := time.ParseDuration(text); known == nil && want > -1<<63 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	})
}
