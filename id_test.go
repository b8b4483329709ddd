package seedbed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"seedbed"
)

// The IDs of jobs are version 4 UUIDs that stand in the order in which they were
// made, by quarters of a second, and differ in their first digits.
func TestNewJobID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := seedbed.NewJobID()
		for range 100 {
			time.Sleep(256 * time.Millisecond)
			id := seedbed.NewJobID()
			u, err := uuid.Parse(string(id))
			if err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 {
				t.Fatalf("%s: version %d, variant %s, %v", id, u.Version(), u.Variant(), err)
			}
			if id <= before || id.Short() == before.Short() {
				t.Fatalf("%s comes after %s", id, before)
			}
			before = id
		}
		short := map[string]bool{}
		for range 16 {
			short[seedbed.NewJobID().Short()] = true
		}
		if len(short) < 12 {
			t.Errorf("16 IDs of one moment begin in %d ways", len(short))
		}
	})
}
