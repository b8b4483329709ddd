//go:build integration

package e2e

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/libvirt"
)

// quick is how long a client may take that never has to ask anything twice. That is far more than
// it needs, because the computer may be busy, and less than a client waits for an answer that does
// not come.
const quick = 30 * time.Second

const (
	clientUserData   = "#cloud-config\nhostname: from-user-data\n"
	clientVendorData = "#cloud-config\ntimezone: UTC\n"
	clientKey        = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ admin@example.org"
)

// clientGuest is an instance with everything that a client asks for.
func clientGuest(n byte, name string) seedbed.Guest {
	return seedbed.Guest{
		ID: seedbed.NewInstanceID(), Name: name, Profile: "small", Image: "debian-12", VCPUs: 1, Memory: seedbed.GiB,
		NICs: []seedbed.GuestNIC{{ID: seedbed.NICID(n), MAC: seedbed.MAC{0x52, 0x54, 0, 0, 1, n}, Network: "default",
			Addr: netip.AddrFrom4([4]byte{10, 79, 0, 10 + n})}},
		SSHKeys: []string{clientKey}, Disks: []seedbed.GuestDisk{{Device: "vda", Size: 10 * seedbed.GiB}},
		Tags: map[string]string{"role": "web"}, Region: "seedbed", Zone: "seedbed-local",
		ReportToken: "report-token-of-" + name, Created: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC), Node: planeNode,
	}
}

// smbios is the system table of the domain that provision/libvirt would define.
func smbios(t *testing.T, id seedbed.InstanceID, datasource seedbed.Datasource) map[string]string {
	t.Helper()
	xml, err := libvirt.DomainXML(seedbed.DomainSpec{
		ID: id, Job: seedbed.NewJobID(), Name: "guest", Profile: "small", VCPUs: 1, Memory: seedbed.GiB, Datasource: datasource,
	}, libvirt.Host{DomainType: "qemu", Arch: "x86_64", Machine: "pc", Emulator: "/usr/bin/qemu-system-x86_64", ConsoleDir: "/tmp"})
	if err != nil {
		t.Fatal(err)
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(xml); err != nil {
		t.Fatal(err)
	}
	entries := map[string]string{}
	for _, e := range d.SysInfo[0].SMBIOS.System.Entry {
		entries[e.Name] = e.Value
	}
	return entries
}

// TestRealClients lets the clients that images have ask, unmodified.
func TestRealClients(t *testing.T) {
	beside(t)
	ec2, openstack, nocloud := clientGuest(1, "ec2"), clientGuest(2, "openstack"), clientGuest(3, "nocloud")
	ec2.Options.Tokens = seedbed.TokensRequired
	documents := seedbed.Documents{UserData: []byte(clientUserData), VendorData: []byte(clientVendorData)}
	p := newGuestPlane(t, map[string]seedbed.Documents{"ec2": documents, "openstack": documents, "nocloud": documents},
		ec2, openstack, nocloud)
	inEC2, inOpenStack, inNoCloud := p.attach(ec2), p.attach(openstack), p.attach(nocloud)

	for name, c := range cloudInits(t) {
		t.Run("DataSourceEc2/"+name, func(t *testing.T) { c.ec2(t, p, inEC2, ec2) })
		t.Run("DataSourceOpenStack/"+name, func(t *testing.T) { c.openStack(t, inOpenStack, openstack) })
		t.Run("DataSourceNoCloud/"+name, func(t *testing.T) { c.noCloud(t, inNoCloud, nocloud) })
	}
	t.Run("AWS SDK", func(t *testing.T) { awsSDK(t, inEC2, ec2) })
	t.Run("ec2metadata", func(t *testing.T) { ec2metadata(t, inEC2, ec2) })
}

func awsSDK(t *testing.T, netns string, g seedbed.Guest) {
	began := time.Now()
	c := imds.New(imds.Options{HTTPClient: clientIn(netns)})
	doc, err := c.GetInstanceIdentityDocument(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if doc.InstanceID != g.ID.EC2() || doc.PrivateIP != g.NICs[0].Addr.String() || doc.Region != g.Region {
		t.Errorf("document %+v", doc.InstanceIdentityDocument)
	}
	if r, err := c.GetRegion(t.Context(), nil); err != nil || r.Region != g.Region {
		t.Errorf("region %v, %v", r, err)
	}
	out, err := c.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "tags/instance/role"})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Content.Close()
	if b, err := io.ReadAll(out.Content); string(b) != "web" || err != nil {
		t.Errorf("tag %q, %v", b, err)
	}
	data, err := c.GetUserData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Content.Close()
	if b, err := io.ReadAll(data.Content); string(b) != clientUserData || err != nil {
		t.Errorf("user-data %q, %v", b, err)
	}
	if took := time.Since(began); took > quick {
		t.Errorf("it took %s, want no more than %s", took, quick)
	}
}

// ec2metadata asks for everything that it knows of; what there is not is
// "unavailable".
func ec2metadata(t *testing.T, netns string, g seedbed.Guest) {
	began := time.Now()
	out, err := lab.In(t, netns, lab.Patience, "ec2metadata")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if took := time.Since(began); took > quick {
		t.Errorf("it took %s, want no more than %s", took, quick)
	}
	got := map[string]string{}
	for line := range strings.SplitSeq(out, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			got[name] = value
		}
	}
	for name, want := range map[string]string{
		"instance-id": g.ID.EC2(), "local-hostname": g.Name, "local-ipv4": g.NICs[0].Addr.String(), "mac": g.NICs[0].MAC.String(),
		"availability-zone": g.Zone, "region": g.Region, "instance-type": g.Profile, "public-ipv4": "unavailable",
		"instance-action": "none", "public-keys": "['" + clientKey + "']",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	if out, err := lab.In(t, netns, lab.Patience, "ec2metadata", "--user-data"); err != nil ||
		strings.TrimSuffix(out, "\n") != strings.TrimSuffix(clientUserData, "\n") {
		t.Errorf("user-data %q, %v", out, err)
	}
}
