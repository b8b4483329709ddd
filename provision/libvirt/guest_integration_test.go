//go:build integration && libvirt

package libvirt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/libvirt"
)

var (
	// sayHello writes the text behind it to the first serial port, and halts.
	sayHello = slices.Concat([]byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xfc,             // cld
		0xbe, 0x16, 0x7c, // mov si, 0x7c16 (the text)
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x03, // jz halt
		0xee,       // out dx, al
		0xeb, 0xf8, // jmp next
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}, []byte("seedbed says hello\r\n\x00"))
	// obeys waits for the power button, as the ACPI event registers that SeaBIOS has
	// set up tell it (port 0x600, ACPI 4.8.3.1), and then goes to S5.
	obeys = []byte{
		0xba, 0x02, 0x06, // mov dx, 0x602 (PM1 enable)
		0xb8, 0x00, 0x01, // mov ax, 0x0100 (PWRBTN_EN)
		0xef,             // out dx, ax
		0xba, 0x00, 0x06, // mov dx, 0x600 (PM1 status)
		0xed,             // look: in ax, dx
		0xf6, 0xc4, 0x01, // test ah, 1 (PWRBTN_STS)
		0x74, 0xfa, // jz look
		0xba, 0x04, 0x06, // mov dx, 0x604 (PM1 control)
		0xb8, 0x00, 0x20, // mov ax, 0x2000 (SLP_EN, and the type of S5)
		0xef,       // out dx, ax
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}
	// panics tells the pvpanic device (port 0x505, bit 0) that the guest has panicked, and halts.
	panics = []byte{
		0xba, 0x05, 0x05, // mov dx, 0x505
		0xb0, 0x01, // mov al, 1
		0xee,       // out dx, al
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}
)

// bootable is a raw disk of 1 MiB whose boot sector is code.
func bootable(t *testing.T, code []byte) string {
	t.Helper()
	disk := make([]byte, 1<<20)
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	path := diskPath("raw")
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	return path
}

// blank is an empty qcow2 disk.
func blank(t *testing.T) string {
	t.Helper()
	path := diskPath("qcow2")
	command(t, "qemu-img", "create", "-q", "-f", "qcow2", path, "16M")
	t.Cleanup(func() { os.Remove(path) })
	return path
}

func diskPath(format string) string {
	return filepath.Join(ours.dir, fmt.Sprintf("disk-%d.%s", sequence.Add(1), format))
}

// watch follows a driver until t ends; the first event has been a resync.
func watch(t *testing.T, d *libvirt.Driver) <-chan seedbed.DomainEvent {
	t.Helper()
	events, done := make(chan seedbed.DomainEvent, 1024), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- d.Watch(ctx, func(e seedbed.DomainEvent) { events <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: %v", err)
		}
	})
	wantEvent(t, events, "resync", "")
	return events
}

func wantEvent(t *testing.T, events <-chan seedbed.DomainEvent, event string, id seedbed.InstanceID) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.Event == event && e.ID == id {
				return
			}
		case <-deadline:
			t.Fatalf("no event %q of %q within %v", event, id, patience)
		}
	}
}

func wantState(t *testing.T, d *libvirt.Driver, id seedbed.InstanceID, want seedbed.DomainState) {
	t.Helper()
	if got, err := d.DomainState(t.Context(), id); err != nil || got.State != want {
		t.Fatalf("state: %+v, %v; want %s", got, err, want)
	}
}

func wantConflict(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("%s: %v; want ErrConflict", what, err)
	}
}

func remove(t *testing.T, d *libvirt.Driver, id seedbed.InstanceID) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // the test may have ended
	if err := errors.Join(d.DestroyDomain(ctx, id), d.UndefineDomain(ctx, id)); err != nil {
		t.Error(err)
	}
}

// until polls with a deadline.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
