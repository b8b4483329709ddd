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
		INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys, report_token, datasource,
			metadata, tags, spot, revision, created, changed)
		SELECT 'ec2' || n, 'default', 'web' || (1000000 + n), CASE WHEN n % 100 = 99 THEN 'rare' ELSE 'web' END, 'debian', 'node1',
			CASE WHEN n % 100 = 98 THEN 'stopped' ELSE 'running' END, 1, 1024, 'started', 0, '[]', '', 'ec2', '{}', '{}', 'null', 1, 1, 1 FROM k`,
		`WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n + 1 < ` + fmt.Sprint(n) + `)
		INSERT INTO job (id, kind, state, subject, instance, node, created)
		SELECT 'job' || (1000000 + n), CASE WHEN n % 100 = 99 THEN 'stop' ELSE 'create' END,
			CASE WHEN n % 100 = 98 THEN 'failed' ELSE 'succeeded' END, 'web' || (1000000 + n), 'ec2' || n, 'node1', n FROM k`,
	}
	for _, q := range fill {
		if _, err := db.sql.Write.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// pages returns filtered pages of a scope that clients of a large installation request.
func pages(in seedbed.Scope, n int) map[string]func(context.Context, *DB) (int, error) {
	late := fmt.Sprintf("web%d", 1000000+n*9/10)
	instances := func(q seedbed.InstanceQuery) func(context.Context, *DB) (int, error) {
		q.Scope, q.Limit = in, 100
		return func(ctx context.Context, db *DB) (int, error) {
			all, err := db.ListInstances(ctx, q)
			return len(all), err
		}
	}
	jobs := func(q seedbed.JobQuery) func(context.Context, *DB) (int, error) {
		q.Scope, q.Limit = in, 100
		return func(ctx context.Context, db *DB) (int, error) {
			all, err := db.ListJobs(ctx, q)
			return len(all), err
		}
	}
	return map[string]func(context.Context, *DB) (int, error){
		"first":         instances(seedbed.InstanceQuery{}),
		"late":          instances(seedbed.InstanceQuery{After: seedbed.InDefault(late)}),
		"stopped":       instances(seedbed.InstanceQuery{State: seedbed.InstanceStopped}),
		"failed":        instances(seedbed.InstanceQuery{State: seedbed.InstanceFailed}),
		"rare":          instances(seedbed.InstanceQuery{Profile: "rare", After: seedbed.InDefault(late)}),
		"rare running":  instances(seedbed.InstanceQuery{Profile: "rare", State: seedbed.InstanceRunning}),
		"rare stopped":  instances(seedbed.InstanceQuery{Profile: "rare", State: seedbed.InstanceStopped}),
		"web stopped":   instances(seedbed.InstanceQuery{Profile: "web", State: seedbed.InstanceStopped}),
		"prefix":        instances(seedbed.InstanceQuery{Prefix: "web10009", State: seedbed.InstanceRunning}),
		"jobs":          jobs(seedbed.JobQuery{}),
		"old jobs":      jobs(seedbed.JobQuery{After: seedbed.JobCursor{Created: time.UnixMicro(int64(n / 10)), ID: "x"}}),
		"stop jobs":     jobs(seedbed.JobQuery{Kind: seedbed.JobStop}),
		"no jobs":       jobs(seedbed.JobQuery{Kind: seedbed.JobRebuild}),
		"failed jobs":   jobs(seedbed.JobQuery{State: seedbed.JobFailed}),
		"failed stop":   jobs(seedbed.JobQuery{State: seedbed.JobFailed, Kind: seedbed.JobStop}),
		"failed create": jobs(seedbed.JobQuery{State: seedbed.JobFailed, Kind: seedbed.JobCreate}),
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
	for name, page := range pages(seedbed.InProject(seedbed.DefaultProject), n) {
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

// No filtered page reads the rows of all instances or jobs, whether of one project or of all. Each uses
// an index.
func TestListingPlans(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	crowd(t, db, 1000)
	one := seedbed.InProject(seedbed.DefaultProject)
	for _, in := range []seedbed.Scope{one, seedbed.AllProjects()} {
		for name, want := range map[string]int{
			"first": 100, "late": 99, "stopped": 10, "failed": 0, "rare": 1, "rare running": 10, "rare stopped": 0, "web stopped": 10, "prefix": 99,
			"jobs": 100, "old jobs": 100, "stop jobs": 10, "no jobs": 0, "failed jobs": 10, "failed stop": 0, "failed create": 10,
		} {
			got, err := pages(in, 1000)[name](t.Context(), db)
			if err != nil || got != want {
				t.Errorf("%s of %+v: %d, %v: want %d", name, in, got, err, want)
			}
		}
	}
	const (
		byName = "instance WHERE %s ORDER BY project, name"
		byAge  = "job WHERE %s ORDER BY created DESC, id DESC"
	)
	a := seedbed.InDefault("a")
	for _, c := range []struct {
		instances *seedbed.InstanceQuery
		jobs      *seedbed.JobQuery
		from      string
		one, all  string // the index for one project, and for all
	}{
		{instances: &seedbed.InstanceQuery{}, from: byName, one: "(project=?)", all: "SCAN instance USING INDEX sqlite_autoindex_instance_2"},
		{instances: &seedbed.InstanceQuery{State: seedbed.InstanceStopped, After: a}, from: byName,
			one: "instance_state (state=? AND project=? AND name>?)", all: "instance_state (state=? AND (project,name)>(?,?))"},
		{instances: &seedbed.InstanceQuery{Profile: "web", After: a}, from: strings.Replace(byName, "%s", "%s"+instances.SettledState, 1),
			one: "instance_profile (profile=? AND project=? AND name>?)", all: "instance_profile (profile=? AND (project,name)>(?,?))"},
		{instances: &seedbed.InstanceQuery{Profile: "web", After: a}, from: "instance WHERE %s" + instances.MakingState,
			one: "instance_making (state=? AND project=? AND name>?)", all: "instance_making (state=? AND (project,name)>(?,?))"},
		{instances: &seedbed.InstanceQuery{Prefix: "web"}, from: byName,
			one: "(project=? AND name>? AND name<?)", all: "SCAN instance USING INDEX sqlite_autoindex_instance_2"},
		{instances: &seedbed.InstanceQuery{State: seedbed.InstanceProvisioning}, from: "instance WHERE %s",
			one: "instance_making (state=? AND project=?)", all: "instance_making (state=?)"},
		{jobs: &seedbed.JobQuery{State: seedbed.JobRunning}, from: "job WHERE %s", one: "job_live (project=?)", all: "job_live"},
		{jobs: &seedbed.JobQuery{State: seedbed.JobRolledBack}, from: byAge,
			one: "job_unsuccessful_in (project=? AND state=?)", all: "job_unsuccessful (state=?)"},
		{jobs: &seedbed.JobQuery{State: seedbed.JobFailed}, from: byAge,
			one: "job_unsuccessful_in (project=? AND state=?)", all: "job_unsuccessful (state=?)"},
		{jobs: &seedbed.JobQuery{Kind: seedbed.JobStop}, from: byAge, one: "job_kind_in (project=? AND kind=?)", all: "job_kind (kind=?)"},
		{jobs: &seedbed.JobQuery{Kind: seedbed.JobCreate, State: seedbed.JobSucceeded}, from: byAge,
			one: "job_ended_in (project=?)", all: "job_created"},
		{jobs: &seedbed.JobQuery{}, from: strings.Replace(byAge, "%s", "%s AND "+jobs.Ended, 1),
			one: "job_ended_in (project=?)", all: "job_created"},
		{jobs: &seedbed.JobQuery{}, from: "job WHERE %s AND " + jobs.Live, one: "job_live (project=?)", all: "job_live"},
	} {
		for in, index := range map[seedbed.Scope]string{one: c.one, seedbed.AllProjects(): c.all} {
			w := &sqldb.Where{}
			if c.instances != nil {
				c.instances.Scope = in
				w = instances.Where(*c.instances)
			} else {
				c.jobs.Scope = in
				w = jobs.Where(*c.jobs)
			}
			query := "EXPLAIN QUERY PLAN SELECT * FROM " + fmt.Sprintf(c.from, w)
			if plan := planOf(t, db, query, w.Args); !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s\nhas the plan %swant one of %s without sorting", query, plan, index)
			}
		}
	}
}

func planOf(t *testing.T, db *DB, query string, args []any) (plan string) {
	t.Helper()
	rows, err := db.sql.Read.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, none int
		var line string
		if err := rows.Scan(&id, &parent, &none, &line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	return plan
}
