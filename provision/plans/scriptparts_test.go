package plans

import (
	"testing"

	"seedbed"
)

// TestSuffixed checks that the names that a script gives its volumes become those in their pools,
// in sources and devices, and that this may be repeated.
func TestSuffixed(t *testing.T) {
	t.Parallel()
	inst := seedbed.Instance{Volumes: []seedbed.Volume{{Pool: "p", Name: "vm_a-1"}, {Pool: "p", Name: "vm_a2-1"}}}
	const xml = `<source name='p/vm_a'/><source dev="/dev/rbd/p/vm_a2"/><source name="p/vm_a2"/><source name='q/vm_a'/><x>p/vm_a</x>`
	const want = `<source name='p/vm_a-1'/><source dev="/dev/rbd/p/vm_a2-1"/><source name="p/vm_a2-1"/><source name='q/vm_a'/><x>p/vm_a</x>`
	got := suffixed(xml, inst, "-1")
	if got != want || suffixed(got, inst, "-1") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVolumeSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]seedbed.Bytes{
		"8G": 8 * seedbed.GiB, "8g": 8 * seedbed.GiB, "8GiB": 8 * seedbed.GiB, "8GB": 8 * seedbed.GiB,
		"512": 512, "513": 1024, "1.5M": 1536 * seedbed.KiB,
		" 2T ": 2 * seedbed.TiB, "1024B": 1024,
		"": 0, "G": 0, "-1G": 0, "0": 0, "1Q": 0, "1e3x": 0, "nan": 0, "Inf": 0, "0x10": 0, "1_0": 0, "8 apples": 0,
	} {
		got, err := parseVolumeSize(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzVolumeSize(f *testing.F) {
	for _, s := range []string{"8G", "512", "1.5M", "1e300Q", "-0", "8GiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		size, err := parseVolumeSize(s)
		if err == nil && (size <= 0 || size > seedbed.MaxDisk || size%512 != 0) {
			t.Errorf("%q is %d", s, size)
		}
	})
}

func TestTrailing(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web": "0", "web3": "3", "web03": "3", "a1b22": "22", "web0": "0", "x99999999999999999999": "99999999999999999999",
	} {
		if got := trailing(name); string(got) != want {
			t.Errorf("%s has %s; want %s", name, got, want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	r := covers([]string{"abc", "open", "open sesame", "-----BEGIN\nkey body\n"})
	for text, want := range map[string]string{
		"abc": "abc", "open sesame, reopened": "***, re***ed", "key body": "***", "-----BEGIN\nkey body": "***",
	} {
		if got := r.Replace(text); got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
	}
}
