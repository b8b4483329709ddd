//go:build integration && libvirt

package e2e

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// efiMachine is one whose image asks for UEFI. Nothing is on its disk that UEFI could
// start, which its firmware says on the console.
type efiMachine struct{ name string }

// startEFI makes one.
func startEFI(t *testing.T, s *lab.Stack) efiMachine {
	t.Helper()
	m := newEFI(t, s)
	if job := m.create(t, s, seedbed.OnFailure{}); job.State != seedbed.JobSucceeded {
		t.Fatalf("%s: %s: %s", m.name, job.State, job.Error)
	}
	return m
}

// newEFI makes what one is made from.
func newEFI(t *testing.T, s *lab.Stack) efiMachine {
	t.Helper()
	receipt, err := s.API.ImportImage(t.Context(),
		wire.ImageRequest{Name: "efi", Path: lab.BlankImage(t, s.Dir), Firmware: seedbed.FirmwareUEFI})
	if err != nil {
		t.Fatal(err)
	}
	if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
		t.Fatalf("import: %s: %s", job.State, job.Error)
	}
	addProfile(t, s, seedbed.Profile{Name: "efi", Image: "efi", VCPUs: 1, Memory: 256 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	return efiMachine{"efi1"}
}

// create gives the job that makes it once that has ended; meanwhile are called while it is under way.
func (m efiMachine) create(t *testing.T, s *lab.Stack, o seedbed.OnFailure, meanwhile ...func(id string)) seedbed.Job {
	t.Helper()
	receipt, err := s.API.WithJob(seedbed.JobOptions{OnFailure: o}).CreateInstance(t.Context(), seedbed.Request{Name: m.name, Profile: "efi"})
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range meanwhile {
		do(string(receipt.Job))
	}
	return waitJob(t, s, string(receipt.Job))
}

// variables is the file in which libvirt keeps what the firmware remembers.
func (m efiMachine) variables() string { return "/var/lib/libvirt/qemu/nvram/" + m.name + "_VARS.fd" }

// await waits until the UEFI has looked for what it could start.
func (m efiMachine) await(t *testing.T, s *lab.Stack) {
	t.Helper()
	lab.Await(t, longest, "the console of "+m.name+" shows what its UEFI tries", func() bool {
		console, err := s.API.Console(t.Context(), m.name, 64*seedbed.KiB)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(console), "BdsDxe: ")
	})
	s.Run("test", "-s", m.variables())
}

// gone checks that nothing of the firmware is left.
func (m efiMachine) gone(t *testing.T, s *lab.Stack) {
	t.Helper()
	if _, err := s.Try("test", "-e", m.variables()); err == nil {
		t.Errorf("%s is left", m.variables())
	}
}
