package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"seedbed"
)

const one = seedbed.InstanceID("ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab")

func TestVirtFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cpuinfo string
		want          bool
	}{
		{"intel", "processor\t: 0\nflags\t\t: fpu vme vmx smx\n", true},
		{"amd", "flags : fpu svm svm_lock\n", true},
		{"neither", "model name : vmx svm\nflags : fpu nosvm vmxoff\nvmx flags : ept\n", false},
		{"empty", "", false},
	} {
		if got := hasVirtFlags(c.cpuinfo); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestKVMDeviceCheck(t *testing.T) {
	t.Parallel()
	device := filepath.Join(t.TempDir(), "kvm")
	if c := checkKVMDevice(device); !c.OK {
		t.Errorf("absent: %+v", c)
	}
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: false, 0o660: true, 0o666: true} {
		if err := os.Chmod(device, mode); err != nil {
			t.Fatal(err)
		}
		if c := checkKVMDevice(device); c.OK != ok || c.OK != (c.Hint == "") {
			t.Errorf("mode %04o: %+v", mode, c)
		}
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "console")
	if err := openConsoleDir(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Fatalf("%v, %v; want mode 0711", info, err)
	}
	if err := openConsoleDir("relative"); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("relative directory: %v", err)
	}
	if got, err := consoleTail(dir, one, seedbed.KiB); err != nil || len(got) != 0 {
		t.Errorf("no file: %q, %v", got, err)
	}
	for suffix, text := range map[string]string{"": "newest", ".0": "middle", ".1": "oldest"} {
		if err := os.WriteFile(consoleLog(dir, one)+suffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for tail, want := range map[seedbed.Bytes]string{
		-1: "", 0: "", 3: "est", 6: "newest", 8: "lenewest", 100: "oldestmiddlenewest", seedbed.TiB: "oldestmiddlenewest",
	} {
		if got, err := consoleTail(dir, one, tail); err != nil || string(got) != want {
			t.Errorf("last %d: %q, %v; want %q", tail, got, err, want)
		}
	}
	for range 2 {
		if err := removeConsole(dir, one); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "other.log" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		room := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- h.watch(ctx, func(e seedbed.DomainEvent) {
				if e.Event == "block" {
					<-room
					return
				}
				got = append(got, e.Event)
			})
		}()
		synctest.Wait()
		send := func(events ...string) {
			for _, e := range events {
				h.send(seedbed.DomainEvent{Event: e})
			}
			synctest.Wait()
		}
		send("before libvirt is followed")
		h.follow(true)
		send("started", "block")
		for range eventBuffer + 10 {
			h.send(seedbed.DomainEvent{Event: "x"})
		}
		close(room)
		send("after")
		h.follow(false)
		send("while libvirt is away")
		h.follow(true)
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
		if len(h.watchers) != 0 {
			t.Error("the watcher stays")
		}
		text := strings.Join(got, " ")
		if want := "resync started " + strings.Repeat("x ", eventBuffer); !strings.HasPrefix(text, want) {
			t.Errorf("got %s", text)
		}
		if rest := strings.TrimLeft(strings.TrimPrefix(text, "resync started "), "x "); rest != "resync after resync" && rest != "resync resync" {
			t.Errorf("after the loss: %q", rest)
		}
	})
}

func TestHubLateWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		h.follow(true)
		ctx, cancel := context.WithCancel(t.Context())
		err := h.watch(ctx, func(e seedbed.DomainEvent) {
			if e.Event != "resync" || e.ID != "" || e.At.IsZero() {
				t.Errorf("first event: %+v", e)
			}
			cancel()
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
