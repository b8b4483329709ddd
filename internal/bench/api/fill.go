package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"seedbed"
	"seedbed/provision"
	"seedbed/provision/intake"
	"seedbed/store"
)

// fill makes one of each kind through the program's own ways, and then copies
// the rows in the database: what a release adds to them comes along.
func fill(ctx context.Context, s setup, at place) error {
	if err := furnish(ctx, at); err != nil {
		return err
	}
	driver, dsn := "sqlite", "file:"+at.path+"?_pragma=journal_mode(WAL)"
	if at.dsn != "" {
		driver, dsn = "pgx", at.dsn
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, c := range []struct {
		table, of string
		n         int
		values    map[string]string // of the columns that differ; empty leaves one out
	}{
		{"project", "name = 'default'", s.instances / ofProject, map[string]string{
			"name": "'project-' || CAST(10000 + i AS text)", "number": "CAST(100000000000 + i AS text)"}},
		{"profile", "name = 'small'", s.profiles, map[string]string{"id": "", "name": "'profile-' || CAST(10000 + i AS text)"}},
		{"profile", "name = 'composed'", s.profiles, map[string]string{"id": "", "name": "'composed-' || CAST(10000 + i AS text)"}},
		{"instance", "name = 'first'", s.instances, map[string]string{
			"id": instanceID, "project": projectName("i"), "name": "'vm-' || CAST(100000 + i AS text)",
			"profile": fmt.Sprintf("'profile-' || CAST(10000 + i %% %d AS text)", s.profiles),
			"state":   "CASE i % 10 WHEN 0 THEN 'stopped' WHEN 1 THEN 'failed' ELSE 'running' END"}},
		{"nic", "instance = (SELECT id FROM instance WHERE name = 'first')", s.instances, map[string]string{
			"id": "", "instance": instanceID,
			"mac": "'52:54:01:' || substr(CAST(100000 + i AS text), 1, " +
				"2) || ':' || substr(CAST(100000 + i AS text), 3, 2) || ':' || substr(CAST(100000 + i AS text), 5, 2)",
			"addr": "'10.' || CAST(65 + i / 65536 AS text) || '.' || CAST(i / 256 % 256 AS text) || '.' || CAST(i % 256 AS text)"}},
		{"volume", "instance = (SELECT id FROM instance WHERE name = 'first')", s.instances, map[string]string{
			"instance": instanceID, "name": "'vm-' || CAST(100000 + i AS text)"}},
	} {
		if err := copies(ctx, db, c.table, c.of, c.n, c.values); err != nil {
			return fmt.Errorf("copy rows of %s: %w", c.table, err)
		}
	}
	if at.dsn != "" { // what autovacuum does within a minute
		_, err = db.ExecContext(ctx, "ANALYZE")
	}
	return err
}

// ofProject is how many instances a project has.
const ofProject = 100

// projectName returns an expression for the name of the project of the instance of number i.
func projectName(i string) string {
	return fmt.Sprintf("'project-' || CAST(10001 + (%s - 1) / %d AS text)", i, ofProject)
}

// instanceID is the ID of the instance of number i.
const instanceID = "'ec200000-0000-4000-8000-' || CAST(100000000000 + i AS text)"

// copies adds n copies of a row, in which i is the number of each.
func copies(ctx context.Context, db *sql.DB, table, of string, n int, values map[string]string) error {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	rows.Close()
	if err != nil {
		return err
	}
	var into, from []string
	for _, c := range columns {
		value, differs := values[c]
		if differs && value == "" {
			continue
		}
		if !differs {
			value = "t." + c
		}
		into, from = append(into, c), append(from, value)
	}
	_, err = db.ExecContext(
		ctx,
		fmt.Sprintf(
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO %s (%s) SELECT %s FROM %s t, n WHERE t.%s`,
			n,
			table,
			strings.Join(into, ", "),
			strings.Join(from, ", "),
			table,
			of,
		),
	)
	return err
}

// furnish makes the first of each kind, and the token.
func furnish(ctx context.Context, at place) error {
	if at.dsn != "" {
		if err := store.Migrate(ctx, at.config()); err != nil {
			return err
		}
	}
	db, err := store.Open(ctx, at.config())
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.CreateToken(ctx, holder, sha256.Sum256([]byte(secret))); err != nil {
		return err
	}
	requests := provision.NewIntake(db, intake.Serving{Node: "bench"})
	if err := addImage(ctx, db, requests); err != nil {
		return err
	}
	if _, err := db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.64.0.0/10"), Gateway: netip.MustParseAddr("10.64.0.1")}); err != nil {
		return err
	}
	for _, p := range []seedbed.Profile{{Name: "small"}, {Name: "other"}} {
		p.Image, p.VCPUs, p.Memory, p.Network, p.UserData = "debian", 1, 512*seedbed.MiB, "default", []byte("#cloud-config\npackages: [nginx]\n")
		if _, err := db.CreateProfile(ctx, p); err != nil {
			return err
		}
		if _, err := db.PublishProfile(ctx, p.Name, seedbed.Publication{All: true}); err != nil {
			return err
		}
	}
	if _, err := db.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "small", VCPUs: 1, Memory: seedbed.GiB}); err != nil {
		return err
	}
	if _, err := db.CreateNetworkTemplate(ctx, "lan", ""); err != nil {
		return err
	}
	if _, err := db.CreateStorageTemplate(ctx, "root"); err != nil {
		return err
	}
	composed := seedbed.NewScripted("composed", "empty")
	composed.System, composed.NetworkTemplate, composed.Storage, composed.Document = "small", "lan", "root", "empty"
	if _, err := db.CreateProfile(ctx, composed); err != nil {
		return err
	}
	_, err = requests.Submit(ctx, seedbed.Request{Action: "create", Name: "first", Profile: "small"}, nil)
	return err
}

// addImage has an image there without a worker.
func addImage(ctx context.Context, db *store.DB, requests *intake.Intake) error {
	if _, err := requests.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: "/debian.qcow2"}, seedbed.JobOptions{}); err != nil {
		return err
	}
	job, err := db.ClaimJob(ctx, "bench", time.Minute)
	if err != nil {
		return err
	}
	image := seedbed.ImageInfo{Pool: "default", Name: "debian", Job: job.ID, Size: seedbed.GiB, Format: "qcow2"}
	for _, step := range []seedbed.Step{{Next: "import", Total: 1}, {Done: "import", Total: 1, Image: &image}} {
		if err := db.Step(ctx, job.Ref(), step); err != nil {
			return err
		}
	}
	return db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded})
}
