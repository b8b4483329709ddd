package provision

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestParams(t *testing.T) {
	t.Parallel()
	profile := seedbed.Profile{
		VCPUs: 2, Memory: seedbed.GiB, DiskSize: 10 * seedbed.GiB,
		UserData: []byte("#!/bin/sh\n"), SSHKeys: []string{"ssh-ed25519 AAAA a"},
	}
	base := shape{vcpus: 2, memory: seedbed.GiB, disk: 10 * seedbed.GiB, userData: profile.UserData, sshKeys: profile.SSHKeys, datasource: seedbed.DatasourceEC2}
	with := func(change func(*shape)) shape { s := base; change(&s); return s }
	tests := []struct {
		name, params string
		want         shape
		err          string
	}{
		{"none", `{}`, base, ""},
		{"all", `{"vcpus":4,"memory":"2GiB","disk":"20G","user_data":"x","ssh_keys":["ssh-rsa BBBB b"]}`,
			shape{vcpus: 4, memory: 2 * seedbed.GiB, disk: 20 * seedbed.GiB, userData: []byte("x"), sshKeys: []string{"ssh-rsa BBBB b"}, datasource: seedbed.DatasourceEC2}, ""},
		{"any bytes", `{"user_data_base64":"AP8=","vendor_data_base64":"/w=="}`, with(func(s *shape) { s.userData, s.vendorData = []byte{0, 255}, []byte{255} }), ""},
		{"vendor-data", `{"vendor_data":"#cloud-config\n","vendor_data_in_user_data":true}`, with(func(s *shape) { s.vendorData, s.vendorInUser = []byte("#cloud-config\n"), true }), ""},
		{"datasource", `{"datasource":"nocloud"}`, with(func(s *shape) { s.datasource = seedbed.DatasourceNoCloud }), ""},
		{"metadata options", `{"http_endpoint":"disabled","http_tokens":"required","http_put_response_hop_limit":64,"instance_metadata_tags":"disabled","instance_id":"uuid"}`,
			with(func(s *shape) {
				s.metadata = seedbed.MetadataOptions{Endpoint: "disabled", Tokens: "required", HopLimit: 64, Tags: "disabled", InstanceID: "uuid"}
			}), ""},
		{"tags", `{"tags":{"a":"b","role":null}}`, with(func(s *shape) { s.tags = map[string]string{"a": "b"} }), ""},
		{"a document twice", `{"user_data":"x","user_data_base64":"eA=="}`, shape{}, "are the same document"},
		{"no base64", `{"user_data_base64":"%"}`, shape{}, "param user_data_base64 is no base64"},
		{"unknown datasource", `{"datasource":"azure"}`, shape{}, `datasource "azure" is unknown: want ec2, openstack, nocloud or none`},
		{"unknown tokens", `{"http_tokens":"yes"}`, shape{}, `http_tokens is "yes": want optional or required`},
		{"hop limit 0", `{"http_put_response_hop_limit":0}`, shape{}, "want 1 to 64"},
		{"hop limit 65", `{"http_put_response_hop_limit":65}`, shape{}, "want 1 to 64"},
		{"tags as a list", `{"tags":["a"]}`, shape{}, "param tags is an array"},
		{"tag of a number", `{"tags":{"a":1}}`, shape{}, "param tags has at \"a\""},
		{"tag with a slash", `{"tags":{"a/b":"c"}}`, shape{}, "has no usable key"},
		{"vendor_data_in_user_data", `{"vendor_data_in_user_data":"yes"}`, shape{}, "want true or false"},
		{"sizes as numbers", `{"memory":134217728,"disk":1073741824}`, with(func(s *shape) { s.memory, s.disk = 128*seedbed.MiB, seedbed.GiB }), ""},
		{"no keys, no user-data", `{"ssh_keys":[],"user_data":""}`, with(func(s *shape) { s.sshKeys, s.userData = nil, []byte{} }), ""},
		{"largest", `{"vcpus":255}`, with(func(s *shape) { s.vcpus = 255 }), ""},
		{"smallest", `{"memory":"64MiB"}`, with(func(s *shape) { s.memory = 64 * seedbed.MiB }), ""},
		{"how it is kept", `{"hold":true,"protected":"false","userdata":"live"}`, with(func(s *shape) {
			yes, no := true, false
			s.hold, s.protected, s.follow = &yes, &no, seedbed.FollowLive
		}), ""},
		{"live beside documents of its own", `{"userdata":"live","vendor_data":"x"}`, shape{}, "params userdata and vendor_data contradict each other"},
		{"unknown way to follow", `{"userdata":"often"}`, shape{}, "want live or pinned"},
		{"hold as a number", `{"hold":1}`, shape{}, "param hold is a number that does not fit: want true or false"},
		{"protected as a word", `{"protected":"yes"}`, shape{}, "param protected is a string: want true or false"},
		{"unknown", `{"cpus":4}`, shape{}, `param "cpus" is unknown: want datasource, disk, hold, http_endpoint, `},
		{"other case", `{"VCPUs":4}`, shape{}, `param "VCPUs" is unknown`},
		{"vcpus as a string", `{"vcpus":"4"}`, shape{}, "param vcpus is a string: want a whole number from 1 to 255"},
		{"vcpus with a fraction", `{"vcpus":1.5}`, shape{}, "param vcpus is a number that does not fit"},
		{"vcpus 0", `{"vcpus":0}`, shape{}, "vcpus is out of range: want 1 to 255"},
		{"vcpus negative", `{"vcpus":-1}`, shape{}, "vcpus is out of range"},
		{"vcpus 256", `{"vcpus":256}`, shape{}, "vcpus is out of range"},
		{"vcpus huge", `{"vcpus":1e300}`, shape{}, "param vcpus is a number that does not fit"},
		{"vcpus 2^32+1", `{"vcpus":4294967297}`, shape{}, "vcpus is out of range"},
		{"vcpus null", `{"vcpus":null}`, shape{}, "param vcpus is null"},
		{"memory is no size", `{"memory":"much"}`, shape{}, `param memory: "much" is not a size`},
		{"memory too small", `{"memory":"63MiB"}`, shape{}, "memory is 63MiB: want 64MiB to 64TiB"},
		{"memory too large", `{"memory":"65TiB"}`, shape{}, "memory is 65TiB"},
		{"memory uneven", `{"memory":67108865}`, shape{}, "want a multiple of 1MiB"},
		{"memory negative", `{"memory":-1}`, shape{}, "param memory is negative"},
		{"memory boolean", `{"memory":true}`, shape{}, "param memory is a boolean"},
		{"disk 0", `{"disk":0}`, shape{}, "param disk is 0"},
		{"disk uneven", `{"disk":1000}`, shape{}, "disk is 1000: want a multiple of 512"},
		{"disk too large", `{"disk":"2000TiB"}`, shape{}, "want at most 64TiB"},
		{"disk object", `{"disk":{}}`, shape{}, "param disk is an object"},
		{"user_data array", `{"user_data":[]}`, shape{}, "param user_data is an array"},
		{"ssh_keys string", `{"ssh_keys":"ssh-rsa A"}`, shape{}, "param ssh_keys is a string"},
		{"ssh_keys of numbers", `{"ssh_keys":[1]}`, shape{}, "param ssh_keys has an element that is"},
		{"ssh_keys of two lines", `{"ssh_keys":["ssh-rsa A\nssh-rsa B"]}`, shape{}, "ssh_keys has at position 1 no authorized_keys line"},
		{"ssh_keys without a key", `{"ssh_keys":["ssh-rsa A","nonsense"]}`, shape{}, "at position 2"},
		{"too many ssh_keys", `{"ssh_keys":[` + strings.Repeat(`"ssh-rsa A",`, 100) + `"ssh-rsa A"]}`, shape{}, "101 keys: want at most 100"},
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

func TestSubmit(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	receipt, err := l.intake.Submit(t.Context(), seedbed.Request{
		Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"memory": "512MiB", "disk": "1GiB", "vcpus": 2.0},
	}, nil)
	l.ok(err)
	if receipt.State != seedbed.JobQueued || receipt.Duplicate {
		t.Errorf("receipt %+v", receipt)
	}
	got, err := l.db.InstanceByName(t.Context(), "web1")
	l.ok(err)
	if len(got.ReportToken) != 32 || !strings.HasPrefix(string(got.ID), "ec2") {
		t.Errorf("token %q, ID %s", got.ReportToken, got.ID)
	}
	parts := readMIME(t, got.UserData)
	if len(parts) != 2 || parts[0].Body != "#cloud-config\nruncmd: [echo hi]\n" || !strings.Contains(parts[1].Body, "/seedbed/report/"+got.ReportToken+"\n") {
		t.Errorf("user-data %q", parts)
	}
	want := seedbed.Instance{
		Name: "web1", Profile: "small", Image: "debian", Node: testNode, State: seedbed.InstanceProvisioning,
		Follow: seedbed.FollowPinned, Source: "1.0", System: seedbed.System{Serial: true},
		VCPUs: 2, Memory: 512 * seedbed.MiB, Ready: seedbed.ReadyReport, SSHKeys: []string{"ssh-ed25519 AAAA someone"},
		Datasource: seedbed.DatasourceEC2, Metadata: seedbed.MetadataOptions{}.WithDefaults(seedbed.MetadataOptions{}), Tags: map[string]string{},
		Volumes: []seedbed.Volume{{Name: string(got.ID) + "-0", Pool: "default", Size: seedbed.GiB, Image: "debian"}},
	}
	got.ID, got.UserData, got.ReportToken, got.NICs, got.Revision, got.Created, got.Changed = "", nil, "", nil, 0, time.Time{}, time.Time{}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("instance (-want +got):\n%s", d)
	}
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.create("taken")
	tests := []struct {
		name string
		req  seedbed.Request
		kind error
		want string
	}{
		{"action", seedbed.Request{Action: "pause", Name: "web1"}, seedbed.ErrInvalid, `action "pause" is unknown: want create, remove, rebuild, start, stop or reboot`},
		{"no action", seedbed.Request{Name: "web1"}, seedbed.ErrInvalid, `action "" is unknown`},
		{"name", seedbed.Request{Action: "create", Name: "Web_1", Profile: "small"}, seedbed.ErrInvalid, "is not a host name"},
		{"profile", seedbed.Request{Action: "create", Name: "web1", Profile: "big"}, seedbed.ErrInvalid, `profile "big" does not exist; there are: small`},
		{"no profile", seedbed.Request{Action: "create", Name: "web1"}, seedbed.ErrInvalid, "profile is missing"},
		{"taken", seedbed.Request{Action: "create", Name: "taken", Profile: "small"}, seedbed.ErrExists, `instance "taken"`},
		{"disk below the image", seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"disk": 512.0}}, seedbed.ErrInvalid, "image debian has"},
		{"user_data that cannot be combined", seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"user_data": "hello"}}, seedbed.ErrInvalid, "#cloud-boothook"},
		{"remove what is not there", seedbed.Request{Action: "remove", Name: "web1"}, seedbed.ErrNotFound, "instance web1 does not exist"},
		{"remove with params", seedbed.Request{Action: "remove", Name: "taken", Params: map[string]any{"a": 1}}, seedbed.ErrInvalid, "takes no params"},
		{"remove of another profile", seedbed.Request{Action: "remove", Name: "taken", Profile: "big"}, seedbed.ErrConflict, "not of profile"},
		{"reboot while it is made", seedbed.Request{Action: "reboot", Name: "taken"}, seedbed.ErrInUse, "create job"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.intake.Submit(t.Context(), tt.req, nil)
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %v that says %q", err, tt.kind, tt.want)
			}
			var full *seedbed.Error
			if (tt.kind == seedbed.ErrExists || tt.kind == seedbed.ErrInUse) && (!errors.As(err, &full) || full.Holder == "") {
				t.Errorf("no holder: %v", err)
			}
		})
	}
	imports := []struct {
		name, image, pool string
		spec              seedbed.ImportSpec
	}{
		{"name", "../x", "default", seedbed.ImportSpec{Path: "/a"}},
		{"pool", "x", "", seedbed.ImportSpec{Path: "/a"}},
		{"relative", "x", "default", seedbed.ImportSpec{Path: "a"}},
		{"not clean", "x", "default", seedbed.ImportSpec{Path: "/a/../b"}},
		{"digest", "x", "default", seedbed.ImportSpec{Path: "/a", SHA256: "00"}},
	}
	for _, tt := range imports {
		t.Run("import/"+tt.name, func(t *testing.T) {
			if _, err := l.intake.Import(t.Context(), tt.image, tt.pool, tt.spec); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRepeatedDelivery checks that a sender that retries gets the first answer, even if its request
// would now be refused.
func TestRepeatedDelivery(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	_, err := l.db.CreateHook(t.Context(), seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: make([]byte, 32)}}, Actions: []string{"create", "remove"}, Tolerance: time.Minute})
	l.ok(err)
	submit := func(id, action string, sum byte) (seedbed.Receipt, error) {
		return l.intake.Submit(t.Context(), seedbed.Request{Action: action, Name: "web1", Profile: "small"},
			&seedbed.Delivery{Hook: "ci", ID: id, SHA256: [32]byte{sum}, Received: time.Now()})
	}
	made, err := submit("msg_1", "create", 1)
	l.ok(err)
	l.runUntil(made.Job, seedbed.JobSucceeded)
	gone, err := submit("msg_2", "remove", 2)
	l.ok(err)
	l.runUntil(gone.Job, seedbed.JobSucceeded)
	for _, tt := range []struct {
		id, action string
		sum        byte
		job        seedbed.JobID
	}{{"msg_1", "create", 1, made.Job}, {"msg_2", "remove", 2, gone.Job}} {
		again, err := submit(tt.id, tt.action, tt.sum)
		if err != nil || !again.Duplicate || again.Job != tt.job || again.State != seedbed.JobSucceeded {
			t.Errorf("%s again: %+v, %v", tt.id, again, err)
		}
		if _, err := submit(tt.id, tt.action, 9); !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%s with another body: %v", tt.id, err)
		}
	}
	if _, err := submit("msg_3", "remove", 3); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("a new delivery: %v", err)
	}
}

// asked is a store that counts how often one delivery was looked up.
type asked struct {
	IntakeStore
	deliveries int
}

func (s *asked) Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error) {
	s.deliveries++
	return s.IntakeStore.Delivery(ctx, hook, id)
}

// TestRepeatedDeliveryIsLookedUp checks that a delivery is found by its ID, however many came after
// it.
func TestRepeatedDeliveryIsLookedUp(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	_, err := l.db.CreateHook(t.Context(), seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: make([]byte, 32)}}, Actions: []string{"create"}, Tolerance: time.Minute})
	l.ok(err)
	s := &asked{IntakeStore: l.db}
	d := seedbed.Delivery{Hook: "ci", ID: "msg_1", Received: time.Now()}
	request := seedbed.Request{Action: "create", Name: "web1", Profile: "small"}
	first, err := NewIntake(s, Serving{Node: testNode}).Submit(t.Context(), request, &d)
	l.ok(err)
	request.Profile = "gone"
	again, err := NewIntake(s, Serving{Node: testNode}).Submit(t.Context(), request, &d)
	if err != nil || !again.Duplicate || again.Job != first.Job || s.deliveries != 1 {
		t.Errorf("%+v, %v, %d questions", again, err, s.deliveries)
	}
	d.ID = "msg_2"
	if _, err := NewIntake(s, Serving{Node: testNode}).Submit(t.Context(), request, &d); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a new delivery: %v", err)
	}
}

// taken is a store in which the first MACs are taken.
type taken struct {
	IntakeStore
	left int
	seen map[seedbed.MAC]bool
}

func (s *taken) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	s.seen[a.Instance.NICs[0].MAC] = true
	if s.left--; s.left >= 0 {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrExists, "MAC address is taken")
	}
	return s.IntakeStore.Accept(ctx, a)
}

func TestMACIsTaken(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	for _, tt := range []struct {
		name  string
		taken int
		want  error
	}{{"web1", 3, nil}, {"web2", 4, seedbed.ErrExists}} {
		s := &taken{IntakeStore: l.db, left: tt.taken, seen: map[seedbed.MAC]bool{}}
		_, err := NewIntake(s, Serving{Node: testNode}).Submit(t.Context(), seedbed.Request{Action: "create", Name: tt.name, Profile: "small"}, nil)
		if !errors.Is(err, tt.want) || len(s.seen) != 4 {
			t.Errorf("%d taken: %v after %d addresses", tt.taken, err, len(s.seen))
		}
	}
}
