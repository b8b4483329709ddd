package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// CephUser is the Ceph user of a lab cluster that guests and tests use. It has
// the caps that Seedbed asks for, and no more.
const CephUser = "libvirt"

// Swept is when a pool's sweep has taken what a call that was given up left behind: such a
// call may be the user of its image for half a minute (osd_client_watch_timeout) once the
// cluster answers, and a sweep comes again after half a minute at most.
const Swept = 2 * time.Minute

// CephCluster is a cluster of one monitor, one manager and one OSD that keeps
// its data in memory.
type CephCluster struct {
	// Conf is the path of its ceph.conf, and Keyring that of CephUser's key.
	Conf, Keyring string
	// Name is what the cluster's pools are named in configurations: no other cluster has it.
	Name string

	owner T // with which the daemons end
	addr  string
	dir   string
	fsid  string
	mon   *Process
	mgr   *Process
	osd   *Process
	slept atomic.Bool // frozen, and not awake since
}

// Ceph starts a cluster on 127.0.0.1, waits until it is HEALTH_OK, and stops it with the test.
func Ceph(t T) *CephCluster {
	t.Helper()
	return CephAt(t, "127.0.0.1")
}

// CephAt is Ceph on another address of the test's network, such as the Peer of a [Host].
func CephAt(t T, addr string) *CephCluster {
	t.Helper()
	c := &CephCluster{owner: t, addr: addr, dir: Dir(t), fsid: uuid.NewString()}
	c.Name = "lab-" + c.fsid[:8]
	c.Conf, c.Keyring = c.path("ceph.conf"), c.path("ceph.client."+CephUser+".keyring")
	monitors := fmt.Sprintf("[v2:%[1]s:%[2]d,v1:%[1]s:%[3]d]", addr, FreePort(t), FreePort(t))
	c.write(t, monitors)
	c.startMonitor(t, monitors)
	c.startManager(t)
	c.startOSD(t)
	c.tool(t, "auth", "get-or-create", "client."+CephUser, "mon", "profile rbd", "osd", "profile rbd", "mgr", "profile rbd", "-o", c.Keyring)
	if err := os.Chmod(c.Keyring, 0o600); err != nil {
		t.Fatal(err)
	}
	Await(t, Patience, "Ceph is HEALTH_OK", func() bool {
		c.alive(t)
		out, err := c.try("health")
		return err == nil && strings.HasPrefix(out, "HEALTH_OK")
	})
	return c
}

// Pool makes a pool for RBD, and removes it with the test.
func (c *CephCluster) Pool(t T, name string) string {
	t.Helper()
	c.tool(t, "osd", "pool", "create", name, "8", "8")
	c.tool(t, "osd", "pool", "application", "enable", name, "rbd")
	t.Cleanup(func() { c.try("osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it") })
	Await(t, Patience, "Ceph reports the room in "+name, func() bool {
		out, err := c.try("df", "--format", "json")
		var df struct {
			Pools []struct {
				Name  string
				Stats struct {
					Free int64 `json:"max_avail"`
				}
			}
		}
		if err != nil || json.Unmarshal([]byte(out), &df) != nil {
			return false
		}
		for _, p := range df.Pools {
			if p.Name == name && p.Stats.Free > 0 {
				return true
			}
		}
		return false
	})
	return name
}

// Storage is section storage of a configuration with one pool, in that Ceph pool.
// libvirt keeps the key that the worker gives it: that goes with the cluster.
func (c *CephCluster) Storage(t T, pool string) string {
	t.Helper()
	t.Cleanup(func() { forgetSecret(c.Name) })
	return fmt.Sprintf("{pools: [{name: %s, type: ceph, ceph_pool: %s, conf: %q, user: %s, keyring: %q}]}", c.Name, pool, c.Conf,
		CephUser, c.Keyring)
}

// StopMon ends the monitor, also a frozen one; StartMon starts it again with what it knew.
func (c *CephCluster) StopMon(t T) {
	t.Helper()
	c.mon.Cmd.Process.Signal(syscall.SIGTERM)
	c.mon.Stop(syscall.SIGCONT)
}

// StartMon starts the monitor that StopMon ended, and waits until it answers.
func (c *CephCluster) StartMon(t T) {
	t.Helper()
	c.mon = c.daemon(t, "ceph-mon", "a")
	c.awaitMonitor(t)
	c.wake()
}

// Freeze stops all daemons in their tracks, as a cut network would; Thaw lets them go on.
func (c *CephCluster) Freeze(t T) {
	t.Helper()
	c.slept.Store(true)
	c.signal(t, syscall.SIGSTOP)
}

// Thaw undoes Freeze, but for what has ended since.
func (c *CephCluster) Thaw(t T) {
	t.Helper()
	c.signal(t, syscall.SIGCONT)
	if c.mon.Alive() { // without it nothing can be asked, and StartMon does the rest
		c.wake()
	}
}

// wake makes placement groups readable after a Freeze. An OSD that slept may never again let one
// be read ("laggy"). In a cluster of several, the others report it, the monitors mark it down, and it
// joins again. Here, wake marks it down.
func (c *CephCluster) wake() {
	for range 5 {
		if !c.slept.Load() || c.readable() {
			break
		}
		_, _ = c.try("osd", "down", "osd.0") // it comes back by itself
	}
	c.slept.Store(false)
}

// readable reports whether every placement group can be read. It waits for a few seconds.
func (c *CephCluster) readable() bool {
	pools, err := c.try("osd", "pool", "ls")
	for name := range strings.FieldsSeq(pools) {
		if err == nil {
			_, err = c.runFor(15*time.Second, "rados", "-p", name, "ls")
		}
	}
	return err == nil
}

func (c *CephCluster) signal(t T, sig syscall.Signal) {
	t.Helper()
	for _, p := range []*Process{c.mon, c.mgr, c.osd} {
		if err := p.Cmd.Process.Signal(sig); err != nil && p.Alive() {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
}

// RBD runs rbd(8) as the cluster's administrator and returns its output.
func (c *CephCluster) RBD(t T, args ...string) string {
	t.Helper()
	out, err := c.run("rbd", args...)
	if err != nil {
		t.Fatalf("rbd %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (c *CephCluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *CephCluster) write(t T, monitors string) {
	t.Helper()
	conf := fmt.Sprintf(`[global]
fsid = %[1]s
mon_host = %[2]s
mon_initial_members = a
public_addr = %[4]s
cluster_addr = %[4]s
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = %[3]s/admin.keyring
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_max_pg_per_osd = 10000
mon_data_avail_warn = 1
mon_data_avail_crit = 1
mgr_stats_period = 1
osd_objectstore = memstore
osd_snap_trim_sleep = 0
osd_max_markdown_count = 1000
memstore_device_bytes = 8589934592
run_dir = %[3]s
admin_socket = %[3]s/$name.$pid.asok
log_file = %[3]s/$name.log
pid_file =
crash_dir = %[3]s/crash
[mon]
mon_data = %[3]s/mon
keyring = %[3]s/mon/keyring
[mgr]
mgr_data = %[3]s/mgr
keyring = %[3]s/mgr/keyring
[osd]
osd_data = %[3]s/osd
keyring = %[3]s/osd/keyring
[client]
admin_socket =
log_file =
`, c.fsid, monitors, c.dir, c.addr)
	if err := os.WriteFile(c.Conf, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"mon", "mgr", "osd", "crash"} {
		if err := os.Mkdir(c.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *CephCluster) startMonitor(t T, monitors string) {
	t.Helper()
	key, admin, monmap := c.path("mon.keyring"), c.path("admin.keyring"), c.path("monmap")
	c.must(t, "ceph-authtool", key, "--create-keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
	c.must(t, "ceph-authtool", admin, "--create-keyring", "--gen-key", "-n", "client.admin",
		"--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *", "--cap", "mds", "allow *")
	c.must(t, "ceph-authtool", key, "--import-keyring", admin)
	c.must(t, "monmaptool", "--create", "--fsid", c.fsid, "--addv", "a", monitors, monmap)
	c.must(t, "ceph-mon", "-c", c.Conf, "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", key)
	c.mon = c.daemon(t, "ceph-mon", "a")
	c.awaitMonitor(t)
}

func (c *CephCluster) awaitMonitor(t T) {
	t.Helper()
	Await(t, Patience, "Ceph's monitor answers", func() bool {
		if !c.mon.Alive() {
			t.Fatalf("ceph-mon ended: %s", c.mon.Tail())
		}
		_, err := c.try("mon", "stat")
		return err == nil
	})
}

func (c *CephCluster) startManager(t T) {
	t.Helper()
	c.tool(t, "auth", "get-or-create", "mgr.x", "mon", "allow profile mgr", "osd", "allow *", "mds", "allow *", "-o", c.path("mgr/keyring"))
	c.mgr = c.daemon(t, "ceph-mgr", "x")
}

func (c *CephCluster) startOSD(t T) {
	t.Helper()
	id := uuid.NewString()
	c.tool(t, "osd", "new", id, "0")
	c.tool(t, "auth", "get-or-create", "osd.0", "mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *", "-o",
		c.path("osd/keyring"))
	c.must(t, "ceph-osd", "-c", c.Conf, "--mkfs", "-i", "0", "--osd-uuid", id)
	c.osd = c.daemon(t, "ceph-osd", "0")
}

// daemon starts one in the foreground, so that the process we started is the one we stop.
func (c *CephCluster) daemon(t T, name, id string) *Process {
	t.Helper()
	return Start(c.owner, c.path(name+".out"), name, "-f", "-c", c.Conf, "-i", id)
}

func (c *CephCluster) alive(t T) {
	t.Helper()
	for _, p := range []*Process{c.mon, c.mgr, c.osd} {
		if !p.Alive() {
			t.Fatalf("%s ended: %s", p.Name, p.Tail())
		}
	}
}

func (c *CephCluster) tool(t T, args ...string) {
	t.Helper()
	if _, err := c.try(args...); err != nil {
		t.Fatalf("ceph %s: %v", strings.Join(args, " "), err)
	}
}

// try runs ceph(8) as the cluster's administrator.
func (c *CephCluster) try(args ...string) (string, error) {
	return c.run("ceph", append([]string{"--connect-timeout", "20"}, args...)...)
}

func (c *CephCluster) run(name string, args ...string) (string, error) {
	return c.runFor(time.Minute, name, args...)
}

func (c *CephCluster) runFor(limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append([]string{"-c", c.Conf}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	// It ends with this program: without a monitor it would wait on. The kernel looks at the thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

func (c *CephCluster) must(t T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
