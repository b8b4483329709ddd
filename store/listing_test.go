package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// crowd inserts n instances with their jobs as fast as the database allows. One in a hundred is
// stopped, has profile "rare", and has a failed job too.
func crowd(t testing.TB, db *DB, n int) {
	t.Helper()
	fill := []string{
		`WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n + 1 < ` + fmt.Sprint(n) + `)
		INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys, report_token, datasource, metadata, tags, spot, revision, created, changed)
		SELECT 'ec2' || n, 'default', 'web' || (1000000 + n), CASE WHEN n % 100 = 99 THEN 'rare' ELSE 'web' END, 'debian', 'node1', CASE WHEN n % 100 = 98 THEN 'stopped' ELSE 'running' END,
			1, 1024, 'started', 0, '[]', '', 'ec2', '{}', '{}', 'null', 1, 1, 1 FROM k`,
		`WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n + 1 < ` + fmt.Sprint(n) + `)
		INSERT INTO job (id, kind, state, subject, instance, node, created)
		SELECT 'job' || (1000000 + n), CASE WHEN n % 100 = 99 THEN 'stop' ELSE 'create' END, CASE WHEN n % 100 = 98 THEN 'failed' ELSE 'succeeded' END, 'web' || (1000000 + n), 'ec2' || n, 'node1', n FROM k`,
	}
	for _, q := range fill {
		if _, err := db.sql.Write.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// pages returns filtered pages that clients of a large installation request.
func pages(n int) map[string]func(context.Context, *DB) (int, error) {
	late := fmt.Sprintf("web%d", 1000000+n*9/10)
	instances := func(q seedbed.InstanceQuery) func(context.Context, *DB) (int, error) {
		q.Limit = 100
		return func(ctx context.Context, db *DB) (int, error) {
			all, err := db.ListInstances(ctx, q)
			return len(all), err
		}
	}
	jobs := func(q seedbed.JobQuery) func(context.Context, *DB) (int, error) {
		q.Limit = 100
		return func(ctx context.Context, db *DB) (int, error) {
			all, err := db.ListJobs(ctx, q)
			return len(all), err
		}
	}
	return map[string]func(context.Context, *DB) (int, error){
		"first":         instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects()}),
		"late":          instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), After: seedbed.InDefault(late)}),
		"stopped":       instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceStopped}),
		"failed":        instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceFailed}),
		"rare":          instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "rare", After: seedbed.InDefault(late)}),
		"rare running":  instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "rare", State: seedbed.InstanceRunning}),
		"rare stopped":  instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "rare", State: seedbed.InstanceStopped}),
		"web stopped":   instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", State: seedbed.InstanceStopped}),
		"prefix":        instances(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "web10009", State: seedbed.InstanceRunning}),
		"jobs":          jobs(seedbed.JobQuery{Scope: seedbed.AllProjects()}),
		"old jobs":      jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), After: seedbed.JobCursor{Created: time.UnixMicro(int64(n / 10)), ID: "x"}}),
		"stop jobs":     jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobStop}),
		"no jobs":       jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobRebuild}),
		"failed jobs":   jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobFailed}),
		"failed stop":   jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobFailed, Kind: seedbed.JobStop}),
		"failed create": jobs(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobFailed, Kind: seedbed.JobCreate}),
	}
}

// BenchmarkListing reports the slowest of the filtered pages of 100,000 instances and as many jobs.
func BenchmarkListing(b *testing.B) {
	db, err := Open(b.Context(), Config{Path: b.TempDir() + "/seedbed.db"})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	const n = 100000
	crowd(b, db, n)
	for name, page := range pages(n) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := page(b.Context(), db); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99_ms")
		})
	}
}

// No filtered page reads the rows of all instances or jobs; each uses an index.
func TestListingPlans(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	crowd(t, db, 1000)
	for name, want := range map[string]int{
		"first": 100, "late": 99, "stopped": 10, "failed": 0, "rare": 1, "rare running": 10, "rare stopped": 0, "web stopped": 10, "prefix": 99,
		"jobs": 100, "old jobs": 100, "stop jobs": 10, "no jobs": 0, "failed jobs": 10, "failed stop": 0, "failed create": 10,
	} {
		got, err := pages(1000)[name](t.Context(), db)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v: want %d", name, got, err, want)
		}
	}
	for _, c := range []struct {
		w           *sqldb.Where
		from, index string
	}{
		{instances.Where(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceStopped, After: seedbed.InDefault("a")}),
			"instance WHERE %s ORDER BY name", "instance_state (state=? AND name>?)"},
		{instances.Where(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", After: seedbed.InDefault("a")}),
			"instance WHERE %s" + instances.SettledState + " ORDER BY name", "instance_profile (profile=? AND name>?)"},
		{instances.Where(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Profile: "web", After: seedbed.InDefault("a")}),
			"instance WHERE %s" + instances.MakingState, "instance_making (state=?)"},
		{instances.Where(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Prefix: "web"}), "instance WHERE %s ORDER BY name", "(name>? AND name<?)"},
		{instances.Where(seedbed.InstanceQuery{Scope: seedbed.AllProjects(), State: seedbed.InstanceProvisioning}), "instance WHERE %s", "instance_making (state=?)"},
		{jobs.Where(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobRunning}), "job WHERE %s", "job_live"},
		{jobs.Where(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobRolledBack}), "job WHERE %s ORDER BY created DESC, id DESC", "job_unsuccessful (state=?)"},
		{jobs.Where(seedbed.JobQuery{Scope: seedbed.AllProjects(), State: seedbed.JobFailed}), "job WHERE %s ORDER BY created DESC, id DESC", "job_unsuccessful (state=?)"},
		{jobs.Where(seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobStop}), "job WHERE %s ORDER BY created DESC, id DESC", "job_kind (kind=?)"},
		{jobs.Where(seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobCreate, State: seedbed.JobSucceeded}),
			"job WHERE %s ORDER BY created DESC, id DESC", "job_created"},
	} {
		query := "EXPLAIN QUERY PLAN SELECT * FROM " + fmt.Sprintf(c.from, c.w)
		plan := ""
		rows, err := db.sql.Read.QueryContext(t.Context(), query, c.w.Args...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		for rows.Next() {
			var id, parent, none int
			var line string
			if err := rows.Scan(&id, &parent, &none, &line); err != nil {
				t.Fatal(err)
			}
			plan += line + "\n"
		}
		rows.Close()
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\nhas the plan %swant one of %s without sorting", query, plan, c.index)
		}
	}
}
