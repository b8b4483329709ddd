//go:build integration

package lab

import (
	"os"
	"testing"
	"time"
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

// TestLibvirtIsKept ends the test that has started libvirtd while another uses it.
func TestLibvirtIsKept(t *testing.T) {
	started, used, ending := make(chan struct{}), make(chan struct{}), make(chan struct{})
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		defer close(ending)
		Libvirt(t)
		close(started)
		<-used
	})
	t.Run("second", func(t *testing.T) {
		t.Parallel()
		<-started
		Libvirt(t)
		close(used)
		<-ending
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			if err := virsh("version"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
