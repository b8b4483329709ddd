package lab

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// zkServer is where Debian's package zookeeper has its program.
const zkServer = "/usr/share/zookeeper/bin/zkServer.sh"

// Zoo is one ZooKeeper server of a test, on a data directory and port of its
// own. Sessions last 1 to 10 s (tickTime 500 ms).
type Zoo struct {
	Addr string // its clients' address, host:port

	t        T
	dir, cfg string
	proc     *Process
}

// ZooKeeper starts one server and waits until it answers; it ends with the test.
func ZooKeeper(t T) *Zoo {
	t.Helper()
	z := newZoo(t, "")
	z.Start()
	z.AwaitServing()
	return z
}

// ZooKeepers starts an ensemble of n servers and waits until it has a quorum
// and all of them serve.
func ZooKeepers(t T, n int) []*Zoo {
	t.Helper()
	var ensemble strings.Builder
	ensemble.WriteString("initLimit=20\nsyncLimit=4\n")
	for i := range n {
		fmt.Fprintf(&ensemble, "server.%d=127.0.0.1:%d:%d\n", i+1, FreePort(t), FreePort(t))
	}
	servers := make([]*Zoo, n)
	for i := range servers {
		servers[i] = newZoo(t, ensemble.String())
		id := filepath.Join(servers[i].dir, "myid")
		if err := os.WriteFile(id, []byte(fmt.Sprint(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		servers[i].Start()
	}
	for _, z := range servers {
		z.AwaitServing()
	}
	return servers
}

func newZoo(t T, more string) *Zoo {
	t.Helper()
	dir, port := Dir(t), FreePort(t)
	z := &Zoo{Addr: fmt.Sprintf("127.0.0.1:%d", port), t: t, dir: dir, cfg: filepath.Join(dir, "zoo.cfg")}
	cfg := fmt.Sprintf(
		"tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n%s",
		dir, port, more,
	)
	if err := os.WriteFile(z.cfg, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	return z
}

// Coordination is section coordination of a configuration that uses the server.
func (z *Zoo) Coordination(session time.Duration) string {
	return fmt.Sprintf("{driver: zookeeper, servers: [%q], session_timeout: %s}", z.Addr, session)
}

// Start starts the server, after Stop on the data and the port that it had,
// and does not wait until it serves.
func (z *Zoo) Start() {
	z.t.Helper()
	// The script ends in exec, so that the process is the server itself.
	z.proc = Start(z.t, filepath.Join(z.dir, "zookeeper.log"), "env",
		"ZOO_LOG_DIR="+z.dir, "JMXDISABLE=true", "JVMFLAGS=-Xmx128m", zkServer, "start-foreground", z.cfg)
}

// AwaitServing waits until the server serves clients: an ensemble's member
// does not without a quorum.
func (z *Zoo) AwaitServing() {
	z.t.Helper()
	Await(z.t, Patience, "ZooKeeper serves at "+z.Addr, func() bool {
		if !z.proc.Alive() {
			z.t.Fatalf("ZooKeeper ended:\n%s", z.proc.Tail())
		}
		return z.Serving()
	})
}

// Serving reports whether the server serves clients now.
func (z *Zoo) Serving() bool { return strings.Contains(z.ask("srvr"), "Mode:") }

// ask sends one of ZooKeeper's four letter words; no answer is empty.
func (z *Zoo) ask(word string) string {
	c, err := net.DialTimeout("tcp", z.Addr, 10*time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // what fails below has no answer
	if _, err := io.WriteString(c, word); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(io.LimitReader(c, 64<<10))
	return string(answer)
}

// Stop ends the server as a crash does; its data stay.
func (z *Zoo) Stop() { z.proc.Kill() }

// Pause stops the server's process without closing its connections; Resume
// lets it go on.
func (z *Zoo) Pause() { z.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (z *Zoo) Resume() { z.signal(syscall.SIGCONT) }

func (z *Zoo) signal(sig syscall.Signal) {
	z.t.Helper()
	if err := z.proc.Cmd.Process.Signal(sig); err != nil {
		z.t.Fatal(err)
	}
}
