package store

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"seedbed"
)

// Two profiles that had one name before both kinds shared theirs stay, and the
// name is free again only when both are gone. What refers to a profile, whose
// table is made anew, still does.
func TestProfilesOfOneName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(openSQLite(path, writer))(t)
	files := do(fs.Sub(migrations, sqlite.migrations))(t)
	p := do(goose.NewProvider(sqlite.goose, old, files, goose.WithDisableGlobalRegistry(true)))(t)
	do(p.UpTo(t.Context(), 10))(t)
	for _, query := range []string{
		`INSERT INTO network (name, bridge, mac, prefix, gateway, dns, nat, dhcp) VALUES ('default', 'seedbed0', '52:54:00:00:00:01', '10.9.0.0/24', '10.9.0.1', '[]', 1, 1)`,
		`INSERT INTO image (name, pool, state, size, source, format, sha256, created) VALUES ('debian', 'default', 'active', 1024, '/d', 'raw', 'ab', 1)`,
		`INSERT INTO profile (name, image, vcpus, memory, disk_size, network, ssh_keys, ready, revision, created, changed, on_failure)
			VALUES ('web', 'debian', 1, 268435456, 0, 'default', '[]', 'report', 3, 1, 2, 'keep'), ('db', 'debian', 1, 268435456, 0, 'default', '[]', 'report', 1, 1, 1, '')`,
		`INSERT INTO hook (name, key, actions, tolerance, created) VALUES ('demo', x'07', '["create"]', 300000000, 1)`,
		`INSERT INTO hook_profile (hook, idx, profile) VALUES ('demo', 0, 'web')`,
		`INSERT INTO system_template (name, vcpus, memory, serial, vnc, vnc_bind, node_limit, node_selector, node_autostart, migration_method, migration_downtime, revision, created, changed)
			VALUES ('small', 1, 536870912, 1, 0, '', '[]', '', 0, '', 0, 1, 1, 1)`,
		`INSERT INTO script (name, content, revision, created, changed) VALUES ('x', '', 1, 1, 1)`,
		`INSERT INTO provisioner_profile (name, type, system, script, arguments, revision, created, changed) VALUES ('web', 'provisioner', 'small', 'x', '[]', 1, 1, 1)`,
	} {
		do(old.Exec(query))(t)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	defer db.Close()
	ctx := t.Context()
	if all := do(db.ProfileEntries(ctx))(t); len(all) != 3 || all[0].Name != "db" || all[1].Name != "web" || all[2].Name != "web" {
		t.Fatalf("%+v", all)
	}
	web := do(db.Profile(ctx, "web"))(t)
	if web.Revision != 3 || web.Image != "debian" || web.Follow != seedbed.FollowPinned || web.Params != nil {
		t.Errorf("%+v", web)
	}
	if h := do(db.Hook(ctx, "demo"))(t); len(h.Profiles) != 1 || h.Profiles[0] != "web" {
		t.Errorf("the hook lost its profile: %+v", h)
	}
	if err := db.DeleteHook(ctx, "demo"); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteProfile(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateProfile(ctx, web); !errors.Is(err, seedbed.ErrExists) || !strings.Contains(err.Error(), "provisioner profile") {
		t.Errorf("the name was free: %v", err)
	}
	if err := db.DeleteProvisionerProfile(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	do(db.CreateProfile(ctx, web))(t)
}
