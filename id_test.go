package seedbed_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"seedbed"
)

// The IDs of jobs are version 4 UUIDs that stand in the order in which they were made, by
// sixteenths of a millisecond, and differ in their first digits.
func TestNewJobID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := seedbed.NewJobID()
		for range 100 {
			time.Sleep(63 * time.Microsecond)
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
		if len(short) < 4 {
			t.Errorf("16 IDs of one moment begin in %d ways", len(short))
		}
	})
}

// The IDs of instances begin with "ec2" and stand in the order in which they were made.
func TestNewInstanceID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := seedbed.NewInstanceID()
		for range 100 {
			time.Sleep(4 * time.Microsecond)
			id := seedbed.NewInstanceID()
			u, err := uuid.Parse(string(id))
			if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 || !strings.HasPrefix(string(id), "ec2") {
				t.Fatalf("%s: version %d, variant %s, %v", id, u.Version(), u.Variant(), err)
			}
			if id <= before {
				t.Fatalf("%s comes after %s", id, before)
			}
			before = id
		}
		if id := seedbed.NewInstanceID(); id == before || id.EC2() == before.EC2() {
			t.Errorf("two of one moment are alike: %s", id)
		}
	})
}

// TestDatasourceInstanceID: only the UUIDs of EC2's datasource are such that a guest takes them for
// EC2's, in either byte order, at any time; the others are in the order in which they were made too.
func TestDatasourceInstanceID(t *testing.T) {
	t.Parallel()
	swapped := func(id seedbed.InstanceID) string { return string(id[6:8] + id[4:6] + id[2:4] + id[:2]) }
	for _, d := range []seedbed.Datasource{
		"", seedbed.DatasourceEC2, seedbed.DatasourceOpenStack, seedbed.DatasourceNoCloud, seedbed.DatasourceNone,
	} {
		synctest.Test(t, func(t *testing.T) {
			ec2 := d == "" || d == seedbed.DatasourceEC2
			before := d.NewInstanceID()
			for range 4096 {
				time.Sleep(8*time.Hour + 4*time.Microsecond) // almost four years in all
				id := d.NewInstanceID()
				u, err := uuid.Parse(string(id))
				if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 || id <= before {
					t.Fatalf("%s: %s after %s: version %d, variant %s, %v", d, id, before, u.Version(), u.Variant(), err)
				}
				if found := strings.HasPrefix(string(id), "ec2") || strings.HasPrefix(swapped(id), "ec2"); found != ec2 {
					t.Fatalf("%s: a guest takes %s for EC2's: %t", d, id, found)
				}
				before = id
			}
		})
	}
	for id, want := range map[seedbed.InstanceID]bool{
		"ec2e1916-9099-7caf-fd21-012345abcdef": true, "45e12aec-dcd1-b213-94ed-012345abcdef": true, // those of cloud-init's sources
		"5ec2e191-9099-7caf-fd21-012345abcdef": false, "45e1ec2a-dcd1-b213-94ed-012345abcdef": false, "": false, "45e12aec": false,
	} {
		if id.AnnouncesEC2() != want {
			t.Errorf("%q announces EC2: %t", id, !want)
		}
	}
}

// What names and IDs consist of.
func TestForms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for s, want := range map[string]struct{ host, object bool }{
		"a": {true, true}, "0": {true, true}, "web-1": {true, true}, long: {true, true}, "a--b": {true, true},
		"": {}, long + "a": {}, "-a": {}, "ä": {}, "a b": {}, "a\n": {}, "_a": {}, ".": {},
		"Web": {false, true}, "a.b_c": {false, true}, "a-": {false, true}, "a.": {false, true}, "Z": {false, true},
	} {
		if err := seedbed.CheckInstanceName(s); (err == nil) != want.host {
			t.Errorf("host name %q: %v", s, err)
		}
		if err := seedbed.CheckName("hook", s); (err == nil) != want.object {
			t.Errorf("object name %q: %v", s, err)
		}
	}
	const id = "ec2f0123-89ab-4cde-8000-0123456789ab"
	for s, want := range map[string]bool{
		id: true, "": false, strings.ToUpper(id): false, id + "0": false, id[1:]: false, id[:35] + "g": false,
		strings.ReplaceAll(id, "-", "0"): false, strings.Replace(id, "8", "-", 1): false, id[:35] + "\n": false,
	} {
		if _, err := seedbed.ParseInstanceID(s); (err == nil) != want {
			t.Errorf("ID %q: %v", s, err)
		}
	}
}

func TestNICOfTap(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]seedbed.NICID{
		"sb1": 1, "sb2147483647": 1<<31 - 1,
		"": 0, "sb": 0, "sb0": 0, "sb01": 0, "sb-1": 0, "sb+1": 0, "sb2147483648": 0, "sb1a": 0, "sbr0": 0, "tap1": 0,
	} {
		if id, ok := seedbed.NICOfTap(name); id != want || ok != (want > 0) {
			t.Errorf("NIC of %q is %d, %v; want %d", name, id, ok, want)
		}
	}
}
