package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pressly/goose/v3"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

// The instances and jobs that fillTwoKinds inserts.
const (
	plainMade    = seedbed.InstanceID("11111111-1111-4111-8111-000000000001")
	scriptedMade = seedbed.InstanceID("11111111-1111-4111-8111-000000000002")
	scriptedNew  = seedbed.InstanceID("11111111-1111-4111-8111-000000000003")
	twinMade     = seedbed.InstanceID("11111111-1111-4111-8111-000000000004")
	strayMade    = seedbed.InstanceID("11111111-1111-4111-8111-000000000005")

	scriptedCreate = seedbed.JobID("22222222-2222-4222-8222-000000000001")
	plainRebuild   = seedbed.JobID("22222222-2222-4222-8222-000000000002")
	twinRebuild    = seedbed.JobID("22222222-2222-4222-8222-000000000003")
)

// fillTwoKinds migrates an empty database to the schema that had two kinds of profile. It inserts
// profiles of both kinds, and hooks, instances and live jobs that refer to each. In the database of
// an older release, two profiles may have one name.
func fillTwoKinds(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	const instance = `INSERT INTO instance (id, name, profile, image, node, state, vcpus, ` +
		`memory, ready, held, ssh_keys, report_token, revision, created, changed, kind, follow, source, user_data) VALUES `
	const job = `INSERT INTO job (id, kind, state, subject, instance, spec, node, created) VALUES `
	const provisioner = `INSERT INTO provisioner_profile (name, type, system, network, ` +
		`storage, userdata, script, arguments, revision, created, changed) VALUES `
	migrateTo(t, d, db, 10)
	for _, query := range []string{
		`INSERT INTO network (name, bridge, mac, prefix, gateway, dns, nat, dhcp)
			VALUES ('default', 'seedbed0', '52:54:00:00:00:01', '10.9.0.0/24', '10.9.0.1', '[]', 1, 1)`,
		`INSERT INTO image (name, pool, state, size, source, format, sha256, created)
			VALUES ('debian', 'default', 'active', 1024, '/d', 'raw', 'ab', 1)`,
		`INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, ready, revision, created, changed, on_failure)
			VALUES ('twin', 'debian', 1, 268435456, 0, 'default', '[]', 'report', 3, 1, 2, 'keep'), ('plain', 'debian', 1, 268435456, 0, 'default', '["k"]', 'report', 5, 2, 2, '')`,
		`INSERT INTO hook (name, key, actions, tolerance, created) VALUES ('demo', '07', '["create"]', 300000000, 1)`,
		`INSERT INTO hook_profile (hook, idx, profile) VALUES ('demo', 0, 'twin')`,
		`INSERT INTO system_template (name, vcpus, memory, serial, vnc, vnc_bind, node_limit, node_selector, node_autostart, migration_method, migration_downtime, revision, created, changed)
			VALUES ('small', 1, 536870912, 1, 0, '', '[]', '', 0, '', 0, 1, 1, 1)`,
		`INSERT INTO network_template (name, mac, revision, created, changed) VALUES ('lan', '', 1, 1, 1)`,
		`INSERT INTO storage_template (name, revision, created, changed) VALUES ('root', 1, 1, 1)`,
		`INSERT INTO userdata (name, content, revision, created, changed) VALUES ('cloud', '#cloud-config', 4, 1, 1)`,
		`INSERT INTO script (name, content, revision, created, changed) VALUES ('x', '', 1, 1, 1)`,
		provisioner + `('gone', 'provisioner', 'small', NULL, NULL, NULL, 'x', '[]', 1, 1, 1)`,
		provisioner + `('twin', 'provisioner', 'small', NULL, NULL, NULL, 'x', '[]', 1, 1, 1)`,
		provisioner + `('scripted', 'provisioner', 'small', 'lan', 'root', 'cloud', 'x', '["a=b|c","d="]', 7, 3, 4)`,
		provisioner + `('last', 'provisioner', 'small', NULL, NULL, NULL, 'x', '[]', 1, 1, 1)`,
		`DELETE FROM provisioner_profile WHERE name IN ('gone', 'last')`,
	} {
		if d.Goose == goose.DialectSQLite3 {
			query = strings.ReplaceAll(query, "'07'", "x'07'")
		} else {
			query = strings.ReplaceAll(query, "'07'", `'\x07'`)
		}
		do(db.Exec(query))(t)
	}
	migrateTo(t, d, db, 20)
	for _, query := range []string{
		`UPDATE provisioner_profile SET params = '[{"name":"n","type":"int","default":"1"}]', follow = 'pinned', protected = 1, hold = 1
			WHERE name = 'scripted'`,
		`INSERT INTO ova (name, state, job, revision, created, changed) VALUES ('vm', 'active', 'j', 1, 1, 1)`,
		provisioner + `('vm', 'ova', 'small', NULL, NULL, NULL, 'x', '[]', 1, 1, 1)`,
		`UPDATE provisioner_profile SET ova = 'vm' WHERE name = 'vm'`,
		`INSERT INTO hook_profile (hook, idx, profile) VALUES ('demo', 1, 'scripted')`,
		instance + `('` + string(plainMade) +
			`', 'plain1', 'plain', 'debian', 'n', 'running', 1, 268435456, 'report', 0, '[]', '', 1, 1, 1, 'native', 'live', '4.0', NULL)`,
		instance + `('` + string(scriptedMade) +
			`', 'scripted1', 'scripted', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 1, 1, 'provisioner', 'live', '7.3', NULL)`,
		instance + `('` + string(scriptedNew) + `', 'scripted2', 'scripted', '', 'n', ` +
			`'provisioning', 1, 268435456, 'started', 0, '[]', '', 1, 1, 1, 'provisioner', 'pinned', '7.4', NULL)`,
		instance + `('` + string(twinMade) +
			`', 'twin1', 'twin', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 1, 1, 'provisioner', 'pinned', '1.0', NULL)`,
		instance + `('` + string(strayMade) +
			`', 'stray1', 'scripted', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 1, 1, 'native', 'live', '1.0', NULL)`,
		job + `('` + string(scriptedCreate) + `', 'create', 'queued', 'scripted2', '` + string(scriptedNew) +
			`', '{"profile":"scripted","revision":7,"start":true,"scripted":true}', 'n', 1)`,
		job + `('` + string(plainRebuild) + `', 'rebuild', 'queued', 'plain1', '` + string(plainMade) +
			`', '{"profile":"plain","image":"debian"}', 'n', 2)`,
		job + `('` + string(twinRebuild) + `', 'rebuild', 'queued', 'twin1', '` + string(twinMade) +
			`', '{"profile":"twin","scripted":true}', 'n', 3)`,
		`INSERT INTO job_script (job, run) VALUES ('` + string(scriptedCreate) + `', '{"script":{"Name":"x"},"bridges":["seedbed0"]}')`,
		`INSERT INTO rebuild (job, side, instance, report_token, params) VALUES ('` + string(plainRebuild) + `', 'next',
			'{"id":"` + string(plainMade) + `","name":"plain1","profile":"plain","profile_kind":"native"}', '', 'null')`,
		`INSERT INTO rebuild (job, side, instance, report_token, params) VALUES ('` + string(twinRebuild) + `', 'next',
			'{"id":"` + string(twinMade) + `","name":"twin1","profile":"twin","profile_kind":"provisioner"}', '', 'null')`,
	} {
		do(db.Exec(query))(t)
	}
}

// readProfiles returns all profiles by name.
func readProfiles(t *testing.T, db *DB) map[string]seedbed.Profile {
	t.Helper()
	all := map[string]seedbed.Profile{}
	err := db.sql.View(t.Context(), "list profiles", func(tx *sqldb.Tx) error {
		found, err := sqldb.List(t.Context(), tx, catalogue.ScanProfile, `SELECT `+catalogue.ProfileColumns+` FROM profile`)
		for _, p := range found {
			all[p.Name] = p
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkOneKind checks that everything of fillTwoKinds exists, and that work continues.
func checkOneKind(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	one := seedbed.ParamText("1")
	script := seedbed.Profile{SSHKeys: []string{}, UserData: []byte{}, Ready: seedbed.ReadyStarted,
		Datasource: "ec2", Tags: map[string]string{},
		Metadata: seedbed.MetadataOptions{InstanceID: "uuid"}, System: "small", Script: "x", Follow: seedbed.FollowLive, Revision: 1}
	twin, scripted, ova := script, script, script
	twin.ID, twin.Name = 2, "twin-pvc2"
	scripted.ID, scripted.Name, scripted.NetworkTemplate, scripted.Storage, scripted.Document, scripted.Arguments = 3,
		"scripted", "lan", "root", "cloud", []string{"a=b|c", "d="}
	scripted.Params, scripted.Follow, scripted.Protected, scripted.Hold, scripted.Revision = []seedbed.Param{
		{Name: "n", Type: "int", Default: &one},
	}, seedbed.FollowPinned, true, true, 7
	ova.ID, ova.Name, ova.OVA = 5, "vm", "vm"
	plain := seedbed.Profile{Name: "plain", Image: "debian", VCPUs: 1, Memory: 256 * seedbed.MiB,
		Network: "default", SSHKeys: []string{"k"}, Ready: seedbed.ReadyReport,
		Datasource: "ec2", Tags: map[string]string{}, Follow: seedbed.FollowPinned, Revision: 5}
	other := plain
	other.Name, other.SSHKeys, other.Revision = "twin", []string{}, 3
	other.OnFailure = seedbed.OnFailure{Policy: seedbed.FailKeep}
	want := map[string]seedbed.Profile{"twin-pvc2": twin, "scripted": scripted, "vm": ova, "plain": plain, "twin": other}
	all := readProfiles(t, db)
	ids := map[int64]string{}
	for name, p := range all {
		if ids[p.ID] != "" || p.ID < 2 || p.Script == "" && p.ID < 6 {
			t.Errorf("profile %s has number %d, which %q has or had", name, p.ID, ids[p.ID])
		}
		ids[p.ID] = name
		if p.Script == "" {
			p.ID = 0
			all[name] = p
		}
	}
	if d := cmp.Diff(want, all, cmpopts.IgnoreFields(seedbed.Profile{}, "Created", "Changed")); d != "" {
		t.Errorf("profiles (-want +got):\n%s", d)
	}
	if p := all["scripted"]; !p.Created.Equal(time.UnixMicro(3)) || !p.Changed.Equal(time.UnixMicro(4)) {
		t.Errorf("scripted was made at %v and changed at %v", p.Created, p.Changed)
	}
	if h := do(db.Hook(ctx, "demo"))(t); !cmp.Equal(h.Profiles, []string{"twin", "scripted"}) {
		t.Errorf("the hook names %q", h.Profiles)
	}
	for id, want := range map[seedbed.InstanceID][2]string{
		plainMade: {"plain", "live"}, scriptedMade: {"scripted", "live"}, scriptedNew: {"scripted", "pinned"},
		twinMade: {"twin-pvc2", "pinned"}, strayMade: {"scripted", "pinned"},
	} {
		if i := do(db.Instance(ctx, id))(t); i.Profile != want[0] || string(i.Follow) != want[1] {
			t.Errorf("instance %s is of profile %s, and its user-data is %s: want %v", i.Name, i.Profile, i.Follow, want)
		}
	}
	due := map[seedbed.InstanceID]string{}
	for _, d := range do(db.LiveDocuments(ctx, 10))(t) {
		due[d.Instance] = d.Want
	}
	if d := cmp.Diff(map[seedbed.InstanceID]string{plainMade: "5.0", scriptedMade: "7.4"}, due); d != "" {
		t.Errorf("user-data that is due (-want +got):\n%s", d)
	}
	if run := do(db.ScriptRun(ctx, scriptedCreate))(t); run.Script.Name != "x" || len(run.Bridges) != 1 {
		t.Errorf("the script of the job is %+v", run)
	}
	for job, profile := range map[seedbed.JobID]string{plainRebuild: "plain", twinRebuild: "twin-pvc2"} {
		if r := do(db.Rebuilding(ctx, job))(t); r.Next.Profile != profile {
			t.Errorf("job %s rebuilds to profile %q: want %q", job, r.Next.Profile, profile)
		}
	}
	if j := do(db.ClaimJob(ctx, "new", time.Hour))(t); j == nil || j.ID != scriptedCreate || !strings.Contains(string(j.Spec), `"scripted"`) {
		t.Errorf("claimed %+v", j)
	}
	checkNames(ctx, t, db)
}

// checkNames checks that names and the references to them are protected as before.
func checkNames(ctx context.Context, t *testing.T, db *DB) {
	t.Helper()
	if err := db.DeleteScript(ctx, "x"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), `"scripted"`) {
		t.Errorf("the script of profiles: %v", err)
	}
	p := seedbed.Profile{Name: "scripted", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default"}
	if _, err := db.CreateProfile(ctx, p); !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("a profile of a name that is taken: %v", err)
	}
	if err := db.DeleteProfile(ctx, "twin"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), `"demo"`) {
		t.Errorf("a profile that a hook names: %v", err)
	}
	p.Name = "gone"
	if p := do(db.CreateProfile(ctx, p))(t); p.ID < 8 {
		t.Errorf("the new profile has number %d, which another had", p.ID)
	}
}

// The profiles of both kinds become one kind, with everything that refers to them.
func TestUpgradeToOneKindOfProfile(t *testing.T) {
	t.Parallel()
	checkOneKind(t, upgraded(t, fillTwoKinds))
}
