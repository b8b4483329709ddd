package seedbed_test

import (
	"errors"
	"testing"
	"time"

	"seedbed"
)

func FuzzParseJobCursor(f *testing.F) {
	j := seedbed.Job{ID: seedbed.NewJobID(), Created: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	f.Add(j.Cursor().String())
	for _, s := range []string{"", ".", "1.", "1700000000000000." + string(j.ID),
		"9999999999999999999." + string(j.ID), "1." + string(j.ID) + "\n", "-1." + string(j.ID)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := seedbed.ParseJobCursor(s)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again, err := seedbed.ParseJobCursor(c.String())
		if err != nil || again != c {
			t.Fatalf("%q: %+v, and again %+v, %v", s, c, again, err)
		}
	})
}

func TestJobCursor(t *testing.T) {
	t.Parallel()
	j := seedbed.Job{ID: seedbed.NewJobID(), Created: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	if c, err := seedbed.ParseJobCursor(j.Cursor().String()); err != nil || c != j.Cursor() {
		t.Errorf("%s: %+v, %v", j.Cursor(), c, err)
	}
	for _, s := range []string{"", "1", "x." + string(j.ID), "1.x", "1." + string(j.ID) + "0"} {
		if _, err := seedbed.ParseJobCursor(s); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
