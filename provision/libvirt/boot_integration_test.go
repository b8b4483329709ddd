//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"seedbed"
)

// bootSector returns code that prints a text at the first serial port, wherever it is loaded, and then halts.
func bootSector(text string) []byte {
	code := []byte{
		0xe8, 0, 0, // call the next instruction
		0x5e, 0x0e, 0x1f, // pop si; push cs; pop ds
		0x83, 0xc6, 0x14, // add si, to the text
		0xac,       // lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x06, // jz to hlt
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xee,       // out dx, al
		0xeb, 0xf5, // jmp to lodsb
		0xf4, 0xeb, 0xfd, // hlt; jmp to hlt
	}
	sector := make([]byte, 512)
	copy(sector, append(code, text+"\r\n"...))
	copy(sector[510:], []byte{0x55, 0xaa})
	return sector
}

// bootableISO returns an ISO image whose boot sector prints a text (ECMA-119 8, and "El Torito" 1.0, without emulation).
func bootableISO(text string) []byte {
	const sector, catalog, image = 2048, 19, 20
	iso := make([]byte, 512*sector)
	at := func(n int) []byte { return iso[n*sector : (n+1)*sector] }
	copy(at(16), "\x01CD001\x01")
	copy(at(17), "\x00CD001\x01EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(at(17)[0x47:], catalog)
	copy(at(18), "\xffCD001\x01")
	entries := at(catalog)
	entries[0], entries[30], entries[31] = 1, 0x55, 0xaa
	binary.LittleEndian.PutUint16(entries[28:], 0x10000-0xaa55-1) // the sum of all words is 0
	entries[32] = 0x88
	binary.LittleEndian.PutUint16(entries[38:], 4) // of 512 bytes
	binary.LittleEndian.PutUint32(entries[40:], image)
	copy(at(image), bootSector(text))
	return iso
}

// TestBootFromTheDrive boots an image in the CD-ROM drive, which is tried before the disk, the disk while the drive is empty, and the disk
// alone.
func TestBootFromTheDrive(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	written := func(content []byte) seedbed.Disk {
		path := diskPath("raw")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(path) })
		return seedbed.Disk{Type: "file", Format: "raw", Source: path}
	}
	disk := make([]byte, 1<<20)
	copy(disk, bootSector("this is the disk"))
	iso := written(bootableISO("this is the drive"))
	spec := newSpec(t, base, written(disk))
	spec.System = &seedbed.System{Serial: true, BootFrom: seedbed.BootCDROM}
	spec.Drive = &seedbed.CDROMDrive{Disk: &iso}
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("define", d.DefineDomain(ctx, spec))
	defer remove(t, d, spec.ID)
	from := seedbed.BootDisk
	for _, c := range []struct {
		change seedbed.DomainChange
		want   string
	}{
		{seedbed.DomainChange{}, "this is the drive"},
		{seedbed.DomainChange{Drive: &seedbed.CDROMDrive{}}, "this is the disk"},
		{seedbed.DomainChange{Drive: &seedbed.CDROMDrive{Disk: &iso}}, "this is the drive"},
		{seedbed.DomainChange{BootFrom: &from}, "this is the disk"},
	} {
		c.change.ID = spec.ID
		_, err := d.ChangeDomain(ctx, c.change)
		must("change", err)
		must("start", d.StartDomain(ctx, spec.ID))
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			log, err := d.Console(ctx, spec.ID, seedbed.MiB)
			must("read the console", err)
			if bytes.Contains(log, []byte(c.want)) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the console has %q; want %q", log, c.want)
			}
		}
		must("destroy", d.DestroyDomain(ctx, spec.ID))
	}
}
