package provision

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/intake"
)

// mimeParts returns the bodies of a multipart document's parts, which are plain text.
func mimeParts(t *testing.T, doc []byte) (bodies []string) {
	t.Helper()
	msg, err := mail.ReadMessage(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return bodies
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(body))
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
	got, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if len(got.ReportToken) != 32 || !strings.HasPrefix(string(got.ID), "ec2") {
		t.Errorf("token %q, ID %s", got.ReportToken, got.ID)
	}
	parts := mimeParts(t, got.UserData)
	if len(parts) != 2 || parts[0] != "#cloud-config\nruncmd: [echo hi]\n" ||
		!strings.Contains(parts[1], "/seedbed/report/"+got.ReportToken+"\n") {
		t.Errorf("user-data %q", parts)
	}
	owner, err := l.db.Project(t.Context(), seedbed.DefaultProject)
	l.ok(err)
	want := seedbed.Instance{
		Project: owner.Name, Account: owner.Number, Name: "web1", Profile: "small", Image: "debian", Node: testNode,
		State:  seedbed.InstanceProvisioning,
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
		{"action", seedbed.Request{Action: "pause", Name: "web1"}, seedbed.ErrInvalid,
			`action "pause" is unknown: expected create, remove, rebuild, start, stop, reboot, migrate, ` +
				`nic-add, nic-remove, nic-set, resize, set, rename, clone, snapshot, snapshot-remove, ` +
				`snapshot-restore, backup or an action on a volume`},
		{"a param in another case", seedbed.Request{Action: seedbed.DoSet, Name: "web1", Params: map[string]any{"VNC_bind": "0.0.0.0"}},
			seedbed.ErrInvalid, "the params of set are wrong: /VNC_bind is unknown"},
		{"a param of another type", seedbed.Request{Action: seedbed.DoResize, Name: "web1", Params: map[string]any{"vcpus": "two"}},
			seedbed.ErrInvalid, "the params of resize are wrong: /vcpus has the wrong type"},
		{"a param with a wrong value", seedbed.Request{Action: seedbed.DoResize, Name: "web1", Params: map[string]any{"memory": "much"}},
			seedbed.ErrInvalid, "the params of resize are wrong: /memory: "},
		{"no action", seedbed.Request{Name: "web1"}, seedbed.ErrInvalid, `action "" is unknown`},
		{"name", seedbed.Request{Action: "create", Name: "Web_1", Profile: "small"}, seedbed.ErrInvalid, "is not a host name"},
		{"profile", seedbed.Request{Action: "create", Name: "web1", Profile: "big"}, seedbed.ErrInvalid,
			`profile "big" does not exist; there are: small`},
		{"no profile", seedbed.Request{Action: "create", Name: "web1"}, seedbed.ErrInvalid, "profile is missing"},
		{"taken", seedbed.Request{Action: "create", Name: "taken", Profile: "small"}, seedbed.ErrExists, `instance "taken"`},
		{"disk below the image", seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"disk": 512.0}},
			seedbed.ErrInvalid, "image debian has"},
		{"user_data that cannot be combined",
			seedbed.Request{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"user_data": "hello"}},
			seedbed.ErrInvalid, "#cloud-boothook"},
		{"remove what is not there", seedbed.Request{Action: "remove", Name: "web1"}, seedbed.ErrNotFound,
			`instance "web1" does not exist`},
		{"remove with params", seedbed.Request{Action: "remove", Name: "taken", Params: map[string]any{"a": 1}},
			seedbed.ErrInvalid, "has no params"},
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
			if _, err := l.intake.Import(t.Context(), tt.image, tt.pool, tt.spec, usual); !errors.Is(err, seedbed.ErrInvalid) {
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
	_, err := l.db.CreateHook(t.Context(), seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: make([]byte, 32)}},
		Actions: []string{"create", "remove"}, Tolerance: time.Minute})
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
	intake.Store
	deliveries int
}

func (s *asked) EarlierReceipt(ctx context.Context, d seedbed.Delivery) (*seedbed.Receipt, error) {
	s.deliveries++
	return s.Store.EarlierReceipt(ctx, d)
}

// TestRepeatedDeliveryIsLookedUp checks that a delivery is found by its ID, however many came after
// it.
func TestRepeatedDeliveryIsLookedUp(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	_, err := l.db.CreateHook(t.Context(), seedbed.Hook{Name: "ci",
		Keys: []seedbed.HookKey{{ID: "k1", Secret: make([]byte, 32)}}, Actions: []string{"create"}, Tolerance: time.Minute})
	l.ok(err)
	s := &asked{Store: l.db}
	d := seedbed.Delivery{Hook: "ci", ID: "msg_1", Received: time.Now()}
	request := seedbed.Request{Action: "create", Name: "web1", Profile: "small"}
	first, err := NewIntake(s, intake.Serving{Node: testNode}).Submit(t.Context(), request, &d)
	l.ok(err)
	request.Profile = "gone"
	again, err := NewIntake(s, intake.Serving{Node: testNode}).Submit(t.Context(), request, &d)
	if err != nil || !again.Duplicate || again.Job != first.Job || s.deliveries != 1 {
		t.Errorf("%+v, %v, %d questions", again, err, s.deliveries)
	}
	d.ID = "msg_2"
	if _, err := NewIntake(s, intake.Serving{Node: testNode}).Submit(t.Context(), request, &d); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a new delivery: %v", err)
	}
}

// taken is a store in which the first MACs are taken.
type taken struct {
	intake.Store
	left int
	seen map[seedbed.MAC]bool
}

func (s *taken) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	s.seen[a.Instance.NICs[0].MAC] = true
	if s.left--; s.left >= 0 {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrExists, "MAC address is taken")
	}
	return s.Store.Accept(ctx, a)
}

func TestMACIsTaken(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	for _, tt := range []struct {
		name  string
		taken int
		want  error
	}{{"web1", 3, nil}, {"web2", 4, seedbed.ErrExists}} {
		s := &taken{Store: l.db, left: tt.taken, seen: map[seedbed.MAC]bool{}}
		_, err := NewIntake(s, intake.Serving{Node: testNode}).Submit(t.Context(),
			seedbed.Request{Action: "create", Name: tt.name, Profile: "small"}, nil)
		if !errors.Is(err, tt.want) || len(s.seen) != 4 {
			t.Errorf("%d taken: %v after %d addresses", tt.taken, err, len(s.seen))
		}
	}
}
