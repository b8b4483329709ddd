//go:build integration

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed/internal/lab"
	"seedbed/store"
)

// TestMoveToPostgres moves an installation to PostgreSQL. The commands name the next step, in
// order, and show no password.
func TestMoveToPostgres(t *testing.T) {
	s := lab.Postgres(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "seedbed.db")
	db, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := db.SettingOnce(t.Context(), "test", func() []byte { return []byte("kept") })
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	dsn := s.DSN(s.Database(t, "")) + " password=hunter2"
	secret := filepath.Join(dir, "dsn")
	if err := os.WriteFile(secret, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conf := filepath.Join(dir, "seedbed.yaml")
	text := fmt.Sprintf(
		"data_dir: %s\nrun_dir: %s/run\nnetwork: {prefix: 10.99.0.0/24}\nstore: {driver: postgres, dsn_file: %s}\napi: {listen: %q}\n",
		dir, dir, secret, ln.Addr(),
	)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-config", conf}, 1, "seedbedd migrate"},
		{[]string{"store", "copy", "-config", conf}, 1, "seedbedd migrate"},
		{[]string{"migrate", "-config", conf}, 0, "up to date"},
		{[]string{"migrate", "-config", conf}, 0, "up to date"},
		{[]string{"store", "copy", "-config", conf, "-from", path + ".none"}, 1, "nothing was copied"},
		{[]string{"store", "copy", "-config", conf}, 0, "table=setting rows=3"},
		{[]string{"store", "copy", "-config", conf}, 1, "not empty"},
		{[]string{"-config", conf}, 1, "api.listen"}, // the database is valid now
	} {
		var out bytes.Buffer
		p, args := program(step.args)
		if status := p.Main(t.Context(), args, &out, &out); status != step.status || !strings.Contains(out.String(), step.says) {
			t.Fatalf("%v: status %d, want %d and %q:\n%s", step.args, status, step.status, step.says, out.String())
		}
		if strings.Contains(out.String(), "hunter2") {
			t.Errorf("%v shows the password", step.args)
		}
	}
	db, err = store.Open(t.Context(), store.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got, err := db.SettingOnce(t.Context(), "test", func() []byte { return []byte("new") }); err != nil || !bytes.Equal(got, kept) {
		t.Errorf("the setting is %q (%v)", got, err)
	}
}
