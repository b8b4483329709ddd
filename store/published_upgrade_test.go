package store

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

// TestUpgradeToPublished opens a database in which all projects use all images, networks and profiles.
func TestUpgradeToPublished(t *testing.T) {
	t.Parallel()
	db := upgraded(t, fillUnpublished)
	checkPublished(t, db)
	checkReferences(t, db)
}

// fillUnpublished migrates an empty database to schema 26, and inserts what all projects use, and a
// document, which they do not.
func fillUnpublished(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	migrateTo(t, d, db, 26)
	for _, query := range []string{
		`INSERT INTO project (name, number, description, quota, revision, created, changed)
			VALUES ('acme', '123456789012', '', '{}', 1, 1, 1)`,
		`INSERT INTO network (name, bridge, mac, prefix, gateway, dns, nat, dhcp)
			VALUES ('default', 'seedbed0', '52:54:00:00:00:01', '10.9.0.0/24', '10.9.0.1', '["10.9.0.1"]', 1, 1)`,
		`INSERT INTO image (name, pool, state, size, source, format, sha256, created)
			VALUES ('debian', 'default', 'active', 1073741824, '/d.qcow2', 'qcow2', 'ab', 1)`,
		`INSERT INTO image (name, pool, state, size, source, format, sha256, created, dropped)
			VALUES ('former', 'default', 'active', 1073741824, '/d.qcow2', 'qcow2', 'ab', 1, 1)`,
		`INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, revision, created, changed)
			VALUES ('small', 'debian', 1, 268435456, 0, 'default', '[]', NULL, 'started', 3, 1, 2)`,
		`INSERT INTO userdata (name, content, revision, created, changed) VALUES ('web', 'text', 1, 1, 1)`,
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// checkPublished expects that a tenant uses and sees what it did before.
func checkPublished(t *testing.T, db *DB) {
	t.Helper()
	ctx, all := t.Context(), &seedbed.Publication{All: true, Projects: []string{}}
	if diff := cmp.Diff(all, do(db.Image(ctx, "debian"))(t).Published); diff != "" {
		t.Errorf("the image (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, do(db.Network(ctx, "default"))(t).Published); diff != "" {
		t.Errorf("the network (-want +got):\n%s", diff)
	}
	for _, name := range []string{"debian", "default/debian"} {
		if got := do(db.Resolve(ctx, seedbed.PublishedImage, "acme", name))(t); got != "debian" {
			t.Errorf("image %s is %s", name, got)
		}
	}
	do(db.Resolve(ctx, seedbed.PublishedNetwork, "acme", "default"))(t)
	if name, err := db.Resolve(ctx, seedbed.PublishedImage, "acme", "former"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("image former is %s, %v", name, err)
	}
	var rows int
	if err := db.sql.Write.QueryRow(`SELECT COUNT(*) FROM published WHERE project = '*'`).Scan(&rows); err != nil || rows != 5 {
		t.Errorf("%d rows, %v: want those of the image, the network, the profile, and the empty document and script", rows, err)
	}
	if name, err := db.Resolve(ctx, seedbed.PublishedUserData, "acme", "web"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("document web, which no other project could see, is %s, %v", name, err)
	}
	if got := do(db.Resolve(ctx, seedbed.PublishedProfile, "acme", "small"))(t); got != "small" {
		t.Errorf("profile small is %s", got)
	}
	if p := do(db.Profile(ctx, "small"))(t); p.Image != "debian" || p.Revision != 3 {
		t.Errorf("profile %+v", p)
	}
}
