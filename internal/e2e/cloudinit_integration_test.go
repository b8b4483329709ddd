//go:build integration

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/lab"
)

// cloudInit is a release of cloud-init whose programs are run.
type cloudInit struct {
	root   string // of its files; empty for the installed one
	newest bool
}

// cloudInits are the installed release and the newest that Debian has, by name.
func cloudInits(t *testing.T) map[string]cloudInit {
	t.Helper()
	root := lab.NewestCloudInit(t)
	// On the Debian release that has the newest, both are the same.
	ours, err := os.ReadFile("/usr/lib/python3/dist-packages/cloudinit/version.py")
	if err != nil {
		t.Fatal(err)
	}
	newest, err := os.ReadFile(root + "/usr/lib/python3/dist-packages/cloudinit/version.py")
	if err != nil {
		t.Fatal(err)
	}
	same := string(ours) == string(newest)
	return map[string]cloudInit{"installed": {newest: same}, "newest": {root: root, newest: true}}
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
	ENI        string         `json:"eni"` // what it writes for ifupdown
}

// datasource runs one of cloud-init's datasources in a guest, and checks what
// all of them must find.
func (c cloudInit) datasource(t *testing.T, netns string, g seedbed.Guest, announced seedbed.Datasource, module, class string) found {
	t.Helper()
	dir := firmware(t, smbios(t, g.ID, announced))
	out := inGuest(t, netns, dir, "/usr/bin/env", "PYTHONPATH="+c.root+"/usr/lib/python3/dist-packages", "/usr/bin/python3",
		filepath.Join(lab.Root(), "internal/e2e/testdata/datasource.py"), module, class, dir)
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

// ec2: the guest requires tokens, so that whatever it is told it is
// told with one.
func (c cloudInit) ec2(t *testing.T, p *guestPlane, netns string, g seedbed.Guest) {
	before := len(p.seen(g))
	f := c.datasource(t, netns, g, seedbed.DatasourceEC2, "DataSourceEc2", "DataSourceEc2")
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
	lab.Await(t, lab.Patience, "the records of the crawl arrive", func() bool { return slices.Contains(p.seen(g)[before:], last) })
	tokens := 0
	for _, line := range p.seen(g)[before:] {
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

func (c cloudInit) openStack(t *testing.T, netns string, g seedbed.Guest) {
	f := c.datasource(t, netns, g, seedbed.DatasourceOpenStack, "DataSourceOpenStack", "DataSourceOpenStack")
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

func (c cloudInit) noCloud(t *testing.T, netns string, g seedbed.Guest) {
	f := c.datasource(t, netns, g, seedbed.DatasourceNoCloud, "DataSourceNoCloud", "DataSourceNoCloudNet")
	if f.InstanceID != g.ID.EC2() || string(f.VendorData) != clientVendorData {
		t.Errorf("instance %q, vendor-data %q", f.InstanceID, f.VendorData)
	}
	if !c.newest { // it does not ask for any
		if f.Network != nil {
			t.Errorf("network configuration %v: it is DHCP's", f.Network)
		}
		return
	}
	ethernets, _ := f.Network["ethernets"].(map[string]any)
	nic0, _ := ethernets["nic0"].(map[string]any)
	match, _ := nic0["match"].(map[string]any)
	if nic0["dhcp4"] != true || match["macaddress"] != g.NICs[0].MAC.String() {
		t.Errorf("network configuration %v, want DHCP on the guest's NIC", f.Network)
	}
	if !strings.Contains(f.ENI, "iface eth0 inet dhcp") || strings.Contains(f.ENI, "nic0") {
		t.Errorf("its file for ifupdown, want DHCP on eth0, by the guest's own name:\n%s", f.ENI)
	}
}

// TestDSIdentify: what cloud-init's generator makes of the domain's firmware,
// before any datasource is tried.
func TestDSIdentify(t *testing.T) {
	for name, c := range cloudInits(t) {
		for datasource, want := range map[seedbed.Datasource]string{
			seedbed.DatasourceEC2:       "datasource_list: [ Ec2, None ]",
			seedbed.DatasourceOpenStack: "datasource_list: [ OpenStack, None ]",
			seedbed.DatasourceNoCloud:   "datasource_list: [ NoCloud, None ]",
			seedbed.DatasourceNone:      "",
		} {
			t.Run(name+"/"+string(datasource), func(t *testing.T) {
				c.identify(t, smbios(t, datasource.NewInstanceID(), datasource), want)
			})
		}
		// With a UUID of EC2's form, the newest takes EC2's first, whatever is announced.
		was := "datasource_list: [ OpenStack, None ]"
		if c.newest {
			was = "datasource_list: [ Ec2, OpenStack, None ]"
		}
		t.Run(name+"/EC2's UUID", func(t *testing.T) {
			c.identify(t, smbios(t, seedbed.NewInstanceID(), seedbed.DatasourceOpenStack), was)
		})
	}
}

// identify runs ds-identify on a firmware. It must end well only if want, the line that it writes,
// is not empty.
func (c cloudInit) identify(t *testing.T, smbios map[string]string, want string) {
	t.Helper()
	root := firmware(t, smbios)
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
	// Recent releases look for this machine's own /etc/cloud/cloud-init.disabled, so it is hidden.
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /etc/cloud && exec "$0" --force`,
		c.root+"/usr/lib/cloud-init/ds-identify")
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
}
