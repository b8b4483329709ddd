package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgBin is where Debian's package of PostgreSQL's version pgVersion keeps its programs.
const (
	pgVersion = "15"
	pgBin     = "/usr/lib/postgresql/" + pgVersion + "/bin"
)

// PostgresServer is a PostgreSQL server of the test's own, on a unix socket. It
// flushes to disk as in production, unless it is an ephemeral one.
type PostgresServer struct {
	owner    T // with which it ends
	dir      string
	port     int
	settings []string // such as "fsync=off"
	strategy string   // of CREATE DATABASE with a template

	mu   sync.Mutex
	proc *Process
	made atomic.Int64
}

// ephemeralRoom is how many bytes of memory the databases of an ephemeral server may take, with its log of writes.
const ephemeralRoom = 3 << 30

// Postgres starts a server, as the user postgres, and waits until it answers.
// It ends with the test. A setting is as in postgresql.conf, such as "fsync=off".
func Postgres(t T, settings ...string) *PostgresServer {
	t.Helper()
	s := &PostgresServer{owner: t, dir: Dir(t), settings: settings, strategy: "wal_log"}
	s.create(t)
	return s
}

// EphemeralPostgres starts a server for hundreds of databases that live for seconds each. They are in memory, where a copy of
// a database takes a sixth of the processor time that it takes on a disk, and none of them is vacuumed.
func EphemeralPostgres(t T) *PostgresServer {
	t.Helper()
	s := &PostgresServer{
		owner: t, dir: Dir(t), strategy: "file_copy",
		settings: []string{"fsync=off", "autovacuum=off", "full_page_writes=off", "max_wal_size=256MB"},
	}
	Tmpfs(t, s.dir, ephemeralRoom)
	s.create(t)
	return s
}

// create makes the server's cluster, and starts it.
func (s *PostgresServer) create(t T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("PostgreSQL is started as the user postgres: run this test as root")
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("%v: install the package postgresql", err)
	}
	s.port = FreePort(t)
	uid, uidErr := strconv.Atoi(who.Uid)
	gid, gidErr := strconv.Atoi(who.Gid)
	if uidErr != nil || gidErr != nil || os.Chown(s.dir, uid, gid) != nil {
		t.Fatalf("the user postgres has uid %s and gid %s, and the directory cannot be its own", who.Uid, who.Gid)
	}
	// A copy takes a tenth of the time that initdb does.
	if out, err := exec.Command("cp", "-a", cluster.path(t), s.data()).CombinedOutput(); err != nil {
		t.Fatalf("copy of an empty cluster: %v\n%s", err, out)
	}
	s.Start(t)
	t.Cleanup(func() { s.Stop("immediate") })
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

// asPostgres is a command that runs as the user postgres.
func asPostgres(args ...string) *exec.Cmd {
	return exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups"}, args...)...)
}

// Start starts the server that Stop ended, and waits until it answers.
func (s *PostgresServer) Start(t T) {
	t.Helper()
	argv := asPostgres(filepath.Join(pgBin, "postgres"), "-D", s.data(), "-k", s.dir, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c", "max_connections=400").Args
	for _, setting := range s.settings {
		argv = append(argv, "-c", setting)
	}
	p := Start(s.owner, filepath.Join(s.dir, "server.log"), argv[0], argv[1:]...)
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	Await(t, Patience, "PostgreSQL answers", func() bool {
		if !p.Alive() {
			t.Fatalf("postgres ended:\n%s", p.Tail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err != nil {
			return false
		}
		return conn.Close(ctx) == nil
	})
}

// Stop ends the server: "fast" as an orderly stop that breaks connections,
// "immediate" as a crash, which the next start recovers from.
func (s *PostgresServer) Stop(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sig := syscall.SIGINT
	if mode == "immediate" {
		sig = syscall.SIGQUIT
	}
	s.proc.Stop(sig)
}

// Close begins a smart stop: existing connections continue, and new ones are refused.
func (s *PostgresServer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Cmd.Process.Signal(syscall.SIGTERM)
}

// Restart stops the server in the mode of pg_ctl, "fast" or "immediate", and
// starts it again.
func (s *PostgresServer) Restart(t T, mode string) {
	t.Helper()
	s.Stop(mode)
	s.Start(t)
}

// DSN is the connection string of a database of the server.
func (s *PostgresServer) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", s.dir, s.port, database)
}

// Store is section store of a configuration whose state is in that database.
func (s *PostgresServer) Store(database string) string {
	return fmt.Sprintf("{driver: postgres, dsn: %q}", s.DSN(database))
}

// SocketPath is the unix socket that the server listens on.
func (s *PostgresServer) SocketPath() string {
	return filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d", s.port))
}

// Copying is the clause of CREATE DATABASE by which a database becomes a copy of template.
func (s *PostgresServer) Copying(template string) string {
	return "TEMPLATE " + template + " STRATEGY " + s.strategy
}

// Database makes a database, a copy of template unless that is empty, and
// returns its name.
func (s *PostgresServer) Database(t T, template string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.made.Add(1))
	query := "CREATE DATABASE " + name
	if template != "" {
		query += " " + s.Copying(template)
	}
	s.exec(t, query)
	return name
}

// DatabaseIn is Database in a directory of the caller's, which is the database's own.
func (s *PostgresServer) DatabaseIn(t T, template, dir string) string {
	t.Helper()
	if out, err := exec.Command("chown", "postgres:postgres", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := fmt.Sprintf("test%d", s.made.Add(1))
	s.exec(t, "CREATE TABLESPACE "+name+" LOCATION '"+dir+"'")
	s.exec(t, "CREATE DATABASE "+name+" TEMPLATE "+template+" TABLESPACE "+name)
	return name
}

// DropDatabase removes a database and breaks what is connected to it.
func (s *PostgresServer) DropDatabase(t T, name string) {
	t.Helper()
	s.exec(t, "DROP DATABASE "+name+" WITH (FORCE)")
}

func (s *PostgresServer) exec(t T, query string) {
	t.Helper()
	s.Exec(t, "postgres", query)
}

// Exec carries out a statement in a database of the server.
func (s *PostgresServer) Exec(t T, database, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, query); err != nil {
		t.Fatalf("%s: %v", strings.SplitN(query, "\n", 2)[0], err)
	}
}
