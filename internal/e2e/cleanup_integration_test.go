//go:build integration && libvirt

package e2e

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// TestCleanup takes a domain away behind Seedbed's back: after the grace time
// the cleanup takes the addresses back and stops serving the instance, and
// nothing else; its volumes stay until it is removed.
func TestCleanup(t *testing.T) {
	beside(t)
	s := hostStack(t, lab.StackOptions{Cleanup: `{mappings: {grace: 1s, schedule: "0 0 1 1 *"}}`})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	for _, name := range []string{"kept", "lost"} {
		receipt, err := s.API.CreateInstance(t.Context(), seedbed.Request{Name: name, Profile: "small"})
		if err != nil {
			t.Fatal(err)
		}
		if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
			t.Fatalf("%s: %s: %s", name, job.State, job.Error)
		}
	}
	kept, err := s.API.Instance(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"destroy", "undefine"} {
		s.Virsh(step, "lost")
	}
	clean := func(dry bool) []string {
		t.Helper()
		report, err := s.API.Cleanup(t.Context(), dry, false)
		if err != nil || report.Refused != "" {
			t.Fatalf("cleanup: %v, refused: %s", err, report.Refused)
		}
		var did []string
		for _, task := range report.Items {
			if task.Task == "mappings" {
				did = append(did, task.Action+" "+task.Subject)
			}
		}
		return did
	}
	if did := clean(false); did != nil {
		t.Errorf("the first run, within the grace time, took %v", did)
	}
	lab.Await(t, lab.Patience, "the dry run names what would go", func() bool {
		did := clean(true)
		return len(did) == 1 && strings.HasSuffix(did[0], " lost")
	})
	if vm, err := s.API.Instance(t.Context(), "lost"); err != nil || vm.State == seedbed.InstanceGone {
		t.Errorf("the dry run changed something: %v %v", vm.State, err)
	}
	if did := clean(false); len(did) != 1 || !strings.HasSuffix(did[0], " lost") {
		t.Errorf("the run took %v, want lost", did)
	}
	if vm, err := s.API.Instance(t.Context(), "lost"); err != nil || vm.State != seedbed.InstanceGone || len(vm.NICs) != 0 {
		t.Errorf("afterwards: %v %v %v", vm.State, vm.NICs, err)
	}
	if v := volumes(t, s); len(v) != 2 {
		t.Errorf("volumes: %v, want both", v)
	}
	if vm, err := s.API.Instance(t.Context(), "kept"); err != nil || vm.State != seedbed.InstanceRunning || vm.Revision != kept.Revision {
		t.Errorf("the other instance changed: %v %v", vm, err)
	}
	lab.Await(t, lab.Patience, "the filter of the lost NIC is gone", func() bool {
		return strings.Count(elements(s), `"sb1"`) > 0 && !strings.Contains(elements(s), `"sb2"`)
	})
	removeInstance(t, s, "lost")

	// An instance that has expired goes by itself.
	at := "1s"
	if _, err := s.API.ChangeInstance(t.Context(), "kept", wire.InstanceChange{Expires: &at, AtExpiry: seedbed.ExpiryRemove}); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, lab.Patience, "the instance that has expired is gone", func() bool {
		clean(false)
		_, err := s.API.Instance(t.Context(), "kept")
		return errors.Is(err, seedbed.ErrNotFound)
	})
	nothingLeft(t, s, "lost")
}
