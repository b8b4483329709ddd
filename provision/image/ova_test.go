package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/ovatest"
)

func machine(manifest string) ovatest.OVA {
	return ovatest.OVA{Manifest: manifest, Disks: []ovatest.Disk{
		{Name: "a.vmdk", Content: bytes.Repeat([]byte("a"), 1500), Capacity: 1}, {Name: "b.vmdk", Content: []byte("b"), Capacity: 2}}}
}

func TestReadOVA(t *testing.T) {
	t.Parallel()
	for _, manifest := range []string{"", "SHA1", "SHA256", "SHA512"} {
		data := machine(manifest).Bytes()
		a, err := ReadOVA(t.Context(), bytes.NewReader(data), seedbed.Bytes(len(data)))
		if err != nil {
			t.Fatalf("manifest %q: %v", manifest, err)
		}
		want := []seedbed.ApplianceDisk{{File: "a.vmdk", Size: 1500, Capacity: seedbed.MiB}, {File: "b.vmdk", Size: 1, Capacity: 2 * seedbed.MiB}}
		if d := cmp.Diff(want, a.Disks); d != "" {
			t.Error(d)
		}
		m := a.members["a.vmdk"]
		if got := data[m.at : m.at+m.size]; !bytes.Equal(got, bytes.Repeat([]byte("a"), 1500)) {
			t.Errorf("a.vmdk is not at %d", m.at)
		}
		if (a.manifest["a.vmdk"].sum == "") != (manifest == "") {
			t.Errorf("manifest %q: the digest of a.vmdk is %+v", manifest, a.manifest["a.vmdk"])
		}
		if _, err := a.disk(""); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "2 disks") {
			t.Errorf("the only disk of two: %v", err)
		}
		if d, err := a.disk("b.vmdk"); err != nil || d != want[1] {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

func TestReadOVARefuses(t *testing.T) {
	t.Parallel()
	files := machine("").Files()
	with := func(more ...ovatest.File) []byte {
		return ovatest.Tar(append(files[:len(files):len(files)], more...)...)
	}
	odd := func(h tar.Header) []byte {
		headers := []tar.Header{{Name: "machine.ovf", Mode: 0o644, Size: int64(len(files[0].Content))}, h}
		return ovatest.Archive(headers, [][]byte{files[0].Content, nil})
	}
	listed := machine("SHA256").Files()
	forged := func(change func([]ovatest.File)) []byte {
		all := append([]ovatest.File{}, listed...)
		change(all)
		return ovatest.Tar(all...)
	}
	whole := machine("").Bytes()
	for name, c := range map[string]struct {
		data    []byte
		problem string
	}{
		"no tar":             {[]byte("hello"), "damaged or truncated"},
		"empty":              {ovatest.Tar(), "empty tar"},
		"no OVA":             {ovatest.Tar(ovatest.File{Name: "readme.txt"}), "not an OVA"},
		"descriptor later":   {ovatest.Tar(files[1], files[0]), "instead of an .ovf"},
		"cut in a disk":      {whole[:len(whole)-3000], "truncated"},
		"cut in a header":    {whole[:512*3], "truncated"},
		"up":                 {with(ovatest.File{Name: "../x"}), "plain names"},
		"absolute":           {with(ovatest.File{Name: "/etc/cron.d/x"}), "plain names"},
		"below":              {with(ovatest.File{Name: "a/b"}), "plain names"},
		"backslash":          {with(ovatest.File{Name: `a\b`}), "plain names"},
		"dots":               {with(ovatest.File{Name: ".."}), "plain names"},
		"control characters": {with(ovatest.File{Name: "a\nb"}), "plain names"},
		"twice":              {with(files[1]), "two files"},
		"twice with a dot":   {with(ovatest.File{Name: "./a.vmdk"}), "two files"},
		"second descriptor":  {with(ovatest.File{Name: "b.ovf"}), "two OVF"},
		"many files":         {ovatest.Tar(append(files[:1:1], many(maxMembers)...)...), "more than"},
		"symbolic link":      {odd(tar.Header{Name: "a.vmdk", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}), "plain files"},
		"hard link":          {odd(tar.Header{Name: "a.vmdk", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}), "plain files"},
		"device":             {odd(tar.Header{Name: "a.vmdk", Typeflag: tar.TypeBlock, Devmajor: 8}), "plain files"},
		"FIFO":               {odd(tar.Header{Name: "a.vmdk", Typeflag: tar.TypeFifo}), "plain files"},
		"directory":          {odd(tar.Header{Name: "a", Typeflag: tar.TypeDir}), "plain files"},
		"disk missing":       {ovatest.Tar(files[0], files[2]), `lacks the file "a.vmdk"`},
		"long descriptor":    {ovatest.Tar(ovatest.File{Name: "m.ovf", Content: make([]byte, maxOVF+1)}), "at most"},
		"long manifest":      {with(ovatest.File{Name: "m.mf", Content: make([]byte, maxManifest+1)}), "at most"},
		"two manifests":      {ovatest.Tar(append(listed[:len(listed):len(listed)], ovatest.File{Name: "b.mf"})...), "two manifests"},
		"empty manifest":     {with(ovatest.File{Name: "m.mf"}), "empty manifest"},
		"odd manifest":       {with(ovatest.File{Name: "m.mf", Content: []byte("MD5(x)= 12\n")}), "MD5(x)"},
		"short digest":       {with(ovatest.File{Name: "m.mf", Content: []byte("SHA1(machine.ovf)= 12\n")}), "SHA1(machine.ovf)"},
		"other descriptor": {forged(func(all []ovatest.File) {
			all[0].Content = bytes.Replace(all[0].Content, []byte("a machine"), []byte("b machine"), 1)
		}), "does not match its manifest"},
		"disk unlisted": {forged(func(all []ovatest.File) {
			all[1].Content = all[1].Content[:bytes.Index(all[1].Content, []byte("SHA256(b.vmdk"))]
		}), `does not list "b.vmdk"`},
		"descriptor unlisted": {forged(func(all []ovatest.File) {
			all[1].Content = all[1].Content[bytes.Index(all[1].Content, []byte("SHA256(a.vmdk")):]
		}), `does not list "machine.ovf"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadOVA(t.Context(), bytes.NewReader(c.data), seedbed.Bytes(len(c.data)))
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want an error with %q", err, c.problem)
			}
		})
	}
}

func many(n int) []ovatest.File {
	var all []ovatest.File
	for i := range n {
		all = append(all, ovatest.File{Name: fmt.Sprintf("x%d", i)})
	}
	return all
}

func TestSparseMembersAreRefused(t *testing.T) {
	t.Parallel()
	data := machine("").Bytes() // the library writes no sparse members
	a := &Archive{members: map[string]member{}}
	section := io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
	h := &tar.Header{Name: "a.vmdk", Typeflag: tar.TypeReg, Size: 1 << 40, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}
	if _, err := a.admit(h, section, seedbed.Bytes(len(data))); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "sparse") {
		t.Errorf("got %v", err)
	}
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0123456789abcdef", 4)
	got, err := parseManifest([]byte("SHA256(a.vmdk)= " + sum + "\r\n\nSHA256 (b (1).vmdk) = " + strings.ToUpper(sum) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]digest{"a.vmdk": {"SHA256", sum}, "b (1).vmdk": {"SHA256", sum}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(digest{})); d != "" {
		t.Error(d)
	}
	if _, err := parseManifest([]byte("SHA256(a)= " + sum +
		"\nSHA256(a)= " + strings.Repeat("f", 64) + "\n")); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("two digests of one file: %v", err)
	}
}

func FuzzOVA(f *testing.F) {
	for _, manifest := range []string{"", "SHA1", "SHA256"} {
		f.Add(machine(manifest).Bytes())
	}
	f.Add(ovatest.Tar())
	f.Fuzz(func(t *testing.T, data []byte) {
		size := seedbed.Bytes(len(data))
		a, err := ReadOVA(t.Context(), bytes.NewReader(data), size)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) || len(err.Error()) > 1000 {
				t.Fatalf("error %v", err)
			}
			return
		}
		for _, d := range a.Disks {
			m, ok := a.members[d.File]
			if !ok || m.at < 0 || m.size < 0 || m.at+m.size > size || m.size != d.Size {
				t.Fatalf("disk %+v is at %+v of %d bytes", d, m, size)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("SHA1(a)= 0123456789012345678901234567890123456789\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseManifest(text)
		if err != nil {
			return
		}
		for name, d := range all {
			if name == "" || len(d.sum) != 2*d.hash().Size() {
				t.Fatalf("%q has %+v", name, d)
			}
		}
	})
}
