//go:build integration

package lab

import (
	"os"
	"testing"
)

// TestDropLeft removes the domain of a test that has ended, and leaves that of one which runs.
func TestDropLeft(t *testing.T) {
	Libvirt(t)
	names := map[string]string{"sblab-gone": Dir(t), "sblab-here": Dir(t)}
	for name, dir := range names {
		runTiny(t, name, dir)
	}
	os.RemoveAll(names["sblab-gone"])
	dropLeft(t)
	if virsh("dominfo", "sblab-gone") == nil {
		t.Error("the domain of a test that has ended is there")
	}
	if err := virsh("dominfo", "sblab-here"); err != nil {
		t.Errorf("the domain of a test that runs: %v", err)
	}
	dropDomains(t, names["sblab-here"])
	if virsh("dominfo", "sblab-here") == nil {
		t.Error("the domain of this test is there after it has ended")
	}
}
