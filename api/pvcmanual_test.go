package api_test

import "testing"

// TestPVCManual makes the requests of the examples in PVC's manual, whose parameters have the names of
// earlier releases, and checks what they make.
func TestPVCManual(t *testing.T) {
	t.Parallel()
	s := composable(t)
	const p, template = "/provisioner", "/provisioner/template"
	const mime = `[{"id":#,"name":"mime","userdata":"Content-Type: text/cloud-config\nMIME-Version: 1.0\n\na: b"}]`
	for _, c := range []call{
		{"POST", template + "/system?name=2cpu-1gb-serial&vcpus=2&vram=1024&serial=true&vnc=false&node_limit=host1,pvchv2" +
			"&node_selector=mem&start_with_node=true", "", 200, msg(`Added new system template "2cpu-1gb-serial".`)},
		{"POST", template + "/network?name=net200", "", 200, msg(`Added new network template "net200".`)},
		{"POST", template + "/network/net200/net/default", "", 200, msg(`Added new network "default" to network template "net200".`)},
		{"POST", template + "/storage/ext4-root-var-log", "", 200, msg(`Added new storage template "ext4-root-var-log".`)},
		{"POST", template + "/storage/ext4-root-var-log/disk?disk_id=sda&disk_size=4&filesystem=ext4&mountpoint=/&pool=default" +
			"&filesystem_arg=-L=root", "", 200, msg(`Added new disk "sda" to storage template "ext4-root-var-log".`)},
		{"POST", template + "/storage/ext4-root-var-log/disk/sdc",
			"disk_size=4&filesystem=ext4&mountpoint=/var/log&pool=default&filesystem_arg=-L=log&filesystem_arg=-m=1",
			200, msg(`Added new disk "sdc" to storage template "ext4-root-var-log".`)},
		{"POST", template + "/userdata?name=example-userdata", "data=%23cloud-config", 200, msg(`Created userdata document "example-userdata".`)},
		{"POST", p + "/script/debootstrap-example", "data=print(1)", 200, msg(`Created provisioning script "debootstrap-example".`)},
		{"POST", p + "/profile/test-profile?system_template=2cpu-1gb-serial&network_template=net200&disk_template=ext4-root-var-log" +
			"&userdata_template=example-userdata&script=debootstrap-example&arg=deb_release=buster", "", 200,
			msg(`Created VM profile "test-profile".`)},
		{"GET", template + "/system/2cpu-1gb-serial", "", 200, `[{"id":#,"name":"2cpu-1gb-serial","vcpu_count":2,"vram_mb":1024,"serial":true,` +
			`"vnc":false,"vnc_bind":null,"node_limit":"host1,pvchv2","node_selector":"mem","node_autostart":true,"migration_method":null,` +
			`"ova":null,"migration_max_downtime":300}]`},
		{"GET", p + "/profile/test-profile", "", 200, `[{"id":#,"name":"test-profile","type":"provisioner","system_template":"2cpu-1gb-serial",` +
			`"network_template":"net200","storage_template":"ext4-root-var-log","userdata":"example-userdata","script":"debootstrap-example",` +
			`"ova":"N/A","arguments":["deb_release=buster"]}]`},
		{"POST", p + "/profile/test-profile-2", "system_template=2cpu-1gb-serial&network_template=net200&disk_template=ext4-root-var-log" +
			"&storage_template=root&script=empty", 400, lacks("storage_template", "It is there more than once.")},
		{"POST", template + "/userdata?name=mime", "data=Content-Type:+text/cloud-config%0aMIME-Version:+1.0%0a%0aa:+b",
			200, msg(`Created userdata document "mime".`)},
		{"POST", template + "/userdata", "data=%23cloud-config", 400, lacks("name", "A name must be specified.")},
		{"GET", template + "/userdata?name=mime", "", 200, mime},
		{"GET", template + "/userdata?limit=^mi", "", 200, mime},
		{"GET", template + "/userdata?name=none", "", 404, msg("No userdata documents found.")},
		{"GET", template + "/userdata/example-userdata", "", 404,
			msg("Userdata documents are at /api/v1/provisioner/userdata, without template before it.")},
		{"GET", template + "/net200", "", 404,
			msg("A template is at /api/v1/provisioner/template/system, network or storage, with its name after it.")},
	} {
		s.pvc(t, c)
	}
	if r := s.do(t, "POST", "/api/v1/provisioner/create?name=test1&profile=test-profile", ""); r.status != 202 {
		t.Errorf("%+v", r)
	}
}
