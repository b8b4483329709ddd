package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// volumeFile is a qcow2 file of 64 KiB clusters with that backing file and format, changed by change.
func volumeFile(backing, format string, change func(h []byte)) []byte {
	h := make([]byte, 4<<10)
	copy(h, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint32(h[qcow2ClusterBits:], 16)
	binary.BigEndian.PutUint64(h[qcow2Size:], 1<<30)
	binary.BigEndian.PutUint32(h[qcow2HeaderLength:], 112)
	end := 112
	if format != "" {
		binary.BigEndian.PutUint32(h[end:], extensionFormat)
		binary.BigEndian.PutUint32(h[end+4:], uint32(len(format)))
		copy(h[end+8:], format)
		end += 8 + (len(format)+7)&^7
	}
	if end += 8; backing != "" {
		binary.BigEndian.PutUint64(h[qcow2BackingOffset:], uint64(end))
		binary.BigEndian.PutUint32(h[qcow2BackingSize:], uint32(len(backing)))
		copy(h[end:], backing)
	}
	if change != nil {
		change(h)
	}
	return h
}

// addSnapshots puts a table of snapshots with those names behind the header.
func addSnapshots(h []byte, names ...string) []byte {
	at := len(h)
	binary.BigEndian.PutUint32(h[qcow2SnapshotCount:], uint32(len(names)))
	binary.BigEndian.PutUint64(h[qcow2SnapshotsOffset:], uint64(at))
	for _, name := range names {
		entry := make([]byte, snapshotEntry)
		binary.BigEndian.PutUint16(entry[snapshotIDSize:], 1)
		binary.BigEndian.PutUint16(entry[snapshotNameSize:], uint16(len(name)))
		binary.BigEndian.PutUint32(entry[snapshotExtraSize:], 16)
		h = append(append(append(h, entry...), make([]byte, 16)...), "1"+name...)
		for (len(h)-at)%8 != 0 {
			h = append(h, 0)
		}
	}
	return h
}

func TestReadHeader(t *testing.T) {
	t.Parallel()
	none := func([]byte) {}
	for _, c := range []struct {
		name    string
		file    []byte
		want    Header
		problem string
	}{
		{"alone", volumeFile("", "", none), Header{}, ""},
		{"a clone", volumeFile("../images/base.qcow2", "qcow2", none), Header{Backing: "../images/base.qcow2", Format: "qcow2"}, ""},
		{"without a format", volumeFile("/x", "", none), Header{Backing: "/x"}, ""},
		{"version 2", volumeFile("", "", func(h []byte) { h[7] = 2; clear(h[72:]) }), Header{}, ""},
		{"snapshots", addSnapshots(volumeFile("", "", none), "one", "second"), Header{Snapshots: []string{"one", "second"}}, ""},

		{"not qcow2", []byte("#!/bin/sh\n"), Header{}, "is not in qcow2 format"},
		{"nothing", nil, Header{}, "is not in qcow2 format"},
		{"a data file", volumeFile("", "", func(h []byte) { h[79] = 4 }), Header{}, "external data file"},
		{"the name of a data file", volumeFile("", "qcow2", func(h []byte) { binary.BigEndian.PutUint32(h[112:], extensionData) }),
			Header{}, "external data file"},
		{"encrypted", volumeFile("", "", func(h []byte) { h[35] = 1 }), Header{}, "is encrypted"},
		{"corrupt", volumeFile("", "", func(h []byte) { h[79] = 2 }), Header{}, "marked corrupt"},
		{"a name without end", volumeFile("/x", "", func(h []byte) { h[18] = 0xff }), Header{}, "a name of its backing file that cannot be"},
		{"a name without letters", volumeFile("/x", "", func(h []byte) { h[19] = 0 }), Header{}, "a name of its backing file that cannot be"},
		{"a name far away", volumeFile("/x", "", func(h []byte) { h[8] = 0xff }), Header{}, "a name of its backing file that cannot be"},
		{"clusters of nothing", volumeFile("", "", func(h []byte) { h[23] = 0 }), Header{}, "a header that cannot be"},
		{"clusters of all", volumeFile("", "", func(h []byte) { h[20] = 0xff }), Header{}, "a header that cannot be"},
		{"an extension without end", volumeFile("", "raw", func(h []byte) { h[116] = 0xff }), Header{}, "a header that cannot be"},
		{"no disk is so large", volumeFile("", "", func(h []byte) { h[24] = 0x80 }), Header{}, "the largest that is accepted"},
		{"snapshots far away", volumeFile("", "", func(h []byte) { h[60], h[64] = 0xff, 0xff }), Header{}, "a table of snapshots that cannot be"},
		{"snapshots past the end", volumeFile("", "", func(h []byte) { h[60], h[66] = 0xff, 0xff }), Header{}, "ends in its table of snapshots"},
		{"too long a snapshot", addSnapshots(volumeFile("", "", none), "x")[:4<<10+20], Header{}, "ends in its table of snapshots"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := readHeader(bytes.NewReader(c.file))
			if c.problem != "" {
				if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("got %v; want %q", err, c.problem)
				}
				return
			}
			c.want.Size = 1 << 30
			if err != nil || !cmp.Equal(got, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// The guest's QEMU can write what it likes into the file of its volume.
func TestHeaderOfAVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image := filepath.Join(dir, "images", "base.qcow2")
	path := filepath.Join(dir, "volumes", "v.qcow2")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, backing, format, wanted, problem string }{
		{"alone", "", "", "", ""},
		{"a clone", "../images/base.qcow2", "qcow2", image, ""},
		{"an adopted clone", image, "qcow2", image, ""},
		{"a flattened clone, whose tag is not written yet", "", "", image, ""},
		{"alone, with a file of the host", "/etc/shadow", "raw", "", `"/etc/shadow", and not from no other file`},
		{"a clone of a file of the host", "/etc/shadow", "raw", image, `"/etc/shadow", and not from ` + image},
		{"a clone of another image", "../images/other.qcow2", "qcow2", image, `"../images/other.qcow2", and not`},
		{"a clone of another's volume", "x.qcow2", "qcow2", image, `"x.qcow2", and not`},
		{"a clone of its image as another format", image, "raw", image, `in the format "raw"`},
		{"a protocol", "nbd://192.0.2.1/x", "raw", image, `"nbd://192.0.2.1/x", and not`},
		{"options", `json:{"driver":"file","filename":"` + image + `"}`, "qcow2", image, `and not from ` + image},
		{"a long way", "../volumes/../images/base.qcow2", "qcow2", image, ""},
	} {
		if err := os.WriteFile(path, volumeFile(c.backing, c.format, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Volume{Path: path, Backing: c.wanted}.Header()
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.problem != "" && (!errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%s: got %v; want %q", c.name, err, c.problem)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add(volumeFile("../images/base.qcow2", "qcow2", nil))
	f.Add(addSnapshots(volumeFile("", "", nil), "one", "two"))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readHeader(bytes.NewReader(file))
		if err == nil && (h.Size < 0 || len(h.Backing) > maxBackingName) {
			t.Errorf("read %+v", h)
		}
	})
}
