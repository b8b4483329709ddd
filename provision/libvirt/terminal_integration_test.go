//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/libvirt"
)

// echoes writes each byte that comes in at the first serial port to it.
var echoes = []byte{
	0xba, 0xfd, 0x03, // next: mov dx, 0x3fd
	0xec,       // look: in al, dx
	0xa8, 0x01, // test al, 1 (a byte has come)
	0x74, 0xfb, // jz look
	0xba, 0xf8, 0x03, // mov dx, 0x3f8
	0xec,       // in al, dx
	0xee,       // out dx, al
	0xeb, 0xf1, // jmp next
}

// consoleOf opens the console of a guest that runs the code of a boot sector.
func consoleOf(t *testing.T, code []byte) (*libvirt.Driver, seedbed.DomainSpec, io.ReadWriteCloser) {
	t.Helper()
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	s := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, code)})
	if err := errors.Join(d.DefineDomain(t.Context(), s), d.StartDomain(t.Context(), s.ID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, d, s.ID) })
	console, err := d.OpenConsole(t.Context(), s.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { console.Close() })
	return d, s, console
}

// TestConsoleOfGuest types at the console of a guest. The console's log, which is beside it, has all of it, and what opens the
// console outside Seedbed is neither disturbed nor does it disturb, until it is taken over.
func TestConsoleOfGuest(t *testing.T) {
	d, s, console := consoleOf(t, echoes)
	heard := make(chan byte, 1<<20)
	go func() {
		defer close(heard)
		var b [512]byte
		for {
			n, err := console.Read(b[:])
			for _, c := range b[:n] {
				heard <- c
			}
			if err != nil {
				return
			}
		}
	}()
	until(t, "the guest echoes", func() bool {
		if _, err := console.Write([]byte(".")); err != nil {
			t.Fatal(err)
		}
		select {
		case c := <-heard:
			return c == '.'
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
	text := strings.Repeat("the quick brown fox ", 200)
	go console.Write([]byte(text + "!"))
	var got bytes.Buffer
	for deadline := time.After(patience); ; {
		var c byte
		select {
		case c = <-heard:
		case <-deadline:
			t.Fatalf("after %d bytes, nothing more is echoed", got.Len())
		}
		if c == '!' {
			break
		}
		got.WriteByte(c)
	}
	if !strings.HasSuffix(got.String(), text) {
		t.Errorf("the guest echoed %q", got.String())
	}
	until(t, "the log has it as well", func() bool {
		log, err := d.Console(t.Context(), s.ID, seedbed.MiB)
		return err == nil && bytes.Contains(log, []byte(text+"!"))
	})

	other := open(t, system) // as virsh, it knows nothing of the first
	if _, err := other.OpenConsole(t.Context(), s.ID, false); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("it is opened by another: %v; want ErrInUse", err)
	}
	taken, err := other.OpenConsole(t.Context(), s.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the first has lost it", func() bool {
		_, ok := <-heard
		return !ok
	})
	if err := d.DestroyDomain(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, taken); err != nil {
		t.Errorf("the domain ends: %v; want the end of the output", err)
	}
	if err := errors.Join(taken.Close(), console.Close()); err != nil {
		t.Error(err)
	}
}

// dots writes a dot to the first serial port at each tick of the timer, and never reads.
var dots = []byte{
	0xfb,             // sti
	0xba, 0xf8, 0x03, // mov dx, 0x3f8
	0xb0, '.', // next: mov al, '.'
	0xee,       // out dx, al
	0xf4,       // hlt
	0xeb, 0xfa, // jmp next
}

// TestConsoleOfDeafGuest types more than fits into the buffers of a console whose guest reads nothing. That is refused in time,
// and the output goes on.
func TestConsoleOfDeafGuest(t *testing.T) {
	_, _, console := consoleOf(t, dots)
	heard, typed := make(chan byte), make(chan error, 1)
	go func() {
		defer close(heard)
		var b [1]byte
		for {
			if _, err := console.Read(b[:]); err != nil {
				return
			}
			select {
			case heard <- b[0]:
			case <-t.Context().Done():
				return
			}
		}
	}()
	go func() {
		_, err := console.Write(make([]byte, 4<<20))
		typed <- err
	}()
	begin := time.Now()
	if err := <-typed; !errors.Is(err, seedbed.ErrUnavailable) || time.Since(begin) > patience {
		t.Fatalf("after %s: %v; want ErrUnavailable", time.Since(begin), err)
	}
	for range 20 {
		select {
		case _, ok := <-heard:
			if !ok {
				t.Fatal("the output has ended")
			}
		case <-time.After(patience):
			t.Fatal("the guest is not heard")
		}
	}
	begin = time.Now()
	if err := console.Close(); err != nil || time.Since(begin) > patience/2 {
		t.Errorf("closed after %s: %v", time.Since(begin), err)
	}
}
