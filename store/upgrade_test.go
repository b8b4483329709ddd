package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pressly/goose/v3"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/store/sqldb"
)

// The content of a database of the first release.
const (
	firstInstance = seedbed.InstanceID("ec2aaaaa-0000-4000-8000-000000000001")
	firstImport   = seedbed.JobID("00000000-0000-7000-8000-000000000001")
	firstCreate   = seedbed.JobID("00000000-0000-7000-8000-000000000002")
	firstLive     = seedbed.JobID("00000000-0000-7000-8000-000000000003")
)

var firstData = []byte("#cloud-config\n")

// fillFirstRelease inserts rows into every table of the first release's schema, as that release
// wrote them: a running instance, and a job that was interrupted.
func fillFirstRelease(t *testing.T, db *sql.DB) {
	t.Helper()
	sum := sha256.Sum256(firstData)
	blob := hex.EncodeToString(sum[:])
	key := bytes.Repeat([]byte{7}, 32)
	later := time.Now().Add(time.Hour).UnixMicro()
	for _, row := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO setting (key, value) VALUES ('own', $1)`, []any{[]byte("kept")}},
		{`INSERT INTO network (name, bridge, mac, prefix, gateway, dns, nat, dhcp)
			VALUES ('default', 'seedbed0', '52:54:00:00:00:01', '10.9.0.0/24', '10.9.0.1', '["10.9.0.1"]', 1, 1)`, nil},
		{`INSERT INTO image (name, pool, state, size, source, format, sha256, created)
			VALUES ('debian', 'default', 'active', 1073741824, '/d.qcow2', 'qcow2', 'ab', 1)`, nil},
		{`INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed)
			VALUES ('small', 'debian', 1, 268435456, 0, 'default', '["ssh-ed25519 AAAA a"]', $1, 'report', 3, 1, 2)`, []any{firstData}},
		{`INSERT INTO hook (name, key, actions, tolerance, created) VALUES ('demo', $1, '["create"]', 300000000, 1)`, []any{key}},
		{`INSERT INTO hook_profile (hook, idx, profile) VALUES ('demo', 0, 'small')`, nil},
		{`INSERT INTO job (id, kind, state, subject, instance, spec, node, done, total, progress, events, created, started, ended)
			VALUES ($1, 'import', 'succeeded', 'debian', '', '{"path":"/d.qcow2"}', 'n', 1, 1, 100, 0, 1, 1, 2)`, []any{firstImport}},
		{`INSERT INTO job (id, kind, state, subject, instance, node, done, total, progress, events, created, started, ended)
			VALUES ($1, 'create', 'succeeded', 'web1', $2, 'n', 4, 4, 100, 1, 2, 2, 3)`, []any{firstCreate, firstInstance}},
		{`INSERT INTO job (id, kind, state, subject, instance, node, owner, epoch, lease_until, stage, total, created, started)
			VALUES ($1, 'remove', 'running', 'web1', $2, 'n', 'gone', 4, 5, 'destroy', 3, 3, 3)`, []any{firstLive, firstInstance}},
		{`INSERT INTO job_stage (job, n, name, state, started) VALUES ($1, 0, 'destroy', 'running', 3)`, []any{firstLive}},
		{`INSERT INTO job_event (job, seq, at, level, stage, msg, progress) VALUES ($1, 1, 2, 'info', 'volumes', 'volume made', 25)`,
			[]any{firstCreate}},
		{`INSERT INTO claim (kind, key, job, holder) VALUES ('image', 'debian', $1, 'debian')`, []any{firstImport}},
		{`INSERT INTO claim (kind, key, job, holder) VALUES ('name', 'web1', $1, $2)`, []any{firstCreate, firstInstance}},
		{`INSERT INTO delivery (hook, id, sha256, received, job) VALUES ('demo', 'msg_1', $1, 2, $2)`, []any{sum[:], firstCreate}},
		{`INSERT INTO instance (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token, revision, created, changed, fetched)
			VALUES ($1, 'web1', 'small', 'debian', 'n', 'running', 1, 268435456, 'report', 0, $2, '["ssh-ed25519 AAAA a"]', 'tok', 5, 2, 3, 3)`,
			[]any{firstInstance, firstData}},
		{`INSERT INTO nic (instance, idx, mac, network, addr) VALUES ($1, 0, '52:54:00:00:00:02', 'default', '10.9.0.5')`, []any{firstInstance}},
		{`INSERT INTO volume (pool, name, instance, idx, size, image) VALUES ('default', 'web1-0', $1, 0, 1073741824, 'debian')`,
			[]any{firstInstance}},
		{`INSERT INTO lease (mac, addr, instance, until) VALUES ('52:54:00:00:00:02', '10.9.0.5', $1, $2)`, []any{firstInstance, later}},
		{`INSERT INTO feed_node (node, revision, floor, applied, applied_at) VALUES ('n', 7, 2, 7, 3)`, nil},
		{`INSERT INTO blob (sha256, data) VALUES ($1, $2)`, []any{blob, firstData}},
		{`INSERT INTO feed (node, instance, revision, record, blob) VALUES ('n', $1, 7, $2, $3)`, []any{firstInstance,
			`{"id":"` + string(firstInstance) + `","name":"web1","profile":"small","image":"debian","vcpus":1,"memory":"256MiB",` +
				`"nics":[{"id":1,"mac":"52:54:00:00:00:02","network":"default","addr":"10.9.0.5"}],` +
				`"user_data":{"sha256":"` + blob + `","size":14},"created":"2026-01-01T00:00:00Z","node":"n"}`, blob}},
		{`INSERT INTO guest_event (node, spool, seq, instance, kind, at, mac, addr, method, path, status, bytes, fields)
			VALUES ('n', 's', 9, $1, 'access', 3, '52:54:00:00:00:02', '10.9.0.5', 'GET', '/latest/user-data', 200, 14, 'null')`,
			[]any{firstInstance}},
		{`INSERT INTO cron_run (task, slot) VALUES ('cleanup', 60)`, nil},
	} {
		if _, err := db.Exec(row.query, row.args...); err != nil {
			t.Fatalf("%s: %v", row.query, err)
		}
	}
}

// checkFirstRelease checks that all of that exists, and that work continues.
func checkFirstRelease(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	inst := do(db.InstanceByName(ctx, seedbed.InDefault("web1")))(t)
	want := seedbed.Instance{
		Project: seedbed.DefaultProject, Account: inst.Account,
		Follow: seedbed.FollowPinned, System: seedbed.System{Serial: true},
		ID: firstInstance, Name: "web1", Profile: "small", Image: "debian", Node: "n",
		State: seedbed.InstanceRunning, VCPUs: 1, Memory: 256 * seedbed.MiB,
		Ready: seedbed.ReadyReport, UserData: firstData, SSHKeys: []string{"ssh-ed25519 AAAA a"},
		ReportToken: "tok", Revision: 5, Datasource: "ec2",
		NICs:    []seedbed.NIC{{ID: inst.NICs[0].ID, MAC: inst.NICs[0].MAC, Network: "default", Addr: netip.MustParseAddr("10.9.0.5")}},
		Volumes: []seedbed.Volume{{Pool: "default", Name: "web1-0", Size: seedbed.GiB, Image: "debian"}},
		Created: time.UnixMicro(2).UTC(), Changed: time.UnixMicro(3).UTC(), Fetched: time.UnixMicro(3).UTC(),
	}
	if !regexp.MustCompile(`^[1-9][0-9]{11}$`).MatchString(inst.Account) {
		t.Errorf("account %q: want twelve digits", inst.Account)
	}
	if d := cmp.Diff(want, inst, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); d != "" ||
		inst.NICs[0].MAC.String() != "52:54:00:00:00:02" {
		t.Errorf("instance (-want +got):\n%s", d)
	}
	p := do(db.Profile(ctx, "small"))(t)
	if p.Image != "debian" || p.Datasource != "ec2" || p.Revision != 3 || !bytes.Equal(p.UserData, firstData) {
		t.Errorf("profile %+v", p)
	}
	n := do(db.Network(ctx, "default"))(t)
	if n.Identity != seedbed.IdentityTap || n.Kind != seedbed.NetworkNAT || !n.NAT || !n.DHCP || len(n.DNS) != 1 {
		t.Errorf("network %+v", n)
	}
	if i := do(db.Image(ctx, "debian"))(t); i.State != seedbed.ImageActive || i.Size != seedbed.GiB {
		t.Errorf("image %+v", i)
	}
	if h := do(db.Hook(ctx, "demo"))(t); h.Scheme != seedbed.SchemeStandard || len(h.Keys) != 1 || !cmp.Equal(h.Profiles, []string{"small"}) {
		t.Errorf("hook %+v", h)
	}
	if d := do(db.Delivery(ctx, "demo", "msg_1"))(t); d.Job != firstCreate || d.Decision != seedbed.DecisionAccepted {
		t.Errorf("delivery %+v", d)
	}
	if own := do(db.SettingOnce(ctx, "own", func() []byte { return []byte("new") }))(t); string(own) != "kept" {
		t.Errorf("setting %q", own)
	}
	do(db.SecurityGroup(ctx, seedbed.OpenGroup))(t)
	page := do(db.FeedPage(ctx, "n", 0, ""))(t)
	if nic := feedtest.Changes(t, page)[0].Guest.NICs[0]; len(nic.Groups) > 0 { // those without any are in "open"
		t.Errorf("a NIC that is older than security groups is in %q", nic.Groups)
	}
	if !page.Snapshot || page.Revision != 7 || len(page.Changes) != 1 ||
		feedtest.Changes(t, page)[0].Guest == nil || feedtest.Changes(t, page)[0].Guest.UserData == nil ||
		!bytes.Equal(do(db.Blob(ctx, feedtest.Changes(t, page)[0].Guest.UserData.SHA256))(t), firstData) {
		t.Errorf("feed %+v", page)
	}
	if all := do(db.Leases(ctx, seedbed.AllProjects()))(t); len(all) != 1 || all[0].Instance != firstInstance {
		t.Errorf("leases %+v", all)
	}
	if all := do(db.GuestEvents(ctx, firstInstance, 10))(t); len(all) != 1 || all[0].Seq != 9 {
		t.Errorf("guest events %+v", all)
	}
	if all := do(db.Events(ctx, firstCreate, 0, 10))(t); len(all) != 1 || all[0].Msg != "volume made" {
		t.Errorf("events %+v", all)
	}
	_, err := db.CreateProfile(ctx, seedbed.Profile{Name: "small", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default"})
	if !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("profile of the same name: %v", err)
	}
	// The instance's former claims are now its own rows, with the hook that created it.
	_, err = db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{ID: seedbed.NewInstanceID(), Name: "web1", Node: "n", VCPUs: 1, Memory: seedbed.GiB}})
	if e, ok := errors.AsType[*seedbed.Error](err); !ok || e.Kind != seedbed.ErrExists || e.Holder != firstCreate {
		t.Errorf("instance of the same name: %v", err)
	}
	var hook string
	var claims int
	if err := db.sql.Read.QueryRow(`SELECT hook, (SELECT COUNT(*) FROM claim) FROM instance`).Scan(&hook, &claims); err != nil ||
		hook != "demo" || claims != 1 {
		t.Errorf("the instance is of hook %q, and %d things are claimed (%v): want demo, and the image alone", hook, claims, err)
	}
	// The interrupted job continues where it was, and removes the instance.
	j := do(db.ClaimJob(ctx, "new", time.Hour))(t)
	if j == nil || j.ID != firstLive || j.Epoch != 5 || j.Stage != "destroy" {
		t.Fatalf("claimed %+v", j)
	}
	if err := finishRemove(ctx, db, *j); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Instance(ctx, firstInstance); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the removed instance: %v", err)
	}
}

// finishRemove ends a remove job like the engine does.
func finishRemove(ctx context.Context, db *DB, j seedbed.Job) error {
	ref := seedbed.JobRef{ID: j.ID, Epoch: j.Epoch}
	if _, err := db.Retract(ctx, ref, "n", j.Instance); err != nil {
		return err
	}
	return db.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
}

// migrateTo applies the migrations of a database up to a schema.
func migrateTo(t *testing.T, d sqldb.Dialect, db *sql.DB, schema int64) {
	t.Helper()
	files := do(fs.Sub(sqldb.Migrations, d.Migrations))(t)
	p := do(goose.NewProvider(d.Goose, db, files, goose.WithDisableGlobalRegistry(true)))(t)
	do(p.UpTo(t.Context(), schema))(t)
}

// upgraded returns an SQLite database that fill has made of an empty one, as this release opens it.
func upgraded(t *testing.T, fill func(*testing.T, sqldb.Dialect, *sql.DB)) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	fill(t, sqldb.SQLite, old)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// checkReferences expects that no row of an SQLite database refers to one that does not exist.
func checkReferences(t *testing.T, db *DB) {
	t.Helper()
	rows := do(db.sql.Read.Query(`PRAGMA foreign_key_check`))(t)
	defer rows.Close()
	for rows.Next() {
		t.Error("a row refers to one that does not exist")
	}
}

// firstRelease applies only the first release's migration.
func firstRelease(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	migrateTo(t, d, db, 1)
	fillFirstRelease(t, db)
}

// A database of the first release, with everything that it can hold, is migrated when it is opened,
// and work continues.
func TestUpgradeOfTheFirstRelease(t *testing.T) {
	t.Parallel()
	checkFirstRelease(t, upgraded(t, firstRelease))
}

// fillCordoned inserts a node that is cordoned and one that is not, by a release that did not tell guests of it.
func fillCordoned(t *testing.T, d sqldb.Dialect, old *sql.DB) {
	t.Helper()
	migrateTo(t, d, old, 57)
	for _, query := range []string{
		`INSERT INTO node (name, worker, cordoned, created, report, problem)
			VALUES ('hv1', '', 1700000000000000, 1, '', ''), ('hv2', '', NULL, 1, '', '')`,
		`INSERT INTO feed_node (node, revision, floor) VALUES ('hv1', 7, 0), ('hv2', 7, 0)`,
	} {
		if _, err := old.Exec(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// checkCordoned checks what the guests of both nodes are told after the upgrade.
func checkCordoned(t *testing.T, db *DB) {
	t.Helper()
	told := func(node string, revision int64) []seedbed.Maintenance {
		t.Helper()
		if page := do(db.FeedPage(t.Context(), node, 0, ""))(t); page.Revision != revision {
			t.Errorf("the revision of %s is %d, want %d", node, page.Revision, revision)
		}
		return do(db.Maintenance(t.Context(), node, ""))(t)
	}
	if of := told("hv2", 7); len(of) > 0 {
		t.Errorf("the guests of a node in use are told %+v", of)
	}
	of := told("hv1", 8)
	if len(of) != 1 || of[0].State != seedbed.MaintenanceActive || of[0].Code != "system-maintenance" ||
		!regexp.MustCompile(`^instance-event-[0-9a-f]{17}$`).MatchString(of[0].ID) || of[0].NotBefore.UnixMicro() != 1700000000000000 {
		t.Errorf("the guests of a cordoned node are told %+v", of)
	}
	do(db.ChangeNode(t.Context(), "hv1", func(n *seedbed.Node) error { n.Cordoned = false; return nil }))(t)
	if of := told("hv1", 9); len(of) != 1 || of[0].State != seedbed.MaintenanceCompleted {
		t.Errorf("the guests of a node that is used again are told %+v", of)
	}
}

func TestUpgradeOfCordonedNode(t *testing.T) {
	t.Parallel()
	checkCordoned(t, upgraded(t, fillCordoned))
}
