//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/provision/libvirt"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

const (
	system   = "qemu:///system"
	memory   = "test:///default"
	bridge   = "sbtest0"
	patience = 60 * time.Second
)

var _ worker.Hypervisor = (*libvirt.Driver)(nil)

// sequence gives every domain of a run a name and a tap of its own.
var sequence atomic.Int64

func TestContractOnTestDriver(t *testing.T) {
	base := connect(t, memory) // keeps the state that all connections of the process share
	drivertest.TestHypervisor(t, drivertest.HypervisorDriver{
		Open:       func(t *testing.T) worker.Hypervisor { return open(t, memory) },
		Spec:       func(t *testing.T) seedbed.DomainSpec { return newSpec(t, base, seedbed.Disk{}) },
		Foreign:    func(t *testing.T, id seedbed.InstanceID, name string) { foreign(t, base, id, name, "test") },
		NoConsoles: true, NoUsage: true,
	})
}

func TestContractOnQEMU(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	drivertest.TestHypervisor(t, drivertest.HypervisorDriver{
		Open: func(t *testing.T) worker.Hypervisor { return open(t, system) },
		Spec: func(t *testing.T) seedbed.DomainSpec {
			return newSpec(t, base, seedbed.Disk{Type: "file", Format: "qcow2", Source: blank(t)})
		},
		Foreign: func(t *testing.T, id seedbed.InstanceID, name string) { foreign(t, base, id, name, "qemu") },
	})
}

// TestGuestRuns boots a guest from its disk's boot sector: tap, console, state
// and what is left afterwards.
func TestGuestRuns(t *testing.T) {
	base, dir := connect(t, system), t.TempDir()
	withBridge(t)
	d := openIn(t, system, dir)
	disk := seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, sayHello)}
	s := newSpec(t, base, disk)
	if err := d.DefineDomain(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := d.StartDomain(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	t.Logf("start_s %.2f s", time.Since(begin).Seconds())
	if _, err := os.Stat(filepath.Join("/sys/class/net", bridge, "brif", s.NICs[0].Tap)); err != nil {
		t.Errorf("the tap is not in the bridge: %v", err)
	}
	until(t, "the guest speaks on its console", func() bool {
		text, err := d.Console(t.Context(), s.ID, seedbed.KiB)
		return err == nil && bytes.Contains(text, []byte("seedbed says hello"))
	})
	log := filepath.Join(dir, "console", string(s.ID)+".log")
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("console log: %v, %v; want mode 0600", info, err)
	}
	dom := lookup(t, base, s.ID)
	if err := dom.Suspend(); err != nil {
		t.Fatal(err)
	}
	wantState(t, d, s.ID, seedbed.DomainPaused)
	if err := d.StartDomain(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	wantState(t, d, s.ID, seedbed.DomainRunning)
	remove(t, d, s.ID)
	for _, gone := range []string{log, filepath.Join("/sys/class/net", s.NICs[0].Tap)} {
		if _, err := os.Stat(gone); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", gone, err)
		}
	}
	if _, err := os.Stat(disk.Source); err != nil {
		t.Errorf("the volume went with the domain: %v", err)
	}
}

// TestTapOfAnother: a domain whose interface another running domain has, as one that the database has
// forgotten, does not start, and the message says which domain that is and what to do.
func TestTapOfAnother(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	first, second := newSpec(t, base, seedbed.Disk{}), newSpec(t, base, seedbed.Disk{})
	second.NICs[0].Tap = first.NICs[0].Tap
	for _, s := range []seedbed.DomainSpec{first, second} {
		if err := d.DefineDomain(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.StartDomain(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	report, err := d.Report(t.Context())
	if number, ok := seedbed.NICOfTap(first.NICs[0].Tap); err != nil || !ok || report.HighestNIC < number {
		t.Errorf("the highest NIC is %d, %v; want at least that of %s", report.HighestNIC, err, first.NICs[0].Tap)
	}
	err = d.StartDomain(t.Context(), second.ID)
	for _, want := range []string{first.NICs[0].Tap, first.Name, "seedbed orphan list"} {
		if !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("the second is started: %v; want a conflict that names %s", err, want)
		}
	}
	remove(t, d, first.ID)
	if err := d.StartDomain(t.Context(), second.ID); err != nil {
		t.Errorf("without the first: %v", err)
	}
	remove(t, d, second.ID)
}

// TestGuestShutsDown: a guest that listens goes off when it is asked to, however
// early it is asked; one that does not runs on until it is destroyed.
func TestGuestShutsDown(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	events := watch(t, d)
	for _, guest := range []struct {
		name   string
		code   []byte
		listen bool
	}{{"listens", obeys, true}, {"deaf", sayHello, false}} {
		s := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, guest.code)})
		for _, err := range []error{d.DefineDomain(t.Context(), s), d.ShutdownDomain(t.Context(), s.ID), d.StartDomain(t.Context(), s.ID)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		off := func() bool {
			if err := d.ShutdownDomain(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			info, err := d.DomainState(t.Context(), s.ID)
			return err == nil && info.State == seedbed.DomainOff
		}
		if guest.listen {
			until(t, "the guest is off", off)
			wantEvent(t, events, "stopped", s.ID)
		} else {
			until(t, "the guest speaks on its console", func() bool {
				text, err := d.Console(t.Context(), s.ID, seedbed.KiB)
				return err == nil && bytes.Contains(text, []byte("seedbed says hello"))
			})
			if off() {
				t.Errorf("a guest that does not listen went off")
			}
			if err := lookup(t, base, s.ID).Suspend(); err != nil {
				t.Fatal(err)
			}
			if err := d.ShutdownDomain(t.Context(), s.ID); !errors.Is(err, seedbed.ErrInUse) {
				t.Errorf("shut down while paused: %v; want ErrInUse", err)
			}
		}
		remove(t, d, s.ID)
	}
}

// TestGuestPanics: a panic ends the domain, its state and last event say crashed, and it starts
// again, unless it is kept.
func TestGuestPanics(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	events := watch(t, d)
	s := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, panics)})
	crashed := func() bool {
		info, err := d.DomainState(t.Context(), s.ID)
		return err == nil && info.State == seedbed.DomainCrashed
	}
	for range 2 {
		if err := d.DefineDomain(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := d.StartDomain(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, events, "crashed", s.ID)
		until(t, "the state is crashed", crashed)
	}
	// A person may have libvirt keep what has crashed: it is not started over.
	doc, err := lookup(t, base, s.ID).GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		t.Fatal(err)
	}
	var kept libvirtxml.Domain
	if err := kept.Unmarshal(doc); err != nil {
		t.Fatal(err)
	}
	kept.OnCrash = "preserve"
	if doc, err = kept.Marshal(); err != nil {
		t.Fatal(err)
	}
	if dom, err := base.DomainDefineXML(doc); err != nil {
		t.Fatal(err)
	} else if err := dom.Free(); err != nil {
		t.Error(err)
	}
	if err := d.StartDomain(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the state is crashed again", crashed)
	wantConflict(t, "start", d.StartDomain(t.Context(), s.ID))
	if err := d.DestroyDomain(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	remove(t, d, s.ID)
}

// TestClonedTag: a copy made by virt-clone carries the original's tag and is nobody's but its
// owner's.
func TestClonedTag(t *testing.T) {
	base := connect(t, memory)
	d := open(t, memory)
	s := newSpec(t, base, seedbed.Disk{})
	s.Project = "acme"
	if err := d.DefineDomain(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	doc, err := lookup(t, base, s.ID).GetXMLDesc(0)
	if err != nil {
		t.Fatal(err)
	}
	var clone libvirtxml.Domain
	if err := clone.Unmarshal(doc); err != nil {
		t.Fatal(err)
	}
	id := seedbed.NewInstanceID()
	clone.Name, clone.UUID, clone.SysInfo, clone.ID = "clone", string(id), nil, nil
	define(t, base, clone)
	wantConflict(t, "destroy", d.DestroyDomain(t.Context(), id))
	wantConflict(t, "undefine", d.UndefineDomain(t.Context(), id))
	all, err := d.Domains(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != s.ID {
		t.Errorf("Domains: %+v, %v; want only the original", all, err)
	}
	if f, err := d.ForeignDomain(t.Context(), "clone"); err != nil || f.Project != "acme" {
		t.Errorf("the copy: %+v, %v; want the project of the original", f, err)
	}
}

// open opens a driver with consoles of its own, and closes it with t.
func open(t *testing.T, uri string) *libvirt.Driver {
	t.Helper()
	return openIn(t, uri, t.TempDir())
}

func openIn(t *testing.T, uri, dir string) *libvirt.Driver {
	t.Helper()
	d, err := libvirt.Open(t.Context(), libvirt.Config{
		URI: uri, DomainType: libvirt.TypeAuto, ConsoleDir: filepath.Join(dir, "console"),
		CDROMDir: filepath.Join(ours.dir, "cdrom"), // which QEMU's user can enter
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newSpec is a domain of its own that goes with t, whatever became of it.
func newSpec(t *testing.T, base *lv.Connect, disk seedbed.Disk) seedbed.DomainSpec {
	t.Helper()
	n := sequence.Add(1)
	s := seedbed.DomainSpec{
		ID: seedbed.NewInstanceID(), Name: fmt.Sprintf("sbtest-%d-%d", os.Getpid(), n), VCPUs: 1, Memory: 64 * seedbed.MiB,
		NICs:    []seedbed.DomainNIC{{Tap: seedbed.NICID(2_000_000_000 + n).Tap(), MAC: seedbed.NewMAC(), Bridge: bridge}},
		Profile: "test", Job: seedbed.NewJobID(),
	}
	if disk.Type != "" {
		s.Disks = []seedbed.Disk{disk}
	}
	t.Cleanup(func() { vanish(base, s.ID) })
	return s
}

func vanish(base *lv.Connect, id seedbed.InstanceID) {
	dom, err := base.LookupDomainByUUIDString(string(id))
	if err != nil {
		return
	}
	defer dom.Free()
	dom.Destroy()
	dom.Undefine()
}

func foreign(t *testing.T, base *lv.Connect, id seedbed.InstanceID, name, domainType string) {
	t.Helper()
	define(t, base, libvirtxml.Domain{
		Type: domainType, Name: name, UUID: string(id), Memory: &libvirtxml.DomainMemory{Value: 64, Unit: "MiB"},
		OS: &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm"}},
	})
}

// define defines a domain past the driver, and undefines it with t.
func define(t *testing.T, base *lv.Connect, x libvirtxml.Domain) {
	t.Helper()
	doc, err := x.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	dom, err := base.DomainDefineXML(doc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dom.Undefine(); err != nil {
			t.Errorf("the foreign domain is gone: %v", err)
		}
		dom.Free()
	})
}

func lookup(t *testing.T, base *lv.Connect, id seedbed.InstanceID) *lv.Domain {
	t.Helper()
	dom, err := base.LookupDomainByUUIDString(string(id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dom.Free() })
	return dom
}

// withBridge makes the bridge that the domains' NICs are on.
func withBridge(t *testing.T) {
	t.Helper()
	command(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { command(t, "ip", "link", "del", bridge) })
	command(t, "ip", "link", "set", bridge, "up")
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}
