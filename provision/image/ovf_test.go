package image

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/ovatest"
)

// virtualBox is what VirtualBox writes: prefixes of its own, a manifest of SHA-1, EFI in its own
// element.
const virtualBox = `<?xml version="1.0"?>
<o:Envelope o:version="1.0" xmlns:o="http://schemas.dmtf.org/ovf/envelope/1" xmlns:r="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vbox="http://www.virtualbox.org/ovf/machine">
  <o:References><o:File o:id="file1" o:href="box-disk1.vmdk"/></o:References>
  <o:DiskSection><o:Disk o:capacity="21474836480" o:diskId="vmdisk1" o:fileRef="file1" o:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></o:DiskSection>
  <o:NetworkSection><o:Network o:name="NAT"/></o:NetworkSection>
  <o:VirtualSystem o:id="box">
    <o:VirtualHardwareSection>
      <o:Item><r:ResourceType>3</r:ResourceType><r:VirtualQuantity>2</r:VirtualQuantity></o:Item>
      <o:Item><r:AllocationUnits>MegaBytes</r:AllocationUnits><r:ResourceType>4</r:ResourceType><r:VirtualQuantity>2048</r:VirtualQuantity></o:Item>
      <o:Item><r:ResourceSubType>AHCI</r:ResourceSubType><r:ResourceType>20</r:ResourceType></o:Item>
      <o:Item><r:ResourceType>35</r:ResourceType></o:Item>
      <o:Item><r:ResourceType>4711</r:ResourceType></o:Item>
      <o:Item><r:HostResource>/disk/vmdisk1</r:HostResource><r:ResourceType>17</r:ResourceType></o:Item>
      <o:Item><r:ResourceType>10</r:ResourceType><r:Connection>NAT</r:Connection></o:Item>
    </o:VirtualHardwareSection>
    <vbox:Machine><Hardware><Firmware type="EFI"/></Hardware></vbox:Machine>
  </o:VirtualSystem>
</o:Envelope>`

func TestParseOVF(t *testing.T) {
	t.Parallel()
	two := ovatest.OVA{
		VCPUs: 4, MemoryMB: 4096, Screen: true, Firmware: "efi",
		Disks: []ovatest.Disk{{Name: "a.vmdk", Capacity: 1024}, {Name: "b.vmdk", Capacity: 2048}},
	}
	want := seedbed.Appliance{VCPUs: 4, Memory: 4 * seedbed.GiB, Screen: true, Firmware: seedbed.FirmwareUEFI,
		Disks: []seedbed.ApplianceDisk{{File: "a.vmdk", Capacity: seedbed.GiB}, {File: "b.vmdk", Capacity: 2 * seedbed.GiB}}}
	second := two
	second.Version = 2
	plain := ovatest.OVA{Disks: []ovatest.Disk{{Name: "d.qcow2", Content: make([]byte, 700)}}}
	odd := plain
	odd.MemoryMB = 65
	for _, c := range []struct {
		name, text string
		want       seedbed.Appliance
	}{
		{"version 1", string(two.Descriptor()), want},
		{"version 2 with StorageItem", string(second.Descriptor()), want},
		{"VirtualBox", virtualBox, seedbed.Appliance{VCPUs: 2, Memory: 2 * seedbed.GiB, Firmware: seedbed.FirmwareUEFI,
			Disks: []seedbed.ApplianceDisk{{File: "box-disk1.vmdk", Capacity: 20 * seedbed.GiB}}}},
		{"capacity in bytes, nothing said of firmware", string(plain.Descriptor()), seedbed.Appliance{VCPUs: 1, Memory: 512 * seedbed.MiB,
			Disks: []seedbed.ApplianceDisk{{File: "d.qcow2", Capacity: 700}}}},
		{"memory without units is in MiB",
			strings.Replace(string(plain.Descriptor()), "<rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>", "", 1),
			seedbed.Appliance{VCPUs: 1, Memory: 512 * seedbed.MiB, Disks: []seedbed.ApplianceDisk{{File: "d.qcow2", Capacity: 700}}}},
		{"a disk that is a file", strings.Replace(string(plain.Descriptor()), "ovf:/disk/disk0", "ovf:/file/file0", 1),
			seedbed.Appliance{VCPUs: 1, Memory: 512 * seedbed.MiB, Disks: []seedbed.ApplianceDisk{{File: "d.qcow2"}}}},
		{"capacity by a property", strings.Replace(strings.Replace(string(plain.Descriptor()), `capacity="700"`, `capacity="${size}"`, 1),
			`<Info>a machine</Info>`, `<ProductSection><Property ovf:key="size" ovf:value="900"/></ProductSection>`, 1),
			seedbed.Appliance{VCPUs: 1, Memory: 512 * seedbed.MiB, Disks: []seedbed.ApplianceDisk{{File: "d.qcow2", Capacity: 900}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseOVF(t.Context(), []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseOVFRefuses(t *testing.T) {
	t.Parallel()
	good := string(ovatest.OVA{Disks: []ovatest.Disk{{Name: "d.vmdk", Capacity: 10}}}.Descriptor())
	replaced := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in it", old)
		}
		return strings.ReplaceAll(good, old, new)
	}
	for name, c := range map[string]struct{ text, problem string }{
		"empty":                  {"", "without elements"},
		"no XML":                 {"PK\x03\x04", "well-formed"},
		"two roots":              {"<a/><b/>", "two root"},
		"cut":                    {good[:len(good)/2], "well-formed"},
		"entities":               {`<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>`, "well-formed"},
		"another language":       {"<html/>", "expected an Envelope"},
		"another version":        {replaced("envelope/1", "envelope/9"), "expected an Envelope"},
		"deep":                   {strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100), "more elements"},
		"wide":                   {"<a>" + strings.Repeat("<b/>", maxElements) + "</a>", "more elements"},
		"long":                   {strings.Repeat(" ", int(maxOVF)+1), "at most"},
		"no system":              {replaced("VirtualSystem", "Other"), "VirtualSystem"},
		"no hardware":            {replaced("VirtualHardwareSection", "Other"), "VirtualHardwareSection"},
		"no disks":               {replaced("<rasd:ResourceType>17<", "<rasd:ResourceType>18<"), "without disks"},
		"no such disk":           {replaced("ovf:/disk/disk0", "ovf:/disk/disk7"), "does not describe"},
		"no such file":           {replaced(`ovf:fileRef="file0"`, `ovf:fileRef="file7"`), "References"},
		"blank disk":             {replaced(`ovf:fileRef="file0"`, ``), "without a file"},
		"delta":                  {replaced(`ovf:fileRef="file0"`, `ovf:fileRef="file0" ovf:parentRef="disk9"`), "difference"},
		"compressed":             {replaced(`ovf:id="file0"`, `ovf:id="file0" ovf:compression="gzip"`), "compression"},
		"chunks":                 {replaced(`ovf:id="file0"`, `ovf:id="file0" ovf:chunkSize="7"`), "several files"},
		"a file elsewhere":       {replaced(`ovf:href="d.vmdk"`, `ovf:href="../d.vmdk"`), "inside it"},
		"a file of another host": {replaced(`ovf:href="d.vmdk"`, `ovf:href="http://example.org/d.vmdk"`), "inside it"},
		"HostResource":           {replaced("ovf:/disk/disk0", "file:///etc/shadow"), "HostResource"},
		"units":                  {replaced(`AllocationUnits="byte * 2^20"`, `AllocationUnits="furlong"`), "units"},
		"capacity":               {replaced(`ovf:capacity="10"`, `ovf:capacity="99999999999999"`), "has"},
		"processors":             {replaced("<rasd:VirtualQuantity>1<", "<rasd:VirtualQuantity>many<"), "processors"},
		"more processors":        {replaced("<rasd:VirtualQuantity>1<", "<rasd:VirtualQuantity>5000<"), "processors"},
		"memory":                 {replaced("<rasd:VirtualQuantity>512<", "<rasd:VirtualQuantity>999999999999<"), "memory"},
		"one file for two disks": {replaced("</VirtualHardwareSection>",
			"<Item><rasd:HostResource>ovf:/disk/disk0</rasd:HostResource><rasd:ResourceType>17</rasd:ResourceType></Item></VirtualHardwareSection>"),
			"two disks"},
		"disks without a section": {replaced("DiskSection", "Other"), "does not describe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseOVF(t.Context(), []byte(c.text))
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, c.problem)
			}
		})
	}
}

func FuzzOvf(f *testing.F) {
	f.Add([]byte(virtualBox))
	f.Add([]byte("<Envelope/>"))
	for _, version := range []int{1, 2} {
		f.Add(
			ovatest.OVA{
				Version: version, Firmware: "efi", Disks: []ovatest.Disk{{Name: "d.vmdk", Capacity: 10}, {Name: "e.vmdk", Capacity: 10}},
			}.Descriptor(),
		)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseOVF(t.Context(), text)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) || len(err.Error()) > 1000 {
				t.Fatalf("error %v", err)
			}
			return
		}
		if seedbed.CheckVCPUs(a.VCPUs) != nil || seedbed.CheckMemory(a.Memory) != nil || len(a.Disks) == 0 || len(a.Disks) > seedbed.MaxOVADisks {
			t.Fatalf("accepted: %+v", a)
		}
		for _, d := range a.Disks {
			if checkMember(d.File) != nil || d.Capacity < 0 || d.Capacity > MaxSize {
				t.Fatalf("accepted: %+v", d)
			}
		}
	})
}
