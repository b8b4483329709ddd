package seedbed_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unitBounds are what each unit must set, with the value; an empty one is any.
var unitBounds = map[string]string{
	"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "RestrictAddressFamilies": "", "ProtectSystem": "",
	"ProtectHostname": "yes", "ProtectKernelLogs": "yes", "ProtectKernelModules": "yes", "LockPersonality": "yes",
	"RestrictRealtime": "yes", "SystemCallArchitectures": "native", "SystemCallFilter": "",
}

// TestUnitsAreBounded checks that no daemon has more rights than it needs.
func TestUnitsAreBounded(t *testing.T) {
	t.Parallel()
	units, err := filepath.Glob("packaging/systemd/*.service")
	if err != nil || len(units) != 3 {
		t.Fatalf("units %v (%v), want three", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := map[string][]string{}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
				set[key] = append(set[key], value)
			}
		}
		for key, want := range unitBounds {
			if got := set[key]; len(got) == 0 || want != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("%s sets %s to %q, want %q", path, key, got, want)
			}
		}
		// With any of these a daemon would be the kernel's master.
		for _, c := range []string{"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_BOOT", "CAP_MAC_ADMIN", "CAP_SYS_TIME", "~"} {
			if strings.Contains(strings.Join(set["CapabilityBoundingSet"], " "), c) {
				t.Errorf("%s has %s in its bounding set", path, c)
			}
		}
	}
}

// TestWorkersUnitHasWhatItNeeds checks that the unit of seedbed-worker leaves the rights that the
// program uses. Without some of them it works on, but not as its documentation says.
func TestWorkersUnitHasWhatItNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("packaging/systemd/seedbed-worker.service")
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for line := range strings.Lines(string(text)) {
		if set, ok := strings.CutPrefix(strings.TrimSpace(line), "CapabilityBoundingSet="); ok {
			has = append(has, strings.Fields(set)...)
		}
	}
	for what, capability := range map[string]string{
		"imports a file of another user in place": "CAP_LEASE", // provision/image, freeze
		"reads a private file of another user":    "CAP_DAC_READ_SEARCH",
		"maps a volume":                           "CAP_SYS_ADMIN",
		"gives a sandbox its users":               "CAP_SETUID",
	} {
		if !slices.Contains(has, capability) {
			t.Errorf("it %s, and its unit does not leave it %s", what, capability)
		}
	}
}
