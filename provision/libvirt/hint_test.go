package libvirt

import (
	"strings"
	"testing"
)

// TestStartHint: the hint is one for the host, with systemd and without.
func TestStartHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := startHint(dir); !strings.Contains(got, "systemctl start libvirtd virtlogd") {
		t.Error(got)
	}
	if got := startHint(dir + "/none"); !strings.Contains(got, "virtlogd -d && libvirtd -d") {
		t.Error(got)
	}
}
