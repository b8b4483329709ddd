package pvc

import (
	"strconv"
	"strings"
	"testing"

	"seedbed"
)

func TestLastLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""}, {"a", 1, "a"}, {"a\nb", 1, "b"}, {"a\nb", 2, "a\nb"}, {"a\nb", 9, "a\nb"},
		{"a\nb\n", 1, ""}, {"a\nb\n", 2, "b\n"}, {"\n\n", 2, "\n"}, {"a\nb", 0, ""}, {"a\nb", -1, ""},
	} {
		if got := string(lastLines([]byte(c.text), c.n)); got != c.want {
			t.Errorf("%d lines of %q: %q, want %q", c.n, c.text, got, c.want)
		}
	}
}

func FuzzLastLines(f *testing.F) {
	f.Add([]byte("a\nb\n"), 2)
	f.Add([]byte("\n\n\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		lines := strings.Split(string(text), "\n")
		want := ""
		if n > 0 {
			want = strings.Join(lines[max(0, len(lines)-n):], "\n")
		}
		if got := string(lastLines(text, n)); got != want {
			t.Fatalf("%d lines of %q: %q, want %q", n, text, got, want)
		}
	})
}

func TestHumanSize(t *testing.T) {
	t.Parallel()
	for size, want := range map[seedbed.Bytes]string{
		0: "0B", 9999: "9999B", 10000: "10K", 10 * seedbed.GiB: "10G", 8 * seedbed.GiB: "8192M",
		8*seedbed.GiB + 1: "8193M", 20000 * seedbed.TiB: "20P",
	} {
		if got := humanSize(size); got != want {
			t.Errorf("%d: %s, want %s", int64(size), got, want)
		}
	}
}

// TestVNI checks that a network keeps its number, and that only a name that is a VNI gets the
// number of a VNI.
func TestVNI(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"0": 0, "1000": 1000, "16777215": 16777215, "default": 2470140894 + firstPrivateVNI} {
		if got := vniOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for _, name := range []string{"16777216", "01000", "-1", "1e3", "", "lan"} {
		if got := vniOf(name); got < firstPrivateVNI || strconv.FormatInt(got, 10) == name {
			t.Errorf("%q: %d is the number of a VNI", name, got)
		}
	}
	for name, want := range map[string][2]string{
		"1000": {"1000", "vmbr1000"}, "acme/100": {"100", "vmbr100"}, "default": {"2486918110", "vmbr2486918110"},
		"upstream": {"upstream", "brupstream"}, "acme/storage": {"storage", "brstorage"}, "cluster": {"cluster", "brcluster"},
	} {
		if got := [2]string{vniText(name), bridgeName(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
