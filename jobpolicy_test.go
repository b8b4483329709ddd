package seedbed

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseOnFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want OnFailure
		back string
	}{
		{"", OnFailure{}, ""},
		{"rollback", OnFailure{Policy: FailRollback}, "rollback"},
		{"keep", OnFailure{Policy: FailKeep}, "keep"},
		{"retry", OnFailure{FailRetry, 3, 10 * time.Second}, "retry:3:10s"},
		{"retry:7", OnFailure{FailRetry, 7, 10 * time.Second}, "retry:7:10s"},
		{"retry:2:1m30s", OnFailure{FailRetry, 2, 90 * time.Second}, "retry:2:1m30s"},
		{"retry:100:0s", OnFailure{FailRetry, 100, 0}, "retry:100:0s"},
	} {
		got, err := ParseOnFailure(test.text)
		if err != nil || got != test.want || got.String() != test.back {
			t.Errorf("%q is %+v (%q), %v", test.text, got, got, err)
		}
	}
	for _, bad := range []string{"explode", "keep:3", "rollback:", "retry:", "retry:1", "retry:101",
		"retry:3:", "retry:3:x", "retry:3:-1s", "retry:3:2h", "retry:3:1s:1", " keep", "KEEP"} {
		if got, err := ParseOnFailure(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %+v, %v", bad, got, err)
		}
	}
}

func FuzzParseOnFailure(f *testing.F) {
	for _, s := range []string{"", "keep", "rollback", "retry", "retry:5:30s", "retry:2:1h", "retry:3:1ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseOnFailure(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			return
		}
		if again, err := ParseOnFailure(o.String()); err != nil || again != o {
			t.Errorf("%q is %+v, and %q is %+v, %v", s, o, o, again, err)
		}
	})
}

// TestOnFailureWait holds that waits double, up to an hour.
func TestOnFailureWait(t *testing.T) {
	t.Parallel()
	o := OnFailure{FailRetry, 100, 20 * time.Minute}
	var got []time.Duration
	for n := 1; n <= 5; n++ {
		got = append(got, o.Wait(n))
	}
	if d := cmp.Diff([]time.Duration{20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour, time.Hour}, got); d != "" {
		t.Errorf("waits (-want +got):\n%s", d)
	}
	if w := (OnFailure{Policy: FailRetry}).Wait(90); w != 0 {
		t.Errorf("without a wait it is %s", w)
	}
}

func TestParsePriority(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Priority{"": 0, "normal": 0, "low": -10, "high": 10, "7": 7, "-100": -100, "100": 100} {
		got, err := ParsePriority(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		if again, err := ParsePriority(got.String()); err != nil || again != got {
			t.Errorf("%s is %d, %v", got, again, err)
		}
	}
	for _, bad := range []string{"urgent", "101", "-101", "1.5", " 1"} {
		if got, err := ParsePriority(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %d, %v", bad, got, err)
		}
	}
}

// TestJobOptions holds their JSON, and which of two count.
func TestJobOptions(t *testing.T) {
	t.Parallel()
	j := Job{JobOptions: JobOptions{OnFailure: OnFailure{Policy: FailKeep}, Priority: PriorityHigh, After: "x"}}
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil || fields["on_failure"] != "keep" ||
		fields["priority"] != "high" || fields["after"] != "x" {
		t.Errorf("%s, %v", b, err)
	}
	var back Job
	if err := json.Unmarshal(b, &back); err != nil || back.JobOptions != j.JobOptions {
		t.Errorf("%+v, %v", back, err)
	}
	profile := JobOptions{OnFailure: OnFailure{Policy: FailKeep}, Priority: 3}
	if got := (JobOptions{Priority: 5, After: "y"}).Over(profile); got != (JobOptions{OnFailure: profile.OnFailure, Priority: 5, After: "y"}) {
		t.Errorf("%+v", got)
	}
}
