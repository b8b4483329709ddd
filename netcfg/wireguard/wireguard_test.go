package wireguard

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"seedbed"
)

// TestOpen: a key is made once, only its owner reads it, and nothing shows it.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadPublic(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("public key before there is one: %v", err)
	}
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "overlay.key"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the private key has mode %v, %v", info.Mode(), err)
	}
	if err := os.Remove(filepath.Join(dir, "overlay.pub")); err != nil { // as a crash between the two leaves it
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil || again != first {
		t.Errorf("opened again: another key, %v", err)
	}
	if public, err := ReadPublic(dir); err != nil || public != first.Public() {
		t.Errorf("public key %v, %v, want %v", public, err, first.Public())
	}
	secret := first.private.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, struct{ Key *Identity }{&first}) + fmt.Sprintf(verb, first); strings.Contains(text, secret) ||
			strings.Contains(text, fmt.Sprint([32]byte(first.private))) {
			t.Errorf("%s shows the key", verb)
		}
	}
	other, err := Open(t.TempDir())
	if err != nil || other == first {
		t.Errorf("two nodes have the same key, %v", err)
	}
}

// TestOpenDamaged: a file that is not a key is left, and the error does not show what is in it.
func TestOpenDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range []string{"", "secret", strings.Repeat("A", 43) + "="} {
		if err := os.WriteFile(filepath.Join(dir, "overlay.key"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		if !errors.Is(err, seedbed.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open of %q = %v", text, err)
		}
		if now, err := os.ReadFile(filepath.Join(dir, "overlay.key")); err != nil || string(now) != text {
			t.Errorf("the file is %q now, %v", now, err)
		}
	}
}

// TestReadPublicHostile: whoever owns the directory cannot keep a reader waiting, or have it read another file.
func TestReadPublicHostile(t *testing.T) {
	t.Parallel()
	own, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(own.private.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"FIFO":      func(file string) error { return unix.Mkfifo(file, 0o644) },
		"link":      func(file string) error { return os.Symlink(secret, file) },
		"directory": func(file string) error { return os.Mkdir(file, 0o755) },
		"long": func(file string) error {
			return os.WriteFile(file, []byte(own.private.String()+strings.Repeat(" ", 100)), 0o644)
		},
		"device": func(file string) error { return os.Symlink("/dev/zero", file) },
		"socket": func(file string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: file})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := make(filepath.Join(dir, "overlay.pub")); err != nil {
				t.Fatal(err)
			}
			if key, err := ReadPublic(dir); !errors.Is(err, seedbed.ErrInvalid) || key != (seedbed.TunnelKey{}) {
				t.Errorf("read %v, %v", key, err)
			}
		})
	}
}

// TestOpenReadable: a key that others can read is not used.
func TestOpenReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "overlay.key"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "mode 0640") {
		t.Errorf("Open of a key that others can read = %v", err)
	}
}

// TestMissing: without a key, no interface is configured, and the error says why.
func TestMissing(t *testing.T) {
	t.Parallel()
	why := errors.New("no room")
	none := Missing(why)
	if err := none.Configure("sw-none", 51820, nil, nil); !errors.Is(err, why) || none.Public() != (seedbed.TunnelKey{}) {
		t.Errorf("configured without a key: %v, public key %v", err, none.Public())
	}
}

// TestChange: an interface is told only what it lacks, and forgets the peers that are gone. One that answers from elsewhere is left.
func TestChange(t *testing.T) {
	t.Parallel()
	own, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := seedbed.TunnelKey{1}, seedbed.TunnelKey{2}, seedbed.TunnelKey{3}
	at := netip.MustParseAddrPort
	want := Peers{a: at("192.0.2.1:51820"), b: at("192.0.2.2:51820")}
	allowed := func(k seedbed.TunnelKey) []net.IPNet {
		return []net.IPNet{{IP: net.IP(k.Addr().AsSlice()), Mask: net.CIDRMask(128, 128)}}
	}
	right := func() *wgtypes.Device {
		return &wgtypes.Device{PrivateKey: own.private, ListenPort: 51820, Peers: []wgtypes.Peer{
			{PublicKey: wgtypes.Key(a), Endpoint: net.UDPAddrFromAddrPort(want[a]), AllowedIPs: allowed(a)},
			{PublicKey: wgtypes.Key(b), Endpoint: net.UDPAddrFromAddrPort(want[b]), AllowedIPs: allowed(b)},
		}}
	}
	for name, tt := range map[string]struct {
		change func(*wgtypes.Device)
		before Peers
		want   []seedbed.TunnelKey // that are told
	}{
		"nothing":             {func(*wgtypes.Device) {}, want, nil},
		"nothing is known":    {func(*wgtypes.Device) {}, nil, nil},
		"a peer moved":        {func(d *wgtypes.Device) { d.Peers[0].Endpoint.Port = 9 }, want, nil},
		"a peer is elsewhere": {func(d *wgtypes.Device) { d.Peers[0].Endpoint.Port = 9 }, nil, []seedbed.TunnelKey{a}},
		"a peer answers from elsewhere": {func(d *wgtypes.Device) {
			d.Peers[0].Endpoint.Port, d.Peers[0].LastHandshakeTime = 9, time.Now().Add(-time.Minute)
		}, nil, nil},
		"a peer answered from elsewhere": {func(d *wgtypes.Device) {
			d.Peers[0].Endpoint.Port, d.Peers[0].LastHandshakeTime = 9, time.Now().Add(-time.Hour)
		}, nil, []seedbed.TunnelKey{a}},
		"a peer is to move": {func(*wgtypes.Device) {}, Peers{a: want[a], b: at("192.0.2.9:1")}, []seedbed.TunnelKey{b}},
		"a peer is gone":    {func(d *wgtypes.Device) { d.Peers[1].PublicKey = wgtypes.Key(c) }, want, []seedbed.TunnelKey{c, b}},
		"a peer may send more": {func(d *wgtypes.Device) { d.Peers[1].AllowedIPs = append(allowed(b), allowed(a)...) }, want,
			[]seedbed.TunnelKey{b}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := right()
			tt.change(d)
			c, some := own.change(d, 51820, want, tt.before)
			var told []seedbed.TunnelKey
			for _, p := range c.Peers {
				told = append(told, seedbed.TunnelKey(p.PublicKey))
			}
			if fmt.Sprint(told) != fmt.Sprint(tt.want) || some != (len(tt.want) > 0) || c.PrivateKey != nil || c.ListenPort != nil {
				t.Errorf("told %v, %t, want %v", told, some, tt.want)
			}
		})
	}
	empty, some := own.change(&wgtypes.Device{}, 51820, want, want)
	if !some || *empty.PrivateKey != own.private || *empty.ListenPort != 51820 || len(empty.Peers) != 2 {
		t.Error("a new interface does not get everything")
	}
}
