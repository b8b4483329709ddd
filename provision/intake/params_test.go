package intake

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestParams(t *testing.T) {
	t.Parallel()
	profile := seedbed.Profile{
		VCPUs: 2, Memory: seedbed.GiB, DiskSize: 10 * seedbed.GiB,
		UserData: []byte("#!/bin/sh\n"), SSHKeys: []string{"ssh-ed25519 AAAA a"},
	}
	base := shape{vcpus: 2, memory: seedbed.GiB, disk: 10 * seedbed.GiB, userData: profile.UserData,
		sshKeys: profile.SSHKeys, datasource: seedbed.DatasourceEC2}
	with := func(change func(*shape)) shape { s := base; change(&s); return s }
	tests := []struct {
		name, params string
		want         shape
		err          string
	}{
		{"none", `{}`, base, ""},
		{"all", `{"vcpus":4,"memory":"2GiB","disk":"20G","user_data":"x","ssh_keys":["ssh-rsa BBBB b"]}`,
			shape{vcpus: 4, memory: 2 * seedbed.GiB, disk: 20 * seedbed.GiB, userData: []byte("x"),
				sshKeys: []string{"ssh-rsa BBBB b"}, datasource: seedbed.DatasourceEC2}, ""},
		{"any bytes", `{"user_data_base64":"AP8=","vendor_data_base64":"/w=="}`,
			with(func(s *shape) { s.userData, s.vendorData = []byte{0, 255}, []byte{255} }), ""},
		{"vendor-data", `{"vendor_data":"#cloud-config\n","vendor_data_in_user_data":true}`,
			with(func(s *shape) { s.vendorData, s.vendorInUser = []byte("#cloud-config\n"), true }), ""},
		{"datasource", `{"datasource":"nocloud"}`, with(func(s *shape) { s.datasource = seedbed.DatasourceNoCloud }), ""},
		{"metadata options", `{"http_endpoint":"disabled","http_tokens":"required",` +
			`"http_put_response_hop_limit":64,"instance_metadata_tags":"disabled","instance_id":"uuid","target_lifecycle_state":"InService"}`,
			with(func(s *shape) {
				s.metadata = seedbed.MetadataOptions{Endpoint: "disabled", Tokens: "required", HopLimit: 64, Tags: "disabled", InstanceID: "uuid",
					TargetState: "InService"}
			}), ""},
		{"tags", `{"tags":{"a":"b","role":null}}`, with(func(s *shape) { s.tags = map[string]string{"a": "b"} }), ""},
		{"a document twice", `{"user_data":"x","user_data_base64":"eA=="}`, shape{}, "are the same document"},
		{"no base64", `{"user_data_base64":"%"}`, shape{}, "param user_data_base64 is not base64"},
		{"unknown datasource", `{"datasource":"azure"}`, shape{}, `datasource "azure" is unknown: expected ec2, openstack, nocloud or none`},
		{"unknown tokens", `{"http_tokens":"yes"}`, shape{}, `http_tokens is "yes": expected optional or required`},
		{"unknown state", `{"target_lifecycle_state":"inservice"}`, shape{}, `is "inservice": expected none, Detached, InService, `},
		{"hop limit 0", `{"http_put_response_hop_limit":0}`, shape{}, "expected 1 to 64"},
		{"hop limit 65", `{"http_put_response_hop_limit":65}`, shape{}, "expected 1 to 64"},
		{"tags as a list", `{"tags":["a"]}`, shape{}, "param tags is an array"},
		{"tag of a number", `{"tags":{"a":1}}`, shape{}, "param tags: the value of \"a\""},
		{"tag with a slash", `{"tags":{"a/b":"c"}}`, shape{}, "has no usable key"},
		{"vendor_data_in_user_data", `{"vendor_data_in_user_data":"yes"}`, shape{}, "expected true or false"},
		{"sizes as numbers", `{"memory":134217728,"disk":1073741824}`,
			with(func(s *shape) { s.memory, s.disk = 128*seedbed.MiB, seedbed.GiB }), ""},
		{"no keys, no user-data", `{"ssh_keys":[],"user_data":""}`, with(func(s *shape) { s.sshKeys, s.userData = nil, []byte{} }), ""},
		{"largest", `{"vcpus":255}`, with(func(s *shape) { s.vcpus = 255 }), ""},
		{"smallest", `{"memory":"64MiB"}`, with(func(s *shape) { s.memory = 64 * seedbed.MiB }), ""},
		{"how it is kept", `{"hold":true,"protected":"false","userdata":"live"}`, with(func(s *shape) {
			yes, no := true, false
			s.hold, s.protected, s.follow = &yes, &no, seedbed.FollowLive
		}), ""},
		{"live beside documents of its own", `{"userdata":"live","vendor_data":"x"}`, shape{},
			"params userdata and vendor_data contradict each other"},
		{"unknown way to follow", `{"userdata":"often"}`, shape{}, "expected live or pinned"},
		{"started elsewhere", `{"restart":"always","restart_priority":-7}`,
			with(func(s *shape) { s.restart, s.priority = "always", -7 }), ""},
		{"unknown restart", `{"restart":"often"}`, shape{}, "expected never or always"},
		{"priority out of range", `{"restart_priority":1001}`, shape{}, "restart_priority is 1001: expected -1000 to 1000"},
		{"priority as a word", `{"restart_priority":"high"}`, shape{},
			"param restart_priority is a string: expected a whole number from -1000 to 1000"},
		{"hold as a number", `{"hold":1}`, shape{}, "param hold is a number that does not fit: expected true or false"},
		{"protected as a word", `{"protected":"yes"}`, shape{}, "param protected is a string: expected true or false"},
		{"unknown", `{"cpus":4}`, shape{}, `param "cpus" is unknown: expected boot_from, cdrom, datasource, disk, firmware, `},
		{"other case", `{"VCPUs":4}`, shape{}, `param "VCPUs" is unknown`},
		{"vcpus as a string", `{"vcpus":"4"}`, shape{}, "param vcpus is a string: expected a whole number from 1 to 255"},
		{"vcpus with a fraction", `{"vcpus":1.5}`, shape{}, "param vcpus is a number that does not fit"},
		{"vcpus 0", `{"vcpus":0}`, shape{}, "vcpus is out of range: expected 1 to 255"},
		{"vcpus negative", `{"vcpus":-1}`, shape{}, "vcpus is out of range"},
		{"vcpus 256", `{"vcpus":256}`, shape{}, "vcpus is out of range"},
		{"vcpus huge", `{"vcpus":1e300}`, shape{}, "param vcpus is a number that does not fit"},
		{"vcpus 2^32+1", `{"vcpus":4294967297}`, shape{}, "vcpus is out of range"},
		{"vcpus null", `{"vcpus":null}`, shape{}, "param vcpus is null"},
		{"memory is no size", `{"memory":"much"}`, shape{}, `param memory: "much" is not a size`},
		{"memory too small", `{"memory":"63MiB"}`, shape{}, "memory is 63MiB: expected 64MiB to 64TiB"},
		{"memory too large", `{"memory":"65TiB"}`, shape{}, "memory is 65TiB"},
		{"memory uneven", `{"memory":67108865}`, shape{}, "expected a multiple of 1MiB"},
		{"memory negative", `{"memory":-1}`, shape{}, "param memory is negative"},
		{"memory boolean", `{"memory":true}`, shape{}, "param memory is a boolean"},
		{"disk 0", `{"disk":0}`, shape{}, "param disk is 0"},
		{"disk uneven", `{"disk":1000}`, shape{}, "disk is 1000: expected a multiple of 512"},
		{"disk too large", `{"disk":"2000TiB"}`, shape{}, "expected at most 64TiB"},
		{"disk object", `{"disk":{}}`, shape{}, "param disk is an object"},
		{"user_data array", `{"user_data":[]}`, shape{}, "param user_data is an array"},
		{"ssh_keys string", `{"ssh_keys":"ssh-rsa A"}`, shape{}, "param ssh_keys is a string"},
		{"ssh_keys of numbers", `{"ssh_keys":[1]}`, shape{}, "param ssh_keys has an element that is"},
		{"ssh_keys of two lines", `{"ssh_keys":["ssh-rsa A\nssh-rsa B"]}`, shape{}, "ssh_keys: key 1 is not an authorized_keys line"},
		{"ssh_keys without a key", `{"ssh_keys":["ssh-rsa A","nonsense"]}`, shape{}, "key 2 is not"},
		{"too many ssh_keys", `{"ssh_keys":[` + strings.Repeat(`"ssh-rsa A",`, 100) + `"ssh-rsa A"]}`, shape{}, "101 keys: expected at most 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var params map[string]any
			if err := json.Unmarshal([]byte(tt.params), &params); err != nil {
				t.Fatal(err)
			}
			profile := profile
			profile.Follow = seedbed.FollowPinned
			got, err := shapeOf(profile, params)
			if err == nil {
				err = got.checkRest(recipe{})
			}
			if tt.err != "" {
				if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v; want one that says %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.follow == "" {
				tt.want.follow = seedbed.FollowPinned
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(shape{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	for _, v := range []any{int(4), int64(4), float64(4), json.Number("4")} {
		if got, err := shapeOf(profile, map[string]any{"vcpus": v}); err != nil || got.vcpus != 4 {
			t.Errorf("vcpus as %T: %d, %v", v, got.vcpus, err)
		}
	}
}
