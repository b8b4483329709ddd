// Package ovatest makes OVAs for tests: tar archives with an OVF descriptor,
// disks, and perhaps a manifest (DMTF DSP0243).
package ovatest

import (
	"archive/tar"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"strings"
)

// OVA is an appliance. Its zero value, with disks, has one processor and 512 MiB.
type OVA struct {
	// Version is 1 (also for 0) or 2.
	Version  int
	VCPUs    int
	MemoryMB int
	Screen   bool
	// Firmware is VMware's word for it: "efi" or "bios"; empty leaves it out.
	Firmware string
	Disks    []Disk
	// Manifest is the algorithm of its manifest: SHA1, SHA256 or SHA512; empty for none.
	Manifest string
	// Extra is put into the hardware section as it is.
	Extra string
}

// Disk is one disk of an appliance.
type Disk struct {
	Name    string
	Content []byte
	// Capacity is in MiB; 0 means the length of the content.
	Capacity int
}

// File is one member of an archive.
type File struct {
	Name    string
	Content []byte
}

// Descriptor is the text of the OVF descriptor.
func (o OVA) Descriptor() []byte {
	version := max(o.Version, 1)
	item, class := "Item", "rasd"
	if version == 2 {
		item, class = "StorageItem", "sasd"
	}
	var files, disks, hardware strings.Builder
	for i, d := range o.Disks {
		fmt.Fprintf(&files, `<File ovf:href="%s" ovf:id="file%d" ovf:size="%d"/>`, d.Name, i, len(d.Content))
		capacity, unit := d.Capacity, "byte * 2^20"
		if capacity == 0 {
			capacity, unit = len(d.Content), "byte"
		}
		fmt.Fprintf(
			&disks,
			`<Disk ovf:capacity="%d" ovf:capacityAllocationUnits="%s" ovf:diskId="disk%d" ovf:fileRef="file%d"/>`,
			capacity,
			unit,
			i,
			i,
		)
		fmt.Fprintf(
			&hardware,
			`<%[1]s><%[2]s:HostResource>ovf:/disk/disk%[3]d</%[2]s:HostResource><%[2]s:InstanceID>%[4]d</%[2]s:InstanceID><%[2]s:ResourceType>17</%[2]s:ResourceType></%[1]s>`,
			item,
			class,
			i,
			20+i,
		)
	}
	if o.Screen {
		hardware.WriteString(`<Item><rasd:InstanceID>9</rasd:InstanceID><rasd:ResourceType>24</rasd:ResourceType></Item>`)
	}
	if o.Firmware != "" {
		fmt.Fprintf(&hardware, `<vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="%s"/>`, o.Firmware)
	}
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/%[1]d" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/%[1]d"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:sasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_StorageAllocationSettingData.xsd" xmlns:vmw="http://www.vmware.com/schema/ovf">
<References>%[2]s</References>
<DiskSection><Info>disks</Info>%[3]s</DiskSection>
<VirtualSystem ovf:id="machine"><Info>a machine</Info>
<VirtualHardwareSection><Info>hardware</Info>
<Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>%[4]d</rasd:VirtualQuantity></Item>
<Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>%[5]d</rasd:VirtualQuantity></Item>
%[6]s%[7]s</VirtualHardwareSection></VirtualSystem></Envelope>
`, version, files.String(), disks.String(), max(o.VCPUs, 1), max(o.MemoryMB, 512), hardware.String(), o.Extra)
}

// Files are the members of the archive.
func (o OVA) Files() []File {
	files := []File{{"machine.ovf", o.Descriptor()}}
	for _, d := range o.Disks {
		files = append(files, File{d.Name, d.Content})
	}
	if o.Manifest == "" {
		return files
	}
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "%s(%s)= %s\n", o.Manifest, f.Name, sum(o.Manifest, f.Content))
	}
	return append(files[:1:1], append([]File{{"machine.mf", []byte(list.String())}}, files[1:]...)...)
}

func sum(algorithm string, content []byte) string {
	switch algorithm {
	case "SHA1":
		return fmt.Sprintf("%x", sha1.Sum(content))
	case "SHA512":
		return fmt.Sprintf("%x", sha512.Sum512(content))
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// Bytes is the archive.
func (o OVA) Bytes() []byte { return Tar(o.Files()...) }

// Tar is an archive of plain files.
func Tar(files ...File) []byte {
	var headers []tar.Header
	var contents [][]byte
	for _, f := range files {
		headers = append(headers, tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Content)), Format: tar.FormatUSTAR})
		contents = append(contents, f.Content)
	}
	return Archive(headers, contents)
}

// Archive is one of members as they are said; it panics when that cannot be.
func Archive(headers []tar.Header, contents [][]byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range headers {
		if err := w.WriteHeader(&headers[i]); err != nil {
			panic(err)
		}
		if _, err := w.Write(contents[i]); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
