package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswordInDSN checks that a password in the configuration is refused, and that no message
// shows it.
func TestPasswordInDSN(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://seedbed:hunter2@db1/seedbed",
		"postgresql://seedbed:hunter2@db1:5432,db2:5432/seedbed",
		"postgres://seedbed@db1/seedbed?password=hunter2",
		"postgres://seedbed@db1/seedbed?sslmode=require&password=hunter2",
		"host=db1 user=seedbed password=hunter2",
		"host=db1 user=seedbed PASSWORD = 'hunter2'",
		"hunter2",
	} {
		_, err := Parse("f.yaml", []byte("store:\n  driver: postgres\n  dsn: \""+dsn+"\"\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "f.yaml:3: store.dsn") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	for _, dsn := range []string{
		"postgres://seedbed@db1/seedbed?sslmode=verify-full", "postgres:///seedbed?host=/run/postgresql",
		"postgres://db1:5432,db2:5432/seedbed", "host=/run/postgresql dbname=seedbed", "host=db1 passfile=/etc/seedbed/pgpass",
	} {
		c, err := Parse("f.yaml", []byte("store: {driver: postgres, dsn: \""+dsn+"\"}\n"))
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
		} else if got, err := c.Store.ConnectionString(); got != dsn || err != nil {
			t.Errorf("%s became %q (%v)", dsn, got, err)
		}
	}
}

func TestDSNFile(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://seedbed:hunter2@db1/seedbed"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"right":     {dsn + "\n", 0o640, ""},
		"for all":   {dsn, 0o644, "chmod"},
		"empty":     {"\n", 0o600, "connection string"},
		"something": {"hunter2", 0o600, "connection string"},
	} {
		path := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := Store{Driver: StorePostgres, DSNFile: path}.ConnectionString()
		switch {
		case c.want == "" && (err != nil || got != dsn):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Store{Driver: StorePostgres, DSNFile: "/nowhere/dsn"}).ConnectionString(); err == nil {
		t.Error("a file that is not there was read")
	}
}
