package libvirt

import "testing"

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
		"/nvram/web1.shop_VARS.fd":                 "/nvram/web2_VARS.fd",
		"/nvram/web1_VARS.qcow2":                   "/nvram/web2_VARS.qcow2",
		"/nvram/of-an-administrator.fd":            "/nvram/of-an-administrator.fd",
		"":                                         "",
	} {
		if got := variablesNamed(path, "web2"); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}
