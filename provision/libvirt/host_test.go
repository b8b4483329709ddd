package libvirt_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/libvirt"
)

func TestChooseDomainType(t *testing.T) {
	t.Parallel()
	both, emulated := []string{"qemu", "kvm"}, []string{"qemu"}
	denied := &fs.PathError{Op: "open", Path: "/dev/kvm", Err: os.ErrPermission}
	for _, c := range []struct {
		name    string
		setting string
		facts   libvirt.Facts
		want    string
		reason  string // a part of it
		err     error
	}{
		{"real KVM", "auto", libvirt.Facts{CPUFlags: true, Types: both}, "kvm", "opens", nil},
		{"empty is auto", "", libvirt.Facts{CPUFlags: true, Types: both}, "kvm", "opens", nil},
		{"paravirtual KVM without CPU flags", "auto", libvirt.Facts{Types: both}, "qemu", "neither vmx nor svm", nil},
		{"no device", "auto", libvirt.Facts{KVMDevice: os.ErrNotExist, CPUFlags: true, Types: both}, "qemu", "/dev/kvm does not exist", nil},
		{"device not permitted", "auto", libvirt.Facts{KVMDevice: denied, CPUFlags: true, Types: both}, "qemu", "permission denied", nil},
		{"libvirt without kvm", "auto", libvirt.Facts{CPUFlags: true, Types: emulated}, "qemu", "does not list", nil},
		{"only kvm offered, no flags", "auto", libvirt.Facts{Types: []string{"kvm"}}, "", "", seedbed.ErrUnavailable},
		{"only kvm offered", "auto", libvirt.Facts{CPUFlags: true, Types: []string{"kvm"}}, "kvm", "opens", nil},
		{"nothing offered", "auto", libvirt.Facts{CPUFlags: true}, "", "", seedbed.ErrUnavailable},
		{"only xen offered", "auto", libvirt.Facts{Types: []string{"xen"}}, "", "", seedbed.ErrUnavailable},
		{"test driver", "auto", libvirt.Facts{Types: []string{"test"}}, "test", "test driver", nil},
		{"kvm is set and obeyed", "kvm", libvirt.Facts{Types: both}, "kvm", "set by", nil},
		{"kvm is set and not offered", "kvm", libvirt.Facts{CPUFlags: true, Types: emulated}, "", "", seedbed.ErrUnavailable},
		{"qemu is set", "qemu", libvirt.Facts{CPUFlags: true, Types: both}, "qemu", "set by", nil},
		{"unknown", "KVM", libvirt.Facts{CPUFlags: true, Types: both}, "", "", seedbed.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, reason, err := libvirt.ChooseDomainType(c.setting, c.facts)
			if got != c.want || !strings.Contains(reason, c.reason) || !errors.Is(err, c.err) {
				t.Errorf("got %q because %q, %v; want %q because …%q…, %v", got, reason, err, c.want, c.reason, c.err)
			}
		})
	}
}

func TestParseCapabilities(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Fatal("the captured documents are of x86_64 hosts")
	}
	for _, c := range []struct {
		file string
		want libvirt.Offer
	}{
		{"caps-qemu.xml", libvirt.Offer{Arch: "x86_64", Emulator: "/usr/bin/qemu-system-x86_64", Machine: "pc", Types: []string{"qemu", "kvm"}}},
		{"caps-test.xml", libvirt.Offer{Arch: "i686", Types: []string{"test"}}},
	} {
		doc, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := libvirt.ParseCapabilities(string(doc))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.file, diff)
		}
	}
	for _, bad := range []string{"", "<capabilities/>",
		"<capabilities><guest><os_type>hvm</os_type><arch name='sparc'/></guest></capabilities>"} {
		if got, err := libvirt.ParseCapabilities(bad); err == nil {
			t.Errorf("ParseCapabilities(%q): %+v; want an error", bad, got)
		}
	}
}
