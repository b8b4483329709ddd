//go:build integration && libvirt

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// engines is a stack on Ceph, PostgreSQL and ZooKeeper with two control hosts,
// whose cleanup has a slot each second.
type engines struct {
	*lab.Stack
	ceph   *lab.CephCluster
	pg     *lab.PostgresServer
	zoo    *lab.Zoo
	second *lab.Process
	forge  sender
	cpool  string // in Ceph
	dsn    string
}

// zooSession is the stack's session timeout.
const zooSession = 2 * time.Second

func newEngines(t *testing.T) *engines {
	t.Helper()
	lab.Libvirt(t)
	e := &engines{ceph: lab.Ceph(t), pg: lab.Postgres(t), zoo: lab.ZooKeeper(t)}
	e.cpool = e.ceph.Pool(t, "vms")
	database := e.pg.Database(t, "")
	e.dsn = e.pg.DSN(database)
	e.Stack = lab.NewStack(t, lab.StackOptions{
		Store: e.pg.Store(database), Storage: e.ceph.Storage(t, e.cpool), Coordination: e.zoo.Coordination(zooSession),
		Cleanup: `{mappings: {schedule: "@every 1s"}}`, Jobs: "{lease: 3s, poll: 50ms}", // which lasts on a busy computer
	})
	e.second = e.AddControl()
	addImage(t, e.Stack, "blank", lab.BlankImage(t, e.Dir))
	addProfile(t, e.Stack, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	e.forge = newSender(t, e.Stack, wire.HookRequest{Name: "forge", Profiles: []string{"small"}})
	return e
}

// TestEngines runs the whole stack on Ceph, PostgreSQL and ZooKeeper, and takes
// each of them away in turn; then it kills daemons.
func TestEngines(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	e := newEngines(t)
	t.Run("well", e.well)
	t.Run("monitor", e.monitorStops)
	t.Run("control", e.controlFreezes)
	t.Run("postgres", e.postgresStops)
	t.Run("zookeeper", e.zooKeeperStops)
	t.Run("killed", e.killed)
	t.Run("guest", func(t *testing.T) { e.guest(t, image) })
}

// doctor runs seedbed doctor and gives its checks of the engines by name.
func (e *engines) doctor(t *testing.T) map[string]seedbed.Check {
	t.Helper()
	out, stderr, _ := e.CLI("doctor", "--daemon-config", e.Config, "-f", "json")
	var all []seedbed.Check
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("doctor: %v\n%s%s", err, out, stderr)
	}
	named := map[string]seedbed.Check{}
	for _, c := range all {
		named[strings.TrimSuffix(c.Name, " "+e.ceph.Name)] = c
	}
	for _, name := range []string{"database", "pool", "coordination"} {
		if _, there := named[name]; !there {
			t.Fatalf("doctor has no check %q: %s", name, out)
		}
	}
	return named
}

// ill checks that the doctor finds fault with one engine alone, and says what to do.
func (e *engines) ill(t *testing.T, name, fix string) {
	t.Helper()
	e.finds(t, func(checks map[string]seedbed.Check) error {
		for _, n := range []string{"database", "pool", "coordination"} {
			switch c := checks[n]; {
			case n != name && !c.OK:
				return fmt.Errorf("%s is well: %+v", n, c)
			case n == name && (c.OK || !strings.Contains(c.Hint, fix)):
				return fmt.Errorf("%s is down: %+v; expected a hint with %q", n, c, fix)
			}
		}
		return nil
	})
}

// finds waits until the doctor's checks are as they should be: on a busy computer a session with
// ZooKeeper may have ended for a moment.
func (e *engines) finds(t *testing.T, judge func(map[string]seedbed.Check) error) {
	t.Helper()
	var last error
	defer func() {
		if last != nil {
			t.Error(last)
		}
	}()
	lab.Await(t, lab.Patience, "the doctor finds what is so", func() bool {
		last = judge(e.doctor(t))
		return last == nil
	})
}

// well: the doctor sees all three.
func (e *engines) well(t *testing.T) {
	t.Helper()
	e.finds(t, func(checks map[string]seedbed.Check) error {
		for name, says := range map[string][]string{
			"database":     {"PostgreSQL 1", "schema"},
			"pool":         {"free", "Ceph pool " + e.cpool},
			"coordination": {"ZooKeeper at " + e.zoo.Addr, "lab ("},
		} {
			c := checks[name]
			for _, word := range says {
				if !c.OK || c.Hint != "" || !strings.Contains(c.Detail, word) {
					return fmt.Errorf("%s: %+v; expected %q", name, c, word)
				}
			}
		}
		return nil
	})
}

// guest: a webhook boots a real guest from an RBD clone, and its rows are in PostgreSQL.
func (e *engines) guest(t *testing.T, image string) {
	addImage(t, e.Stack, "guest", image)
	addProfile(t, e.Stack, seedbed.Profile{
		Name: "web", Image: "guest", VCPUs: 2, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB, Ready: seedbed.ReadyReport,
	})
	e.forge = newSender(t, e.Stack, wire.HookRequest{Name: "mill", Profiles: []string{"web"}})
	a := e.create(t, "guest2", "web")
	if job := waitJob(t, e.Stack, a.Job); job.State != seedbed.JobSucceeded {
		console, _ := e.API.Console(t.Context(), "guest2", 8*seedbed.KiB)
		t.Fatalf("job %s: %s\n%s", job.State, job.Error, console)
	}
	vm, err := e.API.Instance(t.Context(), "guest2")
	if err != nil || vm.State != seedbed.InstanceRunning || vm.Reported.IsZero() {
		t.Fatalf("instance: %+v, %v", vm, err)
	}
	if doc := e.Virsh("dumpxml", "guest2"); !strings.Contains(doc, "<source protocol='rbd' name='"+e.cpool+"/") ||
		strings.Contains(doc, "type='file' device='disk'") {
		t.Errorf("the disk is not on RBD:\n%s", doc)
	}
	volume := e.volumes(t)
	if len(volume) != 1 || !strings.Contains(volume[0], vm.Volumes[0].Name) {
		t.Errorf("RBD images of volumes: %v, want one of %s", volume, vm.Volumes[0].Name)
	} else if info := e.ceph.RBD(t, "info", e.cpool+"/"+volume[0]); !strings.Contains(info, "parent: "+e.cpool+"/") {
		t.Errorf("the volume is no clone:\n%s", info)
	}
	conn, err := pgx.Connect(t.Context(), e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var instance, state, delivery string
	err = conn.QueryRow(t.Context(),
		`SELECT i.id, j.state, d.id FROM instance i JOIN job j ON j.instance = i.id JOIN delivery d ON d.job = j.id
		WHERE i.name = 'guest2'`).Scan(&instance, &state, &delivery)
	if err != nil || instance != string(vm.ID) || state != string(seedbed.JobSucceeded) || delivery != "evt_guest2" {
		t.Errorf("PostgreSQL has instance %s, a job that %s, delivery %s: %v", instance, state, delivery, err)
	}
	for _, path := range []string{"seedbed.db", "pools", "second/seedbed.db"} {
		if _, err := os.Stat(filepath.Join(e.Dir, path)); !os.IsNotExist(err) {
			t.Errorf("there is %s too: %v", path, err)
		}
	}
	e.remove(t, "guest2")
}

// create sends a webhook that asks for an instance, and sends it again: it is the same job.
func (e *engines) create(t *testing.T, name, profile string) answer {
	t.Helper()
	body := `{"action":"create","name":"` + name + `","profile":"` + profile + `"}`
	a := e.forge.post(t, "evt_"+name, time.Now(), body)
	if a.Status != 202 || a.Job == "" {
		t.Fatalf("%s: answer %+v", name, a)
	}
	if again := e.forge.post(t, "evt_"+name, time.Now(), body); again.Job != a.Job || !again.Duplicate {
		t.Errorf("%s again: %+v, want job %s", name, again, a.Job)
	}
	return a
}

// up waits for the jobs of the instances, and checks that there is one of everything for each.
func (e *engines) up(t *testing.T, jobs map[string]string) {
	t.Helper()
	for name, id := range jobs {
		if job := waitJob(t, e.Stack, id); job.State != seedbed.JobSucceeded {
			t.Fatalf("%s: %s: %s\n%s", name, job.State, job.Error, e.Logs())
		}
	}
	domains := e.Domains()
	for name := range jobs {
		vm, err := e.API.Instance(t.Context(), name)
		if err != nil || vm.State != seedbed.InstanceRunning {
			t.Errorf("%s: %s, %v", name, vm.State, err)
		}
		if n := len(slices.DeleteFunc(slices.Clone(domains), func(d string) bool { return d != name })); n != 1 {
			t.Errorf("%s has %d domains", name, n)
		}
	}
	if v := e.volumes(t); len(v) != len(jobs) {
		t.Errorf("RBD images of volumes: %v, want %d", v, len(jobs))
	}
	list, err := e.API.Jobs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range list {
		if id, ours := jobs[j.Subject]; ours && id != string(j.ID) {
			t.Errorf("%s has another job: %s", j.Subject, j.ID)
		}
	}
}

// remove removes the instances, after which nothing of any is anywhere.
func (e *engines) remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		removeInstance(t, e.Stack, name)
	}
	lab.Await(t, lab.Patience, "no volume is left in Ceph", func() bool {
		return len(e.volumes(t)) == 0 && strings.TrimSpace(e.ceph.RBD(t, "trash", "ls", e.cpool)) == ""
	})
	for _, name := range e.Domains() {
		if slices.Contains(names, name) {
			t.Errorf("domain %s is left", name)
		}
	}
	if vms, err := e.API.Instances(t.Context()); err != nil || len(vms) != 0 {
		t.Errorf("instances are left: %v, %v", vms, err)
	}
	if ports := bridgePorts(e.Stack); len(ports) != 0 {
		t.Errorf("taps are left on the bridge: %v", ports)
	}
	if got := elements(e.Stack); tapName.MatchString(got) {
		t.Errorf("filter elements are left:\n%s", got)
	}
}

// volumes are the RBD images in the pool that are no images of ours: volumes,
// and what is half made.
func (e *engines) volumes(t *testing.T) []string {
	t.Helper()
	all := strings.Fields(e.ceph.RBD(t, "ls", e.cpool))
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "seedbed-image.") })
}
