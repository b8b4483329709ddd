package libvirt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"seedbed"
)

func TestByUEFI(t *testing.T) {
	t.Parallel()
	const devices = `<devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>`
	for name, c := range map[string]struct {
		doc  string
		want bool
	}{
		"uefi":    {`<domain type="kvm"><os firmware="efi"><type arch="x86_64">hvm</type></os>` + devices + `</domain>`, true},
		"bios":    {`<domain type="kvm"><os><type arch="x86_64">hvm</type></os>` + devices + `</domain>`, false},
		"no type": {`<domain type="kvm"><os firmware="efi"/>` + devices + `</domain>`, false},
		"not XML": {`domain`, false},
	} {
		if d, got := byUEFI(c.doc); got != c.want || got && d.Devices.Emulator == "" {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOffersTPM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  string
		want bool
	}{
		"with swtpm": {`<domainCapabilities><devices><tpm supported="yes"><enum name="backendModel"><value>passthrough</value>` +
			`<value>emulator</value></enum></tpm></devices></domainCapabilities>`, true},
		"without": {`<domainCapabilities><devices><tpm supported="yes"><enum name="backendModel"><value>passthrough</value></enum>` +
			`</tpm></devices></domainCapabilities>`, false},
		"unsupported":  {`<domainCapabilities><devices><tpm supported="no"/></devices></domainCapabilities>`, false},
		"nothing said": {`<domainCapabilities/>`, true},
		"not XML":      {`capabilities`, true},
	} {
		if got := offersTPM(c.doc); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOffersUEFI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  string
		want bool
	}{
		"with ovmf": {
			`<domainCapabilities><os supported="yes"><enum name="firmware"><value>bios</value><value>efi</value></enum></os></domainCapabilities>`,
			true,
		},
		"without": {`<domainCapabilities><os supported="yes"><enum ` +
			`name="firmware"/><loader><enum name="type"><value>efi</value></enum></loader></os></domainCapabilities>`, false},
		"nothing said": {`<domainCapabilities/>`, true},
		"not XML":      {`capabilities`, true},
	} {
		if got := offersUEFI(c.doc); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestVariablesNamed(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/var/lib/libvirt/qemu/nvram/web1_VARS.fd": "/var/lib/libvirt/qemu/nvram/web2_VARS.fd",
		"/l/qemu/nvram/web1.shop_VARS.fd":          "/l/qemu/nvram/web2_VARS.fd",
		"/l/qemu/nvram/web1_VARS.qcow2":            "/l/qemu/nvram/web2_VARS.qcow2",
		"/l/qemu/nvram/of-an-administrator.fd":     "/l/qemu/nvram/of-an-administrator.fd",
		"/srv/shared/OVMF_VARS.fd":                 "/srv/shared/OVMF_VARS.fd",
		"":                                         "",
	} {
		if got := variablesNamed(path, "web2"); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}

func TestRenameVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write := func(path string) {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one)
	for range 2 { // the second time there is nothing to do
		if err := renameVariables(one, two); err != nil {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(two); err != nil || string(got) != one {
		t.Errorf("renamed: %q, %v", got, err)
	}
	write(one)
	if err := renameVariables(two, one); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("over those of another domain: %v", err)
	}
	for path, want := range map[string]string{one: one, two: one} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
