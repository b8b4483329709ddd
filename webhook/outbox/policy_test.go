package outbox

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	const dead, pending = seedbed.OutgoingDead, seedbed.OutgoingPending
	for _, test := range []struct {
		name     string
		attempts int // before
		failures int // before
		since    time.Duration
		result   result
		random   float64
		want     seedbed.Attempt
	}{
		{name: "delivered", attempts: 3, failures: 9, result: result{status: 204}, want: seedbed.Attempt{Status: 204,
			State: seedbed.OutgoingSent}},
		{name: "first failure", result: result{status: 500, err: "x"}, random: 0.5,
			want: seedbed.Attempt{Status: 500, Error: "x", State: pending, Retry: 5 * time.Second}},
		{name: "shortest", attempts: 1, result: result{status: 500, err: "x"},
			want: seedbed.Attempt{Status: 500, Error: "x", State: pending, Retry: 4 * time.Minute}},
		{name: "longest", attempts: 1, result: result{status: 500, err: "x"}, random: 1,
			want: seedbed.Attempt{Status: 500, Error: "x", State: pending, Retry: 6 * time.Minute}},
		{name: "last failure", attempts: 9, result: result{err: "no answer"}, want: seedbed.Attempt{Error: "no answer", State: dead}},
		{name: "last but one", attempts: 8, result: result{err: "x"}, random: 0.5, want: seedbed.Attempt{Error: "x",
			State: pending, Retry: 24 * time.Hour}},
		{name: "asks for less", attempts: 1, result: result{status: 503, err: "x", retryAfter: time.Second},
			want: seedbed.Attempt{Status: 503, Error: "x", State: pending, Retry: 5 * time.Minute}},
		{name: "asks for more", attempts: 1, result: result{status: 503, err: "x", retryAfter: 7 * time.Minute},
			want: seedbed.Attempt{Status: 503, Error: "x", State: pending, Retry: 7 * time.Minute}},
		{name: "asks for ever", attempts: 1, result: result{status: 503, err: "x", retryAfter: 1000 * time.Hour},
			want: seedbed.Attempt{Status: 503, Error: "x", State: pending, Retry: 10 * time.Minute}},
		{name: "too many", result: result{status: http.StatusTooManyRequests, err: "x"},
			want: seedbed.Attempt{Status: 429, Error: "x", State: pending, Retry: time.Minute}},
		{name: "bad gateway", result: result{status: http.StatusBadGateway, err: "x", retryAfter: time.Second},
			want: seedbed.Attempt{Status: 502, Error: "x", State: pending, Retry: time.Minute}},
		{name: "gateway timeout", result: result{status: http.StatusGatewayTimeout, err: "x"},
			want: seedbed.Attempt{Status: 504, Error: "x", State: pending, Retry: time.Minute}},
		{name: "timeout", result: result{err: "x", timeout: true}, want: seedbed.Attempt{Error: "x", State: pending, Retry: time.Minute}},
		{name: "gone", result: result{status: http.StatusGone, err: "x"},
			want: seedbed.Attempt{Status: 410, Error: "x", State: dead, Disable: "it answered 410 Gone"}},
		{name: "circuit opens", failures: 4, result: result{err: "x"}, random: 0.5,
			want: seedbed.Attempt{Error: "x", State: pending, Retry: 5 * time.Second, Pause: time.Minute}},
		{name: "probe fails", failures: 7, result: result{err: "x"}, random: 0.5,
			want: seedbed.Attempt{Error: "x", State: pending, Retry: 5 * time.Second, Pause: 8 * time.Minute}},
		{name: "fails for ever", failures: 1 << 40, since: 119 * time.Hour, result: result{err: "x"}, random: 0.5,
			want: seedbed.Attempt{Error: "x", State: pending, Retry: 5 * time.Second, Pause: time.Hour}},
		{name: "out of patience", failures: 30, since: 120 * time.Hour, result: result{err: "x"}, random: 0.5,
			want: seedbed.Attempt{Error: "x", State: pending, Retry: 5 * time.Second, Pause: time.Hour,
				Disable: "nothing was delivered since 2026-01-26T12:00:00Z; the last error: x"}},
	} {
		c := seedbed.OutgoingClaim{Endpoint: seedbed.Endpoint{Failures: test.failures}, Outgoing: seedbed.Outgoing{Attempts: test.attempts}}
		if test.since > 0 {
			c.Endpoint.FailingSince = now.Add(-test.since)
		}
		test.result.at, test.want.At = now, now
		if d := cmp.Diff(test.want, judge(c, test.result, test.random)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-1": 0, "1.5": 0, " 7": 0, "99999999999999999999": 0, "2147483647": 2147483647 * time.Second,
		"Sat, 31 Jan 2026 12:01:00 GMT": time.Minute, "Sat, 31 Jan 2026 11:00:00 GMT": 0, "soon": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sat, 31 Jan 2026 12:01:00 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, time.Unix(0, 0)); d < 0 {
			t.Errorf("%q: %s", value, d)
		}
	})
}
