package api_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"seedbed"
)

const formType = "application/x-www-form-urlencoded"

// call is one request to PVC's API, and the expected answer.
type call struct {
	method, path, form string
	status             int
	// body is the whole answer. In it, # stands for a number and % for a task's ID.
	body string
}

// pvc makes a request with a form, and checks the answer.
func (s *server) pvc(t *testing.T, c call) response {
	t.Helper()
	path, _, _ := strings.Cut(c.path, "?")
	s.asked = append(s.asked, c.method+" "+path)
	r := s.do(t, c.method, "/api/v1"+c.path, c.form, "Content-Type", formType)
	pattern := "^" + strings.NewReplacer(`#`, `[0-9]+`, `%`, `[0-9a-f]{8}`).Replace(regexp.QuoteMeta(c.body)) + "$"
	if r.status != c.status || !regexp.MustCompile(pattern).MatchString(r.body) {
		t.Errorf("%s %s %s: %d %s\nwant %d %s", c.method, c.path, c.form, r.status, r.body, c.status, c.body)
	}
	return r
}

func msg(s string) string { return `{"message":` + fmt.Sprintf("%q", s) + `}` }

func lacks(name, help string) string {
	return fmt.Sprintf(`{"message":{%q:%q}}`, name, help)
}

// provisioner returns a server with an image and a second network, whose name is a VNI.
func provisioner(t *testing.T) *server {
	t.Helper()
	s := start(t)
	s.importImage(t, "debian")
	_, err := s.db.CreateNetwork(t.Context(), seedbed.Network{Name: "1000", Bridge: "vmbr1000", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPVCProvisioner calls the 52 methods of /provisioner in the order of a life, and checks their
// statuses and forms.
func TestPVCProvisioner(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	const (
		p       = "/provisioner"
		system  = p + "/template/system"
		network = p + "/template/network"
		storage = p + "/template/storage"
	)
	hw := "vcpus=2&vram=1024&serial=True&vnc=False"
	for _, c := range []call{
		{"GET", p, "", 404, msg("The requested URL was not found on the server. Seedbed's paths are described at /api/v1/openapi.yaml.")},
		{"GET", p + "/template", "", 200, `{"system_templates":[],"network_templates":[],"storage_templates":[]}`},

		{"GET", system, "", 404, msg("No system templates found.")},
		{"POST", system, hw, 400, lacks("name", "A name must be specified.")},
		{"POST", system + "?name=small", "vram=1024&serial=1&vnc=0", 400, lacks("vcpus", "A vcpus value must be specified.")},
		{"POST", system + "?name=small&vcpus=2&vram=1024&serial=True&vnc=False&node_selector=none&migration_max_downtime=300",
			"", 200, msg(`Added new system template "small".`)},
		{"POST", system, "name=small&" + hw, 400, msg(`The system template "small" already exists.`)},
		{"POST", system, "name=big&vram=1024&serial=1&vnc=0&vcpus=two", 400, msg("A vcpus value must be an integer.")},
		{"POST", system, "name=big&vcpus=2&serial=1&vnc=0&vram=1G", 400, msg("A vram value must be an integer.")},
		{"POST", system + "/big", hw + "&vnc=YES&vnc=YES", 400, lacks("vnc", "It is there more than once.")},
		{"POST", system + "/big", "vcpus=4&vram=2048&serial=off&vnc=y&vnc_bind=0.0.0.0&node_limit=host1,host2&node_selector=mem&" +
			"node_autostart=true&migration_method=live&migration_max_downtime=500", 200, msg(`Added new system template "big".`)},
		{"POST", system + "/big", hw, 400, msg(`The system template "big" already exists.`)},
		{"GET", system + "/small", "", 200, `[{"id":#,"name":"small","vcpu_count":2,"vram_mb":1024,"serial":true,"vnc":false,` +
			`"vnc_bind":null,"node_limit":null,"node_selector":null,"node_autostart":false,` +
			`"migration_method":null,"ova":null,"migration_max_downtime":300}]`},
		{"GET", system + "?limit=^bi", "", 200, `[{"id":#,"name":"big","vcpu_count":4,"vram_mb":2048,"serial":false,"vnc":true,` +
			`"vnc_bind":"0.0.0.0","node_limit":"host1,host2","node_selector":"mem",` +
			`"node_autostart":true,"migration_method":"live","ova":null,"migration_max_downtime":500}]`},
		{"GET", system + "/s%25", "", 404, msg("No system templates found.")},
		{"GET", system + "/smal_", "", 404, msg("No system templates found.")},
		{"PUT", system + "/big", "disk_bus=ide", 400, msg(`Disk_bus "ide" is unknown: expected virtio or scsi.`)},
		{"PUT", system + "/big", "disk_bus=scsi&disk_copy=yes", 200, msg(`Modified system template "big".`)},
		{"GET", system + "/big", "", 200, `[{"id":#,"name":"big","vcpu_count":4,"vram_mb":2048,"serial":false,"vnc":true,` +
			`"vnc_bind":"0.0.0.0","node_limit":"host1,host2","node_selector":"mem","node_autostart":true,` +
			`"migration_method":"live","ova":null,"migration_max_downtime":500,"disk_bus":"scsi","disk_copy":true}]`},
		{"PUT", system + "/big", "disk_bus=&disk_copy=no", 200, msg(`Modified system template "big".`)},
		{"PUT", system + "/big", "vcpus=x", 400, msg("The vcpus value must be an integer.")},
		{"PUT", system + "/big", "vram=", 400, msg("The vram value must be an integer.")},
		{"PUT", system + "/none", "vcpus=1", 404, msg(`The system template "none" does not exist.`)},
		{"PUT", system + "/big?vcpus=8&vnc=False&node_limit=&node_selector=none", "", 200, msg(`Modified system template "big".`)},
		{"GET", system + "/big", "", 200, `[{"id":#,"name":"big","vcpu_count":8,"vram_mb":2048,"serial":false,"vnc":false,"vnc_bind":null,` +
			`"node_limit":null,"node_selector":null,"node_autostart":true,"migration_method":"live","ova":null,"migration_max_downtime":500}]`},
		{"DELETE", system + "/big", "", 200, msg(`Removed system template "big".`)},
		{"DELETE", system + "/big", "", 400, msg(`The system template "big" does not exist.`)},

		{"GET", network, "", 404, msg("No network templates found.")},
		{"POST", network, "", 400, lacks("name", "A name must be specified.")},
		{"POST", network, "name=lan&mac_template=%7Bprefix%7D:ff:f6:%7Bvmid%7D%7Bnetid%7D", 200, msg(`Added new network template "lan".`)},
		{"POST", network + "/lan", "", 400, msg(`The network template "lan" already exists.`)},
		{"POST", network + "/plain", "", 200, msg(`Added new network template "plain".`)},
		{"GET", network + "/plain", "", 200, `[{"id":#,"name":"plain","mac_template":null,"ova":null,"networks":[]}]`},
		{"GET", network + "/lan/net", "", 404, msg(`No networks found in network template "lan".`)},
		{"GET", network + "/none/net", "", 404, msg(`The network template "none" does not exist.`)},
		{"POST", network + "/lan/net", "", 400, lacks("vni", "A valid VNI must be specified.")},
		{"POST", network + "/lan/net", "vni=default", 200, msg(`Added new network "default" to network template "lan".`)},
		{"POST", network + "/lan/net/1000", "", 200, msg(`Added new network "1000" to network template "lan".`)},
		{"POST", network + "/lan/net/1000", "", 400, msg(`The VNI "1000" in network template "lan" already exists.`)},
		{"POST", network + "/lan/net/1000?permit_duplicate=1", "", 200, msg(`Added new network "1000" to network template "lan".`)},
		{"POST", network + "/lan/net/2000", "", 400, msg(`The network VNI "2000" is not present on the cluster.`)},
		{"POST", network + "/none/net/1000", "", 400, msg(`The network template "none" does not exist.`)},
		{
			"GET", network + "/lan/net", "", 200,
			`[{"id":#,"network_template":#,"vni":"default"},{"id":#,"network_template":#,"vni":"1000"},{"id":#,"network_template":#,"vni":"1000"}]`,
		},
		{"GET", network + "/lan/net/default", "", 200, `[{"id":#,"network_template":#,"vni":"default"}]`},
		{"GET", network + "/lan/net/2000", "", 404, msg(`No networks found in network template "lan".`)},
		{"DELETE", network + "/lan/net/1000", "", 200, msg(`Removed network "1000" from network template "lan".`)},
		{"DELETE", network + "/lan/net/1000", "", 400, msg(`The VNI "1000" in network template "lan" does not exist.`)},
		{"GET", network + "?limit=lan", "", 200, `[{"id":#,"name":"lan","mac_template":"{prefix}:ff:f6:{vmid}{netid}",` +
			`"ova":null,"networks":[{"id":#,"network_template":#,"vni":"default"}]}]`},
		{"DELETE", network + "/plain", "", 200, msg(`Removed network template "plain".`)},

		{"GET", storage, "", 404, msg("No storage templates found.")},
		{"POST", storage, "", 400, lacks("name", "A name must be specified.")},
		{"POST", storage, "name=root", 200, msg(`Added new storage template "root".`)},
		{"POST", storage + "/root", "", 400, msg(`The storage template "root" already exists.`)},
		{"POST", storage + "/data", "", 200, msg(`Added new storage template "data".`)},
		{"GET", storage + "/data", "", 200, `[{"id":#,"name":"data","ova":null,"disks":[]}]`},
		{"GET", storage + "/data/disk", "", 404, msg(`No disks found in storage template "data".`)},
		{"POST", storage + "/data/disk", "pool=default&disk_size=4", 400, lacks("disk_id",
			"A disk identifier in sdX or vdX format must be specified.")},
		{"POST", storage + "/data/disk", "disk_id=sda&disk_size=4", 400, lacks("pool", "A storage pool must be specified.")},
		{
			"POST", storage + "/data/disk",
			"disk_id=sda&pool=default&disk_size=4&filesystem=ext4&filesystem_arg=-L%3Droot&filesystem_arg=-m%3D0&mountpoint=/",
			200, msg(`Added new disk "sda" to storage template "data".`),
		},
		{"POST", storage + "/data/disk/sda", "pool=default&disk_size=4", 400, msg(`The disk "sda" in storage template "data" already exists.`)},
		{"POST", storage + "/data/disk/sdb", "pool=default&disk_size=4&mountpoint=/srv", 400,
			msg("A filesystem must be specified along with a mountpoint.")},
		{"POST", storage + "/data/disk/sdb", "pool=default&source_volume=debian&disk_size=4", 400,
			msg("Clone volumes are not compatible with disk size, filesystem, or mountpoint specifications.")},
		{"POST", storage + "/data/disk/sdb", "pool=default&disk_size=4G", 400, msg("A disk_size value must be an integer.")},
		{"POST", storage + "/data/disk/sdb", "pool=other&disk_size=4", 400, msg(`The pool "other" is not present on the cluster.`)},
		{"POST", storage + "/none/disk/sdb", "pool=default&disk_size=4", 400, msg(`The storage template "none" does not exist.`)},
		{"GET", storage + "/data/disk/sda", "", 200, `[{"id":#,"storage_template":#,"pool":"default","disk_id":"sda",` +
			`"source_volume":null,"disk_size_gb":4,"mountpoint":"/","filesystem":"ext4","filesystem_args":"-L=root -m=0"}]`},
		{"GET", storage + "/data/disk/sdz", "", 404, msg(`No disks found in storage template "data".`)},
		{"GET", storage + "/none/disk", "", 404, msg(`The storage template "none" does not exist.`)},
		{"POST", storage + "/root/disk/sda?pool=default&source_volume=debian", "", 200, msg(`Added new disk "sda" to storage template "root".`)},
		{"GET", storage + "?limit=root$", "", 200, `[{"id":#,"name":"root","ova":null,"disks":[{"id":#,"storage_template":#,` +
			`"pool":"default","disk_id":"sda","source_volume":"debian","disk_size_gb":null,` +
			`"mountpoint":null,"filesystem":null,"filesystem_args":""}]}]`},
		{"POST", storage + "/data/disk/sdb", "pool=default&disk_size=4", 200, msg(`Added new disk "sdb" to storage template "data".`)},
		{"DELETE", storage + "/data/disk/sdb", "", 200, msg(`Removed disk "sdb" from storage template "data".`)},
		{"DELETE", storage + "/data/disk/sdb", "", 400, msg(`The disk "sdb" in storage template "data" does not exist.`)},

		{"GET", p + "/userdata", "", 200, `[{"id":#,"name":"empty","userdata":""}]`},
		{"GET", p + "/userdata?limit=x", "", 404, msg("No userdata documents found.")},
		{"POST", p + "/userdata", "data=x", 400, lacks("name", "A name must be specified.")},
		{"POST", p + "/userdata?name=cloud", "", 400, lacks("data", "A userdata document must be specified.")},
		{"POST", p + "/userdata?name=cloud", "data=%23cloud-config%0A", 200, msg(`Created userdata document "cloud".`)},
		{"POST", p + "/userdata/cloud", "data=x", 400, msg(`The userdata document "cloud" already exists.`)},
		{"POST", p + "/userdata/other", "data=", 200, msg(`Created userdata document "other".`)},
		{"PUT", p + "/userdata/cloud?name=cloud", "", 400, lacks("data", "A userdata document must be specified.")},
		{"PUT", p + "/userdata/cloud?name=cloud", "data=MIME-Version%3A%201.0%0A", 200, msg(`Updated userdata document "cloud".`)},
		{"PUT", p + "/userdata/none", "data=x", 400, msg(`The userdata document "none" does not exist.`)},
		{"PUT", p + "/userdata/empty", "data=x", 400, msg(`The userdata document "empty" is always there and holds nothing: make another.`)},
		{"GET", p + "/userdata/cloud", "", 200, `[{"id":#,"name":"cloud","userdata":"MIME-Version: 1.0\n"}]`},
		{"DELETE", p + "/userdata/other", "", 200, msg(`Removed userdata document "other".`)},
		{"DELETE", p + "/userdata/other", "", 400, msg(`The userdata document "other" does not exist.`)},

		{"GET", p + "/script?limit=x", "", 404, msg("No scripts found.")},
		{"GET", p + "/script", "", 200, `[{"id":#,"name":"empty","script":""}]`},
		{"POST", p + "/script", "name=install", 400, lacks("data", "A provisioning script must be specified.")},
		{"POST", p + "/script", "name=install&data=print(1)", 200, msg(`Created provisioning script "install".`)},
		{"POST", p + "/script/install", "data=x", 400, msg(`The script "install" already exists.`)},
		{"POST", p + "/script/noop", "data=x", 200, msg(`Created provisioning script "noop".`)},
		{"PUT", p + "/script/install", "data=print(2)", 200, msg(`Updated provisioning script "install".`)},
		{"PUT", p + "/script/none", "data=x", 400, msg(`The script "none" does not exist.`)},
		{"GET", p + "/script/install", "", 200, `[{"id":#,"name":"install","script":"print(2)"}]`},
		{"DELETE", p + "/script/noop", "", 200, msg(`Removed provisioning script "noop".`)},
		{"DELETE", p + "/script/noop", "", 400, msg(`The script "noop" does not exist.`)},

		{"GET", p + "/profile", "", 404, msg("No profiles found.")},
		{"POST", p + "/profile", "", 400, lacks("name", "A name must be specified.")},
		{"POST", p + "/profile", "name=web", 400, lacks("system_template", "A system_template must be specified.")},
		{"POST", p + "/profile/web", "profile_type=provisioner", 400, lacks("system_template", "A system_template must be specified.")},
		{"POST", p + "/profile/web", "profile_type=vm&system_template=small&script=empty", 400,
			msg("A valid profile type (provisioner, ova) must be specified.")},
		{"POST", p + "/profile/web", "profile_type=provisioner&system_template=none&script=empty", 400,
			msg(`The system template "none" for profile "web" does not exist.`)},
		{
			"POST", p + "/profile/web",
			"profile_type=provisioner&system_template=small&script=empty&network_template=lan&storage_template=root&ova=x",
			400, msg(`The OVA image "x" for profile "web" does not exist.`),
		},
		{"POST", p + "/profile?name=web&profile_type=provisioner&system_template=small&network_template=lan&" +
			"storage_template=root&userdata=cloud&script=install&arg=a%3Db%7Cc&arg=d%3D", "", 200, msg(`Created VM profile "web".`)},
		{"POST", p + "/profile/web", "profile_type=provisioner&system_template=small&network_template=lan&storage_template=root&script=empty",
			400, msg(`The profile "web" already exists.`)},
		{"POST", p + "/profile/mounted", "profile_type=provisioner&system_template=small&network_template=lan&storage_template=data&script=empty",
			200, msg(`Created VM profile "mounted".`)},
		{"GET", p + "/profile/web", "", 200, `[{"id":#,"name":"web","type":"provisioner","system_template":"small",` +
			`"network_template":"lan","storage_template":"root","userdata":"cloud","script":"install","ova":"N/A","arguments":["a=b|c","d="]}]`},
		{"PUT", p + "/profile/web", "script=none", 400, msg(`The script "none" for profile "web" does not exist.`)},
		{"PUT", p + "/profile/none", "script=empty", 400, msg(`The profile "none" does not exist.`)},
		{"PUT", p + "/profile/web?userdata=empty&arg=", "", 200, msg(`Modified VM profile "web".`)},
		{"GET", p + "/profile?limit=w", "", 200, `[{"id":#,"name":"web","type":"provisioner","system_template":"small",` +
			`"network_template":"lan","storage_template":"root","userdata":"empty","script":"install","ova":"N/A","arguments":[""]}]`},

		{
			"DELETE", system + "/small", "", 400,
			msg(`Failed to delete entry "small": The system template "small" is used by profile "mounted", "web": change or remove that first.`),
		},
		{
			"DELETE", network + "/lan", "", 400,
			msg(`Failed to delete entry "lan": The network template "lan" is used by profile "mounted", "web": change or remove that first.`),
		},
		{
			"DELETE", storage + "/root", "", 400,
			msg(`Failed to delete entry "root": The storage template "root" is used by profile "web": change or remove that first.`),
		},
		{
			"DELETE", p + "/script/install", "", 400,
			msg(`Failed to delete entry "install": The script "install" is used by profile "web": change or remove that first.`),
		},
		{
			"DELETE", p + "/userdata/empty", "", 400,
			msg(`Failed to delete entry "empty": The userdata document "empty" is always there and holds nothing: make another.`),
		},

		{"GET", p + "/ova", "", 404, msg("No OVAs found.")},
		{"GET", p + "/ova/x", "", 404, msg("No OVAs found.")},
		{"POST", p + "/ova?pool=default&ova_size=10", "", 400, lacks("name", "A name must be specified.")},
		{"POST", p + "/ova/x", "pool=default&ova_size=10", 400, lacks("pool", "A storage pool must be specified.")},
		{"POST", p + "/ova/x?pool=default&ova_size=10", "", 400, msg("Did not find an 'ova' or 'default_ova' provisioning script. Add one " +
			"of that name first, which the profile of the OVA is to have: it may be empty, since the disks are cloned without it.")},
		{"DELETE", p + "/ova/x", "", 400, msg(`The OVA image "x" does not exist.`)},

		{"POST", p + "/create", "profile=web", 400, lacks("name", "A VM name must be specified.")},
		{"POST", p + "/create", "name=web1", 400, lacks("profile", "A profile name must be specified.")},
		{"POST", p + "/create", "name=web1&profile=none", 400, msg(`Profile "none" is not valid.`)},
		{"POST", p + "/create", "name=disks&profile=web&define_vm=False", 202,
			`{"task_id":"%","task_name":"provisioner.create","run_on":"host1 (primary)"}`},
		{"POST", p + "/create", "name=web1&profile=mounted", 400, msg(`Profile "mounted" needs its script "empty", which is empty: disk ` +
			`sda has the mountpoint /; expected a script that makes them, ` +
			`or disks that are clones (source_volume), or blank without filesystem and mountpoint.`)},
		{"POST", p + "/create?name=web1&profile=web&define_vm=True&start_vm=True&arg=a%3Db", "", 202,
			`{"task_id":"%","task_name":"provisioner.create","run_on":"host1 (primary)"}`},

		{"DELETE", p + "/profile/web", "", 200, msg(`Removed VM profile "web".`)},
		{"DELETE", p + "/profile/web", "", 400, msg(`The profile "web" does not exist.`)},
	} {
		s.pvc(t, c)
	}
	s.all52(t)
}
