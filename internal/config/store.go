package config

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// Store configures where the state is kept.
type Store struct {
	Driver string `yaml:"driver"` // StoreSQLite or StorePostgres
	Path   string `yaml:"path"`   // the file of StoreSQLite
	// DSN is the connection string of StorePostgres, without a password, because everyone who may
	// read the file would see it. DSNFile is a file with a connection string that may have a
	// password. Exactly one of the two is set.
	DSN     string `yaml:"dsn"`
	DSNFile string `yaml:"dsn_file"`
}

// These are the values of Store.Driver.
const (
	StoreSQLite   = "sqlite"   // a file on this host
	StorePostgres = "postgres" // a PostgreSQL server
)

// dsnShape matches PostgreSQL's connection strings, as a URL or as keys and values.
var dsnShape = regexp.MustCompile(`^(postgres(ql)?://|\s*[a-z_]+\s*=)`)

const wantDSN = "a connection string such as postgres://seedbed@db1.example/seedbed, without a password: " +
	"put a connection string with a password into the file of store.dsn_file"

func (k *checker) store(s Store) {
	k.oneOf("store.driver", s.Driver, StoreSQLite, StorePostgres)
	k.path("store.path", s.Path)
	if s.DSNFile != "" {
		k.path("store.dsn_file", s.DSNFile)
	}
	switch s.Driver {
	case StoreSQLite:
		k.secret(s.DSN == "", "store.dsn", "nothing, or driver: postgres")
		k.need(s.DSNFile == "", "store.dsn_file", s.DSNFile, "nothing, or driver: postgres")
	case StorePostgres:
		switch {
		case s.DSN != "" && s.DSNFile != "":
			k.need(false, "store.dsn_file", s.DSNFile, "store.dsn or store.dsn_file, not both")
		case s.DSN == "" && s.DSNFile == "":
			k.need(false, "store.driver", s.Driver, "store.dsn or store.dsn_file with it")
		case s.DSN != "":
			k.secret(dsnShape.MatchString(s.DSN) && !hasPassword(s.DSN), "store.dsn", wantDSN)
		}
	}
}

// passwordKey matches a password among keys and values.
var passwordKey = regexp.MustCompile(`(?i)(^|[\s?&])(ssl)?password\s*=`)

func hasPassword(dsn string) bool {
	if passwordKey.MatchString(dsn) {
		return true
	}
	if !strings.Contains(dsn, "://") {
		return false
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// With several hosts, or without a URL, the part before the @ decides.
		user, _, at := strings.Cut(strings.SplitN(dsn, "://", 2)[1], "@")
		return at && strings.Contains(user, ":")
	}
	_, has := u.User.Password()
	return has || passwordKey.MatchString("?"+u.RawQuery)
}

// ConnectionString returns the DSN of StorePostgres, from DSNFile if that is set. It returns an
// empty string for StoreSQLite. The result may be a secret. A DSNFile that everyone may read is
// refused.
func (s Store) ConnectionString() (string, error) {
	if s.Driver != StorePostgres || s.DSNFile == "" {
		return s.DSN, nil
	}
	f, err := os.Open(s.DSNFile)
	if err != nil {
		return "", fmt.Errorf("store.dsn_file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("store.dsn_file: %w", err)
	}
	if st.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("store.dsn_file: everyone may use %s (mode %o): run chmod 640 or 600 on it", s.DSNFile, st.Mode().Perm())
	}
	const most = 16 << 10
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("store.dsn_file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || len(text) > most || !dsnShape.Match(text) {
		return "", fmt.Errorf(
			"store.dsn_file: %s holds no connection string: expected one line such as postgres://seedbed:PASSWORD@db1.example/seedbed", s.DSNFile)
	}
	return string(text), nil
}
