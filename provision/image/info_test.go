package image

import (
	"errors"
	"strings"
	"testing"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

const (
	answerQCOW2 = `{"virtual-size":10485760,"filename":"/p/x","cluster-size":65536,"format":"qcow2",` +
		`"actual-size":200704,"format-specific":{"type":"qcow2","data":{"compat":"1.1","corrupt":false}},"dirty-flag":false}`
	answerBacking = `{"backing-filename-format":"qcow2","virtual-size":10485760,` +
		`"format":"qcow2","full-backing-filename":"/etc/shadow","backing-filename":"/etc/shadow"}`
	answerData  = `{"virtual-size":1048576,"format":"qcow2","format-specific":{"type":"qcow2","data":{"data-file":"d.raw"}}}`
	answerCrypt = `{"virtual-size":1048576,"format":"qcow2","encrypted":true,` +
		`"format-specific":{"type":"qcow2","data":{"encrypt":{"format":"luks"}}}}`
	answerVMDK = `{"virtual-size":10485760,"filename":"/p/x","format":"vmdk","format-specific":{"type":"vmdk","data":{"cid":1,` +
		`"parent-cid":4294967295,"create-type":"streamOptimized",` +
		`"extents":[{"compressed":true,"virtual-size":10485760,"filename":"/p/x","format":""}]}}}`
)

func TestParseInfo(t *testing.T) {
	t.Parallel()
	const size = 10 * seedbed.MiB
	for _, c := range []struct {
		name, answer string
		want         Info
		problem      string
	}{
		{"qcow2", answerQCOW2, Info{Format: QCOW2, Size: size}, ""},
		{"backing file", answerBacking, Info{Format: QCOW2, Size: size, Backing: "/etc/shadow"}, "another file (\"/etc/shadow\")"},
		{"data file", answerData, Info{Format: QCOW2, Size: seedbed.MiB, DataFile: "d.raw"}, "another file (\"d.raw\")"},
		{"encrypted", answerCrypt, Info{Format: QCOW2, Size: seedbed.MiB, Encrypted: true}, "is encrypted"},
		{"vmdk", answerVMDK, Info{Format: VMDK, Size: size, Subformat: "streamOptimized", Extents: []string{"/p/x"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseInfo([]byte(c.answer))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			refused(t, got.Check("/p/x"), c.problem)
		})
	}
	for _, answer := range []string{"", "[]", `{"virtual-size":"big"}`, `{"format":1}`, answerQCOW2 + "x"} {
		if _, err := ParseInfo([]byte(answer)); err == nil {
			t.Errorf("%q is read", answer)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		info    Info
		problem string
	}{
		{"raw", Info{Format: Raw, Size: 512}, ""},
		{"unknown format", Info{Format: "luks", Size: 512}, `"luks" format`},
		{"no size", Info{Format: Raw}, "without a size"},
		{"huge", Info{Format: QCOW2, Size: MaxSize + 1}, "largest"},
		{"corrupt", Info{Format: QCOW2, Size: 512, Corrupt: true}, "corrupt"},
		{"flat vmdk", Info{Format: VMDK, Size: 512, Subformat: "monolithicFlat", Extents: []string{"/p/x"}}, "monolithicFlat"},
		{"vmdk elsewhere", Info{Format: VMDK, Size: 512, Subformat: "monolithicSparse", Extents: []string{"/etc/shadow"}}, "other files"},
		{"vmdk in two", Info{Format: VMDK, Size: 512, Subformat: "monolithicSparse", Extents: []string{"/p/x", "/p/x"}}, "other files"},
	} {
		refused(t, c.info.Check("/p/x"), c.problem)
	}
}

func refused(t *testing.T, err error, problem string) {
	t.Helper()
	switch {
	case problem == "" && err != nil:
		t.Errorf("got %v", err)
	case problem != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), problem)):
		t.Errorf("got %v; want an error with %q", err, problem)
	}
}

func TestPercents(t *testing.T) {
	t.Parallel()
	var got []float64
	p := &percents{report: func(v float64) { got = append(got, v) }}
	for _, s := range []string{"    (0.00/100%)\r    (1.", "50/100%)\r", "    (1.20/100%)\r", "noise\r(x/100%)\n(200/100%)\r",
		strings.Repeat("9", 1000), "\r(100.00/100%)\n", "(NaN/100%)\r"} {
		if n, err := p.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if d := cmp.Diff([]float64{1.5, 100}, got); d != "" {
		t.Error(d)
	}
}

func FuzzParseInfo(f *testing.F) {
	for _, a := range []string{answerQCOW2, answerBacking, answerData, answerCrypt, answerVMDK, "{}", ""} {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		info, err := ParseInfo(answer)
		if err != nil || info.Check("/p/x") != nil {
			return
		}
		if info.Backing != "" || info.DataFile != "" || info.Encrypted || info.Corrupt || info.Size <= 0 || info.Size > MaxSize {
			t.Fatalf("accepted: %+v", info)
		}
	})
}
