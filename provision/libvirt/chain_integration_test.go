//go:build integration && libvirt

package libvirt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/libvirt"
)

// TestHeaderOfAGuest holds that no file of the host is opened that a volume's header names, and that
// the definition of an earlier release, which left that to libvirt, is mended at the next start.
func TestHeaderOfAGuest(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	source := blank(t)
	secret := filepath.Join(ours.dir, "secret")
	if err := os.WriteFile(secret, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(secret)
	d, err := libvirt.Open(t.Context(), libvirt.Config{
		URI: system, DomainType: libvirt.TypeAuto, ConsoleDir: filepath.Join(t.TempDir(), "console"),
		CDROMDir: t.TempDir(),
		Volumes:  func(path string) (image.Volume, bool, error) { return image.Volume{Path: source}, path == source, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	spec := newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: source})
	if err := d.DefineDomain(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	defer remove(t, d, spec.ID)
	command(t, "qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret, source)
	if err := d.StartDomain(t.Context(), spec.ID); !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), secret) {
		t.Errorf("start: %v; want ErrConflict that names %s", err, secret)
	}

	// libvirtd starts it by itself if it has autostart.
	dom := lookup(t, base, spec.ID)
	if err := dom.Create(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(secret)
	if err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the file of the host is given away: %+v, %v", st, err)
	}
	if err := dom.Destroy(); err != nil {
		t.Fatal(err)
	}

	command(t, "qemu-img", "rebase", "-u", "-f", "qcow2", "-b", "", source)
	xml := func() string {
		t.Helper()
		doc, err := lookup(t, base, spec.ID).GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	const ends = "<backingStore/>"
	if !strings.Contains(xml(), ends) {
		t.Fatalf("the definition does not end the chain:\n%s", xml())
	}
	if _, err := base.DomainDefineXML(strings.Replace(xml(), ends, "", 1)); err != nil {
		t.Fatal(err)
	}
	if err := d.StartDomain(t.Context(), spec.ID); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(xml(), ends) {
		t.Errorf("the definition is as before:\n%s", xml())
	}
}
