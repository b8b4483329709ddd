//go:build integration

package e2e

import (
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/google/go-cmp/cmp"
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

// found is what testdata/datasource.py prints.
type found struct {
	Found      bool           `json:"found"`
	Seconds    float64        `json:"seconds"`
	Log        []string       `json:"log"`
	InstanceID string         `json:"instance_id"`
	Hostname   string         `json:"hostname"`
	Keys       []string       `json:"keys"`
	Zone       string         `json:"zone"`
	Region     string         `json:"region"`
	CloudName  string         `json:"cloud_name"`
	Metadata   map[string]any `json:"metadata"`
	UserData   []byte         `json:"userdata"`
	VendorData []byte         `json:"vendordata"`
	Network    map[string]any `json:"network"`
}

// datasource runs one of cloud-init's datasources in a guest, and checks what
// all of them must find.
func datasource(t *testing.T, netns string, g seedbed.Guest, announced seedbed.Datasource, module, class string) found {
	t.Helper()
	dir := firmware(t, smbios(t, g.ID, announced))
	out := inGuest(t, netns, dir, "/usr/bin/python3", filepath.Join(lab.Root(), "internal/e2e/testdata/datasource.py"), module, class, dir)
	var f found
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !f.Found {
		t.Fatalf("%s found nothing:\n%s", class, strings.Join(f.Log, "\n"))
	}
	if took := time.Duration(f.Seconds * float64(time.Second)); took > quick {
		t.Errorf("%s took %s, want no more than %s", class, took, quick)
	}
	for _, line := range f.Log {
		if strings.Contains(line, "Please wait") || strings.Contains(line, "Traceback") {
			t.Errorf("%s: %s", class, line)
		}
	}
	if f.Hostname != g.Name || string(f.UserData) != clientUserData {
		t.Errorf("%s found the host name %q and the user-data %q", class, f.Hostname, f.UserData)
	}
	if d := cmp.Diff([]string{clientKey}, f.Keys); d != "" {
		t.Errorf("%s: keys (-want +got):\n%s", class, d)
	}
	if f.Zone != g.Zone {
		t.Errorf("%s found the zone %q", class, f.Zone)
	}
	return f
}

// TestRealClients lets the clients that images have ask, unmodified.
func TestRealClients(t *testing.T) {
	ec2, openstack, nocloud := clientGuest(1, "ec2"), clientGuest(2, "openstack"), clientGuest(3, "nocloud")
	ec2.Options.Tokens = seedbed.TokensRequired
	documents := seedbed.Documents{UserData: []byte(clientUserData), VendorData: []byte(clientVendorData)}
	p := newGuestPlane(t, map[string]seedbed.Documents{"ec2": documents, "openstack": documents, "nocloud": documents},
		ec2, openstack, nocloud)
	inEC2, inOpenStack, inNoCloud := p.attach(ec2), p.attach(openstack), p.attach(nocloud)

	t.Run("DataSourceEc2", func(t *testing.T) { dataSourceEc2(t, p, inEC2, ec2) })
	t.Run("DataSourceOpenStack", func(t *testing.T) { dataSourceOpenStack(t, inOpenStack, openstack) })
	t.Run("DataSourceNoCloud", func(t *testing.T) { dataSourceNoCloud(t, inNoCloud, nocloud) })
	t.Run("AWS SDK", func(t *testing.T) { awsSDK(t, inEC2, ec2) })
	t.Run("ec2metadata", func(t *testing.T) { ec2metadata(t, inEC2, ec2) })
}

// dataSourceEc2: the guest requires tokens, so that whatever it is told it is
// told with one.
func dataSourceEc2(t *testing.T, p *guestPlane, netns string, g seedbed.Guest) {
	f := datasource(t, netns, g, seedbed.DatasourceEC2, "DataSourceEc2", "DataSourceEc2")
	if f.CloudName != "aws" || f.InstanceID != g.ID.EC2() || f.Region != g.Region {
		t.Errorf("cloud %q, instance %q, region %q", f.CloudName, f.InstanceID, f.Region)
	}
	if f.Metadata["instance-id"] != g.ID.EC2() || f.Metadata["mac"] != g.NICs[0].MAC.String() {
		t.Errorf("meta-data %v", f.Metadata)
	}
	ethernets, _ := f.Network["ethernets"].(map[string]any)
	eth0, _ := ethernets["eth0"].(map[string]any)
	match, _ := eth0["match"].(map[string]any)
	if eth0["dhcp4"] != true || match["macaddress"] != g.NICs[0].MAC.String() {
		t.Errorf("network configuration %v, want DHCP on the guest's NIC", f.Network)
	}
	last := "GET /2021-03-23/dynamic/instance-identity/document 200"
	lab.Await(t, lab.Patience, "the records of the crawl arrive", func() bool { return slices.Contains(p.seen(g), last) })
	tokens := 0
	for _, line := range p.seen(g) {
		switch {
		case line == "PUT /latest/api/token 200":
			tokens++
		case strings.HasPrefix(line, "GET / "): // of attach
		case !strings.HasSuffix(line, " 200"):
			t.Errorf("it was answered: %s", line)
		}
	}
	if tokens != 1 {
		t.Errorf("it asked for %d tokens, want 1", tokens)
	}
}

func dataSourceOpenStack(t *testing.T, netns string, g seedbed.Guest) {
	f := datasource(t, netns, g, seedbed.DatasourceOpenStack, "DataSourceOpenStack", "DataSourceOpenStack")
	if f.InstanceID != string(g.ID) || string(f.VendorData) != clientVendorData {
		t.Errorf("instance %q, vendor-data %q", f.InstanceID, f.VendorData)
	}
	if meta, _ := f.Metadata["meta"].(map[string]any); meta["role"] != "web" {
		t.Errorf("meta-data %v, want the tags in it", f.Metadata)
	}
	configs, _ := f.Network["config"].([]any)
	var dhcp bool
	for _, c := range configs {
		m, _ := c.(map[string]any)
		subnets, _ := m["subnets"].([]any)
		for _, s := range subnets {
			subnet, _ := s.(map[string]any)
			dhcp = dhcp || m["mac_address"] == g.NICs[0].MAC.String() && subnet["type"] == "dhcp4"
		}
	}
	if !dhcp {
		t.Errorf("network configuration %v, want DHCP on the guest's NIC", f.Network)
	}
}

func dataSourceNoCloud(t *testing.T, netns string, g seedbed.Guest) {
	f := datasource(t, netns, g, seedbed.DatasourceNoCloud, "DataSourceNoCloud", "DataSourceNoCloudNet")
	if f.InstanceID != g.ID.EC2() || string(f.VendorData) != clientVendorData {
		t.Errorf("instance %q, vendor-data %q", f.InstanceID, f.VendorData)
	}
	if f.Network != nil {
		t.Errorf("network configuration %v: it is DHCP's", f.Network)
	}
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

// TestDSIdentify: what cloud-init's generator makes of the domain's firmware,
// before any datasource is tried.
func TestDSIdentify(t *testing.T) {
	id := seedbed.NewInstanceID()
	for datasource, want := range map[seedbed.Datasource]string{
		seedbed.DatasourceEC2:       "datasource_list: [ Ec2, None ]",
		seedbed.DatasourceOpenStack: "datasource_list: [ OpenStack, None ]",
		seedbed.DatasourceNoCloud:   "datasource_list: [ NoCloud, None ]",
		seedbed.DatasourceNone:      "",
	} {
		t.Run(string(datasource), func(t *testing.T) {
			root := firmware(t, smbios(t, id, datasource))
			write := func(name, text string) {
				t.Helper()
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=LABEL=root ro console=ttyS0\n")
			write("proc/1/cmdline", "/sbin/init\x00")
			write("proc/1/environ", "")
			write("proc/uptime", "1.00 1.00\n")
			write("etc/cloud/cloud.cfg", "{}\n")
			write("run/cloud-init/.keep", "")
			if err := os.MkdirAll(filepath.Join(root, "sys/class/dmi"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(root, "id"), filepath.Join(root, "sys/class/dmi/id")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/usr/lib/cloud-init/ds-identify", "--force")
			cmd.Env = append(os.Environ(), "PATH_ROOT="+root, "DI_LOG="+root+"/log", "PATH="+root+"/bin:"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			log, _ := os.ReadFile(filepath.Join(root, "log"))
			if enabled := err == nil; enabled != (want != "") {
				t.Fatalf("%v, want it to end well only where a datasource is announced\n%s%s", err, out, log)
			}
			got, _ := os.ReadFile(filepath.Join(root, "run/cloud-init/cloud.cfg"))
			if want != "" && !strings.Contains(string(got), want) {
				t.Errorf("it wrote %q, want %q\n%s", got, want, log)
			}
		})
	}
}
