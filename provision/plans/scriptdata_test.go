package plans

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestScriptData checks that the keys and types are those of PVC's vm_data.
func TestScriptData(t *testing.T) {
	t.Parallel()
	run := seedbed.ScriptRun{
		Script: seedbed.Script{Text: "print(1)"},
		System: seedbed.SystemTemplate{ObjectMeta: seedbed.ObjectMeta{ID: 3}, Name: "small", VCPUs: 2,
			Memory: 512 * seedbed.MiB, Serial: true, VNC: true, VNCBind: "0.0.0.0",
			NodeLimit: []string{"a", "b"}, NodeSelector: "mem", MigrationMethod: "live", MigrationDowntime: 300 * time.Millisecond},
		Network: seedbed.NetworkTemplate{
			MAC: "{prefix}:00:{vmid}0:{netid}0", Networks: []seedbed.TemplateNetwork{{ID: 1, Template: 5, VNI: "default"}},
		},
		Storage: seedbed.StorageTemplate{Disks: []seedbed.TemplateDisk{
			{ID: 1, Template: 7, Name: "sda", Pool: "default", Source: "ova_app_sda"},
			{ID: 2, Template: 7, Name: "sdb", Pool: "default", Size: 1536 * seedbed.MiB, Filesystem: "ext4",
				FilesystemArgs: []string{"-L=data", "-F"}, Mountpoint: "/srv"},
		}},
		OVA: &seedbed.OVA{ObjectMeta: seedbed.ObjectMeta{ID: 9}, Name: "app",
			Volumes: []seedbed.OVAVolume{{Disk: "sda", Pool: "default", Image: "ova_app_sda", Format: "vmdk", Size: 3 * seedbed.GiB}}},
		Bridges: []string{"seedbed0"}, Arguments: map[string]string{"who": "me"},
	}
	inst := seedbed.Instance{NICs: []seedbed.NIC{{MAC: seedbed.MAC{0x52, 0x54, 1, 0, 0x30, 0}}}}
	b, err := json.Marshal(dataOf(run, inst, seedbed.ScriptHost{Arch: "x86_64", Monitors: []string{"mon1"}, MonitorPort: "3300"}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
		"script_arguments": {"who": "me"},
		"system_details": {"id": 3, "name": "small", "vcpu_count": 2, "vram_mb": 512, "serial": true, "vnc": true, "vnc_bind": "0.0.0.0", "node_limit": "a,b",
			"node_selector": "mem", "node_autostart": false, "migration_method": "live", "migration_max_downtime": 300, "ova": null},
		"mac_template": "{prefix}:00:{vmid}0:{netid}0",
		"networks": [{"id": 1, "network_template": 5, "vni": "default", "eth_bridge": "seedbed0", "mac": "52:54:01:00:30:00"}],
		"volumes": [
			{"id": 1, "storage_template": 7, "pool": "default", "disk_id": "sda", "source_volume": null, "disk_size_gb": 3, "mountpoint": null, "filesystem": null, "filesystem_args": "",
				"volume_name": "ova_app_sda", "volume_format": "raw"},
			{"id": 2, "storage_template": 7, "pool": "default", "disk_id": "sdb", "source_volume": null, "disk_size_gb": 2, "mountpoint": "/srv", "filesystem": "ext4", "filesystem_args": "-L=data -F"}
		],
		"script": "print(1)",
		"ova_details": {"id": 9, "name": "app", "volumes": [{"id": 1, "storage_template": 7, "pool": "default", "disk_id": "sda", "source_volume": null, "disk_size_gb": 3, "mountpoint": null,
			"filesystem": null, "filesystem_args": "", "volume_name": "ova_app_sda", "volume_format": "raw"}]},
		"system_architecture": "x86_64", "ceph_monitor_list": ["mon1"], "ceph_monitor_port": "3300", "ceph_monitor_secret": "00000000-0000-0000-0000-000000000000"
	}`
	var got, wanted any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wanted, got); d != "" {
		t.Errorf("vm_data (-want +got):\n%s", d)
	}
}
