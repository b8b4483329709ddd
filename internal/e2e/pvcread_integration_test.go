//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/lab"
)

// pvcReads checks what the commands of PVC's client read in the definition of a machine that a
// script has defined: its size, NICs and disks.
func pvcReads(t *testing.T, s *lab.Stack, name string) {
	t.Helper()
	vm, err := s.API.Instance(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	answer := asPVC(t, s, http.MethodGet, "/vm/"+name)
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", filepath.Join(lab.Root(), "internal/e2e/testdata/pvcread.py"))
	cmd.Stdin = strings.NewReader(answer)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("PVC's client could not read %s: %v\n%s", answer, err, said.String())
		return
	}
	type disk struct{ File, Type, Dev, Bus string }
	type nic struct{ Network, MAC, Model string }
	var got struct {
		Dump, Topology string
		VCPUs, Memory  int
		Networks       []nic
		Volumes        []disk
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if len(got.Networks) != len(vm.NICs) {
		t.Fatalf("%s has the NICs %+v for PVC's client, and %+v", name, got.Networks, vm.NICs)
	}
	want := got
	want.VCPUs, want.Topology, want.Memory = vm.VCPUs, fmt.Sprintf("1/%d/1", vm.VCPUs), int(vm.Memory/seedbed.MiB)
	want.Networks, want.Volumes = nil, nil
	for i, n := range vm.NICs {
		want.Networks = append(want.Networks, nic{Network: got.Networks[i].Network, MAC: n.MAC.String(), Model: "virtio"})
	}
	for i, v := range vm.Volumes {
		file := filepath.Join(s.Dir, "pools", v.Pool, "volumes", v.Name+".qcow2")
		want.Volumes = append(want.Volumes, disk{File: file, Type: "file", Dev: fmt.Sprintf("sd%c", 'a'+i), Bus: "scsi"})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what PVC's client reads of %s (-want +got):\n%s", name, d)
	}
	if !strings.HasPrefix(got.Dump, "<domain ") {
		t.Errorf("the definition is\n%s", got.Dump)
	}
}
