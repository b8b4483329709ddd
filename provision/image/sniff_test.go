package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"seedbed"
)

// put writes s at offset into n zero bytes.
func put(n, offset int, s string) []byte {
	b := make([]byte, n)
	copy(b[offset:], s)
	return b
}

// qcow2 is a version 3 header, changed by change.
func qcow2(change func(h []byte)) []byte {
	h := put(104, 0, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(h[24:], 1<<30)
	change(h)
	return h
}

func vmdk(capacity uint64) []byte {
	h := put(512, 0, "KDMV\x01\x00\x00\x00")
	binary.LittleEndian.PutUint64(h[vmdkCapacity:], capacity)
	return h
}

func vdi(block, allocated uint32) []byte {
	h := put(512, 64, "\x7f\x10\xda\xbe")
	binary.LittleEndian.PutUint32(h[vdiBlockSize:], block)
	binary.LittleEndian.PutUint32(h[vdiAllocated:], allocated)
	return h
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		head    []byte
		want    Format
		problem string
	}{
		{"qcow2", qcow2(func([]byte) {}), QCOW2, ""},
		{"qcow2 version 2", qcow2(func(h []byte) { h[7] = 2 })[:72], QCOW2, ""},
		{"qcow2 version 2 has no feature bits", qcow2(func(h []byte) { h[7], h[79] = 2, 0xff }), QCOW2, ""},
		{"qcow version 1", qcow2(func(h []byte) { h[7] = 1 }), QCOW2, "version 1: expected 2 or 3"},
		{"qcow2 with a backing file", qcow2(func(h []byte) { h[15] = 104 }), QCOW2, "backing file"},
		{"qcow2 with AES", qcow2(func(h []byte) { h[35] = 1 }), QCOW2, "encrypted"},
		{"qcow2 with a data file", qcow2(func(h []byte) { h[79] = 4 }), QCOW2, "external data file"},
		{"qcow2 corrupt", qcow2(func(h []byte) { h[79] = 2 }), QCOW2, "marked corrupt"},
		{"qcow2 dirty", qcow2(func(h []byte) { h[79] = 1 }), QCOW2, ""},
		{"qcow2 cut", qcow2(func([]byte) {})[:20], QCOW2, "ends in its header"},
		{"qcow2 version 3 cut", qcow2(func([]byte) {})[:76], QCOW2, "ends in its header"},
		{"vmdk", vmdk(2048), VMDK, ""},
		{"vmdk that is a descriptor", vmdk(0), VMDK, "refers to other files"},
		{"vmdk cut", []byte("KDMV"), VMDK, "ends in its header"},
		{"vmdk descriptor", []byte("# Disk DescriptorFile\nversion=1\n"), "", "refers to other files"},
		{"vdi", put(512, 64, "\x7f\x10\xda\xbe"), VDI, ""},
		{"vdi with blocks that are not there", vdi(1<<20, 1), VDI, "truncated"},
		{"vdi with more blocks than there can be", vdi(1<<32-1, 1<<32-1), VDI, "truncated"},
		{"vdi cut in its header", put(100, 64, "\x7f\x10\xda\xbe"), VDI, "ends in its header"},
		{"mbr", put(512, 510, "\x55\xaa"), Raw, ""},
		{"gpt", put(1024, 512, "EFI PART"), Raw, ""},
		{"gpt of 4 KiB sectors", put(8192, 4096, "EFI PART"), Raw, ""},
		{"iso", put(40000, 32769, "CD001"), ISO, ""},
		{"empty", nil, "", "is empty"},
		{"zeros", make([]byte, HeadSize), "", "cannot"},
		{"one zero", []byte{0}, "", "cannot"},
		{"gzip", put(512, 0, "\x1f\x8b\x08"), "", "gzip file: uncompress it first"},
		{"gzip with a signature by chance", append(put(510, 0, "\x1f\x8b"), 0x55, 0xaa), "", "gzip"},
		{"xz", put(64, 0, "\xfd7zXZ\x00"), "", "xz"},
		{"zip", put(64, 0, "PK\x03\x04"), "", "zip"},
		{"tar", put(512, 257, "ustar"), "", "tar archive"},
		{"html", []byte("<!DOCTYPE html><html>"), "", "HTML"},
		{"text", []byte("hello\n"), "", "text file"},
		{"text in UTF-8 that is cut", []byte(strings.Repeat("é", 256) + "é")[:513], "", "text file"},
		{"luks", put(512, 0, "LUKS\xba\xbe"), "", "encrypted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Sniff(c.head, seedbed.Bytes(len(c.head)))
			if c.problem == "cannot" {
				c.problem = "not a disk image that can boot"
			}
			if c.problem == "" {
				if err != nil || got != c.want {
					t.Fatalf("got %q, %v; want %q", got, err, c.want)
				}
				return
			}
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("got %q, %v; want an error with %q", got, err, c.problem)
			}
		})
	}
}

func FuzzSniff(f *testing.F) {
	for _, head := range [][]byte{nil, {0}, qcow2(func([]byte) {}), vmdk(1), put(512, 510, "\x55\xaa"), []byte("text")} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		format, err := Sniff(head, seedbed.Bytes(len(head)))
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) || len(err.Error()) > 300 {
				t.Fatalf("error %v", err)
			}
			return
		}
		switch format {
		case QCOW2:
			if !bytes.HasPrefix(head, []byte("QFI\xfb")) || !bytes.Equal(head[8:16], make([]byte, 8)) {
				t.Fatal("a qcow2 with a backing file is accepted")
			}
		case Raw, VMDK, VDI:
		default:
			t.Fatalf("format %q", format)
		}
	})
}
