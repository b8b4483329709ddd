package store

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"seedbed"
	"seedbed/store/sqldb"
)

// columnsOf returns the columns of each table of a database.
func columnsOf(t *testing.T, d sqldb.Dialect, db *sql.DB) map[string][]string {
	t.Helper()
	query := `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY c.cid`
	if d.Goose != goose.DialectSQLite3 {
		query = `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY ordinal_position`
	}
	rows := do(db.Query(query))(t)
	defer rows.Close()
	all := map[string][]string{}
	for rows.Next() {
		var name, column string
		if err := rows.Scan(&name, &column); err != nil {
			t.Fatal(err)
		}
		if name != "version" && name != "goose_db_version" {
			all[name] = append(all[name], column)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// rowsOf returns the rows of each table as text, with these columns only.
func rowsOf(t *testing.T, db *sql.DB, columns map[string][]string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, of := range columns {
		rows := do(db.Query(`SELECT ` + strings.Join(of, ", ") + ` FROM ` + name))(t)
		for rows.Next() {
			row, to := make([]any, len(of)), make([]any, len(of))
			for i := range row {
				to[i] = &row[i]
			}
			if err := rows.Scan(to...); err != nil {
				t.Fatal(err)
			}
			all[name] = append(all[name], fmt.Sprintf("%v", row))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		slices.Sort(all[name])
	}
	return all
}

// The content of a database of release 0.3.0.
const (
	runningBefore = seedbed.InstanceID("ec2aaaaa-0000-4000-8000-000000000011")
	makingBefore  = seedbed.InstanceID("ec2aaaaa-0000-4000-8000-000000000012")
	createBefore  = seedbed.JobID("00000000-0000-7000-8000-000000000011")
	failedBefore  = seedbed.JobID("00000000-0000-7000-8000-000000000012")
	makeBefore    = seedbed.JobID("00000000-0000-7000-8000-000000000013")
)

// fillWithoutProjects migrates an empty database to the schema of release 0.3.0, which had no
// projects. It inserts what now belongs to one, with no column at its default, and what refers to that.
// It returns a function that expects the same content.
func fillWithoutProjects(t *testing.T, d sqldb.Dialect, db *sql.DB) (unchanged func(*testing.T, *sql.DB)) {
	t.Helper()
	migrateTo(t, d, db, 24)
	later := time.Now().Add(time.Hour).UnixMicro()
	for _, row := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO network (name, bridge, mac, prefix, gateway, dns, nat, dhcp)
			VALUES ('default', 'seedbed0', '52:54:00:00:00:01', '10.9.0.0/24', '10.9.0.1', '["10.9.0.1"]', 1, 1)`, nil},
		{`INSERT INTO image (name, pool, state, size, source, format, sha256, created)
			VALUES ('debian', 'default', 'active', 1073741824, '/d.qcow2', 'qcow2', 'ab', 1)`, nil},
		{`INSERT INTO instance (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token,
				revision, created, changed, fetched, reported, gone_since, vendor_data, datasource, metadata, tags, spot, password,
				protected, follow, source, params, system, token, hook)
			VALUES ($1, 'web1', 'small', 'debian', 'n', 'running', 3, 268435456, 'report', 1, $2, '["ssh-ed25519 AAAA a"]', 'tok',
				5, 2, 3, 4, 5, 6, $3, 'nocloud', '{"hop_limit":7}', '{"team":"a"}',
				'{"action":"stop","time":"2026-10-01T08:30:00Z"}', 'cGFzcw==',
				1, 'live', '1.2', '{"n":1}', '{"serial":true,"vnc":true,"autostart":true}', 'ci', 'demo')`,
			[]any{runningBefore, []byte("#cloud-config\n"), []byte("vendor")}},
		{`INSERT INTO instance (id, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys, report_token,
				revision, created, changed)
			VALUES ($1, 'web2', 'small', 'debian', 'n', 'provisioning', 1, 268435456, 'started', 0, '[]', '', 1, 7, 7)`, []any{makingBefore}},
		{`INSERT INTO nic (instance, idx, mac, network, addr) VALUES ($1, 0, '52:54:00:00:00:02', 'default', '10.9.0.5'),
			($1, 1, '52:54:00:00:00:03', 'default', ''), ($2, 0, '52:54:00:00:00:04', 'default', '10.9.0.6')`,
			[]any{runningBefore, makingBefore}},
		{`INSERT INTO volume (pool, name, instance, idx, size, image)
			VALUES ('default', 'web1_sda', $1, 0, 1073741824, 'debian'), ('default', 'web1_sdb', $1, 1, 2147483648, NULL),
			('default', 'web2_sda', $2, 0, 1073741824, 'debian')`, []any{runningBefore, makingBefore}},
		{`INSERT INTO lease (mac, addr, instance, until)
			VALUES ('52:54:00:00:00:02', '10.9.0.5', $1, $3), ('52:54:00:00:00:04', '10.9.0.6', $2, $3)`,
			[]any{runningBefore, makingBefore, later}},
		{`INSERT INTO instance_script (instance, xml) VALUES ($1, '<domain/>'), ($2, '<domain type="kvm"/>')`,
			[]any{runningBefore, makingBefore}},
		{`INSERT INTO job (id, kind, state, subject, instance, spec, node, epoch, stage, done, total, progress, attempts, events, created,
				started, ended, pool, priority, on_failure, final)
			VALUES ($1, 'create', 'succeeded', 'web1', $2, '{}', 'n', 2, 'ready', 4, 4, 100, 1, 1, 2, 2, 3, 'default', 7, 'keep', 1)`,
			[]any{createBefore, runningBefore}},
		{`INSERT INTO job (id, kind, state, subject, instance, node, error, created, started, ended)
			VALUES ($1, 'stop', 'failed', 'web1', $2, 'n', 'no answer', 4, 4, 5)`, []any{failedBefore, runningBefore}},
		{`INSERT INTO job (id, kind, state, subject, instance, node, pool, created)
			VALUES ($1, 'create', 'queued', 'web2', $2, 'n', 'default', 7)`,
			[]any{makeBefore, makingBefore}},
		{`INSERT INTO job_event (job, seq, at, level, stage, msg, progress) VALUES ($1, 1, 2, 'info', 'volumes', 'volume made', 25)`,
			[]any{createBefore}},
		{`INSERT INTO job_stage (job, n, name, state, started, ended) VALUES ($1, 0, 'volumes', 'done', 2, 3)`, []any{createBefore}},
		{`INSERT INTO token (name, role, sha256, created, expires, used, max_instances, max_vcpus, max_memory, max_disk)
			VALUES ('ci', 'operator', $1, 1, $2, 2, 3, 4, 5, 6)`, []any{[]byte("digest"), later}},
		{`INSERT INTO hook (name, key, actions, tolerance, created, settings, changed)
			VALUES ('demo', $1, '["create"]', 300000000, 1, '{"scheme":"github"}', 2)`, []any{[]byte{7}}},
		{`INSERT INTO hook_key (hook, id, idx, secret) VALUES ('demo', 'k1', 0, $1)`, []any{[]byte("secret")}},
		{`INSERT INTO hook_profile (hook, idx, profile) VALUES ('demo', 0, 'small')`, nil},
		{`INSERT INTO delivery (hook, id, sha256, received, job) VALUES ('demo', 'd1', $1, 2, $2)`, []any{[]byte("digest"), createBefore}},
		{`INSERT INTO endpoint (name, url, events, cloudevents, allow_private, insecure, enabled, seq, created)
			VALUES ('ops', 'http://127.0.0.1:9/', '["job.*"]', 1, 1, 1, 1, 1, 1)`, nil},
		{`INSERT INTO endpoint_key (endpoint, id, key, created) VALUES ('ops', 'k1', $1, 1)`, []any{[]byte("secret")}},
		{`INSERT INTO outbox (endpoint, seq, id, type, subject, data, at, state)
			VALUES ('ops', 1, 'o1', 'job.accepted', 'web1', '{}', 2, 'sent')`, nil},
		{`INSERT INTO audit (at, actor, role, peer, request, what, before, asked)
			VALUES (2, 'token ci', 'operator', '10.0.0.1', 'POST /instances', 'create web1', '', '{"name":"web1"}')`, nil},
		{`INSERT INTO stray (node, kind, pool, name, owner, since, tries, tried)
			VALUES ('n', 'volume', 'default', 'lost-0', 'ec200000-0000-4000-8000-000000000009', 1, 2, 2)`, nil},
	} {
		if _, err := db.Exec(row.query, row.args...); err != nil {
			t.Fatalf("%s: %v", row.query, err)
		}
	}
	columns := columnsOf(t, d, db)
	before := rowsOf(t, db, columns)
	for name := range columns {
		if before[name] == nil {
			delete(columns, name) // Open fills some of these
		}
	}
	return func(t *testing.T, db *sql.DB) {
		t.Helper()
		if diff := cmp.Diff(before, rowsOf(t, db, columns)); diff != "" {
			t.Errorf("the content (-before +after):\n%s", diff)
		}
	}
}

// checkWithProjects expects that all of it belongs to the default project.
func checkWithProjects(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	all := do(db.Projects(ctx))(t)
	if len(all) != 1 || all[0].Name != seedbed.DefaultProject || !regexp.MustCompile(`^[1-9][0-9]{11}$`).MatchString(all[0].Number) ||
		time.Since(all[0].Created).Abs() > time.Hour || all[0].Revision != 1 {
		t.Errorf("projects %+v: want the default one, with a number of twelve digits", all)
	}
	in := seedbed.InProject(seedbed.DefaultProject)
	instances := do(db.ListInstances(ctx, seedbed.InstanceQuery{Scope: in}))(t)
	if len(instances) != 2 {
		t.Errorf("instances %+v", instances)
	}
	for _, i := range instances {
		if i.Project != seedbed.DefaultProject || i.Account != all[0].Number || len(i.NICs) == 0 || len(i.Volumes) == 0 {
			t.Errorf("instance %+v", i)
		}
	}
	if jobs := do(db.ListJobs(ctx, seedbed.JobQuery{Scope: in}))(t); len(jobs) != 3 || jobs[0].Project != seedbed.DefaultProject {
		t.Errorf("jobs %+v", jobs)
	}
	for what, projects := range map[string][]string{
		"tokens":    projectsOf(do(db.Tokens(ctx))(t), func(x seedbed.Token) string { return x.Project }),
		"hooks":     projectsOf(do(db.Hooks(ctx))(t), func(x seedbed.Hook) string { return x.Project }),
		"endpoints": projectsOf(do(db.Endpoints(ctx))(t), func(x seedbed.Endpoint) string { return x.Project }),
		"audit entries": projectsOf(do(db.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects()}))(t),
			func(x seedbed.AuditEntry) string { return x.Project }),
	} {
		if !slices.Equal(projects, []string{seedbed.DefaultProject}) {
			t.Errorf("the %s are of the projects %q: want one, of %s", what, projects, seedbed.DefaultProject)
		}
	}

	// The name is taken in the default project only, and what an instance has goes with it.
	made := do(db.CreateProject(ctx, seedbed.Project{Name: "acme"}))(t)
	if made.Number == all[0].Number {
		t.Errorf("project %+v has the number of the default one", made)
	}
	again := seedbed.Instance{ID: seedbed.NewInstanceID(), Project: "acme", Name: "web1", Node: "n", VCPUs: 1, Memory: seedbed.GiB}
	do(db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate}, Instance: &again}))(t)
	if i := do(db.InstanceByName(ctx, seedbed.Named("acme", "web1")))(t); i.ID != again.ID || i.Account != made.Number {
		t.Errorf("instance %+v", i)
	}
	do(db.sql.Write.Exec(`DELETE FROM job_stage`))(t)
	do(db.sql.Write.Exec(`DELETE FROM instance WHERE id = $1`, runningBefore))(t)
	for name, left := range map[string]int{"nic": 1, "volume": 1, "lease": 1, "instance_script": 1} {
		var n int
		if err := db.sql.Write.QueryRow(`SELECT COUNT(*) FROM ` + name).Scan(&n); err != nil || n != left {
			t.Errorf("%d rows of %s are left, %v: want %d", n, name, err, left)
		}
	}
}

func projectsOf[T any](all []T, project func(T) string) (names []string) {
	for _, x := range all {
		names = append(names, project(x))
	}
	return names
}

// A database without projects is migrated when it is opened, and everything in it belongs to the
// default project.
func TestUpgradeToProjects(t *testing.T) {
	t.Parallel()
	var unchanged func(*testing.T, *sql.DB)
	db := upgraded(t, func(t *testing.T, d sqldb.Dialect, old *sql.DB) { unchanged = fillWithoutProjects(t, d, old) })
	unchanged(t, db.sql.Write)
	checkWithProjects(t, db)
	checkReferences(t, db)
}

// TestUpgradeToQualifiedNames opens a database in which tokens, hooks and endpoints of a project have names
// without the project.
func TestUpgradeToQualifiedNames(t *testing.T) {
	t.Parallel()
	db := upgraded(t, fillWithNames)
	checkQualifiedNames(t, db)
	checkReferences(t, db)
}

// fillWithNames migrates an empty database to schema 25, and inserts a token, a hook and an endpoint each
// of two projects, and what refers to them.
func fillWithNames(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	migrateTo(t, d, db, 25)
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run(`INSERT INTO project (name, number, description, quota, revision, created, changed)
		VALUES ('acme', '123456789012', '', '{}', 1, 1, 1)`)
	run(`INSERT INTO job (id, kind, state, subject, instance, node, created) VALUES ($1, 'stop', 'succeeded', 'x', $2, 'n', 4)`,
		createBefore, runningBefore)
	for name, project := range map[string]string{"ci": "default", "shop": "acme"} {
		run(`INSERT INTO token (name, project, role, sha256, created) VALUES ($1, $2, 'operator', $3, 1)`, name, project, []byte(name))
		run(`INSERT INTO hook (name, project, key, actions, tolerance, created, settings, declared, changed)
			VALUES ($1, $2, $3, '["create"]', 300000000, 1, '{"scheme":"github"}', 0, 2)`, name, project, []byte{7})
		run(`INSERT INTO hook_key (hook, id, idx, secret) VALUES ($1, 'k1', 0, $2)`, name, []byte("secret"))
		run(`INSERT INTO hook_profile (hook, idx, profile) VALUES ($1, 0, 'small')`, name)
		run(`INSERT INTO delivery (hook, id, sha256, received, job) VALUES ($1, 'd1', $2, 2, $3)`, name, make([]byte, 32), createBefore)
		run(`INSERT INTO delivery_other (hook, id, sha256, received, decision, detail, peer, headers)
			VALUES ($1, 'd2', $2, 2, 'ignored', '', '', '{}')`,
			name, make([]byte, 32))
		run(`INSERT INTO delivery_rejected (hook, peer, reason, times, first_at, last_at) VALUES ($1, 'p', 'no', 1, 1, 1)`, name)
		run(`INSERT INTO endpoint (name, project, url, events, cloudevents, allow_private, insecure, enabled, seq, created)
			VALUES ($1, $2, 'https://x.example/', '["job.*"]', 0, 0, 0, 1, 5, 1)`, name, project)
		run(`INSERT INTO endpoint_key (endpoint, id, key, created) VALUES ($1, 'k1', $2, 1)`, name, []byte("secret"))
		run(`INSERT INTO outbox (endpoint, seq, id, type, subject, data, at, state)
			VALUES ($1, 5, $2, 'job.accepted', 'web1', '{}', 2, 'sent')`, name, "o"+name)
	}
	for _, actor := range []string{"token acme/boss", "uid 0"} {
		run(`INSERT INTO audit (at, actor, role, project, peer, request, what, before, asked)
			VALUES (2, $1, 'admin', 'acme', '', 'POST /instances', 'create web1', '', '')`, actor)
	}
	run(`INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys, report_token,
			revision, created, changed, token, hook)
		VALUES ($1, 'acme', 'web1', 'small', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 7, 7, 'shop', 'shop')`,
		runningBefore)
	run(`INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys, report_token,
			revision, created, changed, token, hook)
		VALUES ($1, 'acme', 'web2', 'small', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 7, 7, 'ci', 'ci')`,
		makingBefore)
}

// checkQualifiedNames expects that what belongs to acme has names with the project, and the rest as before.
func checkQualifiedNames(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	names := func(query string) (all []string) {
		rows := do(db.sql.Write.Query(query))(t)
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			all = append(all, name)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return all
	}
	for _, column := range []string{
		"name FROM token", "name FROM hook", "hook FROM hook_key", "hook FROM hook_profile", "hook FROM delivery",
		"hook FROM delivery_other", "hook FROM delivery_rejected", "hook FROM instance", "token FROM instance", "name FROM endpoint",
		"endpoint FROM endpoint_key", "endpoint FROM outbox",
	} {
		if got := names("SELECT " + column); !slices.Equal(got, []string{"acme/shop", "ci"}) {
			t.Errorf("%s: %q, want acme/shop and ci", column, got)
		}
	}
	audit := do(db.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.InProject("acme"), Tenant: true}))(t)
	if len(audit) != 2 || audit[0].Actor != seedbed.InstallationActor || audit[1].Actor != "token acme/boss" {
		t.Errorf("the audit log for a tenant: %+v", audit)
	}
	h := do(db.Hook(ctx, "acme/shop"))(t)
	if h.Project != "acme" || h.Scheme != seedbed.SchemeGitHub || len(h.Keys) != 1 || !slices.Equal(h.Profiles, []string{"default/small"}) {
		t.Errorf("hook %+v", h)
	}
	e := do(db.Endpoint(ctx, "acme/shop"))(t)
	sent := do(db.OutgoingDeliveries(ctx, "acme/shop", seedbed.OutgoingQuery{}))(t)
	if e.Project != "acme" || len(e.Keys) != 1 || !e.Enabled || len(sent) != 1 || sent[0].Seq != 5 {
		t.Errorf("endpoint %+v, deliveries %+v", e, sent)
	}
}
