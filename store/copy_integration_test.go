//go:build integration

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

// everything inserts rows into every table.
func everything(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), NAT: true,
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	must(db.EnsureNode(ctx, "node"))
	must(db.NoteNode(ctx, "node", seedbed.NodeReport{CPUs: 4}, "", time.Now()))
	do(acceptImport(ctx, db, "debian"))(t)
	j := do(db.ClaimJob(ctx, "one", time.Hour))(t)
	must(db.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	must(db.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{Size: seedbed.GiB, Format: "qcow2"}}))
	must(db.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	do(db.CreateProfile(ctx,
		seedbed.Profile{Name: "web", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, Network: "default", UserData: []byte{}}))(t)
	if err := db.RecordDelivery(ctx, seedbed.Delivery{Hook: "ci", ID: "ignored", Decision: seedbed.DecisionIgnored}); err != nil {
		t.Fatal(err)
	}
	must(db.RecordRejections(ctx,
		[]seedbed.Rejection{{Hook: "ci", Reason: "no signature matches", Times: 1, First: time.Now(), Last: time.Now()}}))
	do(db.CreateHook(ctx, seedbed.Hook{Name: "ci", Keys: []seedbed.HookKey{{ID: "k1", Secret: bytes.Repeat([]byte{0, 200}, 20)}},
		Profiles: []string{"web"}, Actions: []string{"create"}}))(t)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "ci", URL: "https://ci.example/",
		Events: []string{"*"}, Keys: []seedbed.EndpointKey{{Key: bytes.Repeat([]byte{0, 200}, 16)}}}))(t)
	do(db.PublishImage(ctx, "debian", seedbed.Publication{All: true}))(t)
	for _, name := range []string{"acme", "former"} {
		do(db.CreateProject(ctx, seedbed.Project{Name: name, Description: "ö"}))(t)
	}
	must(db.DeleteProject(ctx, "former"))
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "lan0", MAC: seedbed.MAC{0x52, 0x54},
		Uplink: "br0"}))(t)
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "lab", Kind: seedbed.NetworkIsolated, Bridge: "lab0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.98.0.0/24"), Gateway: netip.MustParseAddr("10.98.0.1")}))(t)
	do(db.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error { return n.Peer([]string{"lab"}, nil) }))(t)
	for n := range 40 {
		id := seedbed.NewInstanceID()
		a := seedbed.Acceptance{
			Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
			Instance: &seedbed.Instance{ID: id, Project: []string{seedbed.DefaultProject, "acme"}[n/20], Name: fmt.Sprintf("web%d", n%20),
				Image: "debian", Node: "node", VCPUs: 1, Memory: seedbed.GiB,
				UserData: []byte("ünï\x00cödé"), SSHKeys: []string{"k€y"},
				NICs:    []seedbed.NIC{{MAC: seedbed.NewMAC(), Network: "default"}},
				Volumes: []seedbed.Volume{{Name: string(id) + "-0", Pool: "default", Size: seedbed.GiB, Image: "debian"}}},
			Delivery: &seedbed.Delivery{Hook: "ci", ID: fmt.Sprintf("msg_%d", n), SHA256: [32]byte{byte(n)}},
		}
		if n%4 == 2 {
			a.Script = &seedbed.ScriptRun{Script: seedbed.Script{Name: "install", Text: "print('é')\n"}}
		}
		do(db.Accept(ctx, a))(t)
		j := do(db.ClaimJob(ctx, "one", time.Hour))(t)
		must(db.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
		must(db.LogOutput(ctx, j.Ref(), "volumes", []seedbed.OutputLine{{Stream: "stdout", Text: "höt"}}))
		if a.Script != nil {
			must(db.SetScriptDomain(ctx, j.Ref(), "<domain/>"))
		}
		i := do(db.Instance(ctx, id))(t)
		do(db.Publish(ctx, j.Ref(), "node", seedbed.Guest{ID: id, Name: i.Name, NICs: []seedbed.GuestNIC{{Network: "lan"}}},
			seedbed.Documents{UserData: i.UserData}))(t)
		must(db.AddGuestEvents(ctx, "node", "spool", []seedbed.GuestEvent{
			{Seq: int64(n), Instance: id, Kind: seedbed.GuestLease, MAC: i.NICs[0].MAC, Addr: i.NICs[0].Addr,
				At: time.Now(), Until: time.Now().Add(time.Hour)}}))
		switch n % 4 {
		case 0:
			must(db.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
		case 1:
			must(db.Undo(ctx, j.Ref(), "no room"))
			must(db.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
		case 3:
			must(db.Undo(ctx, j.Ref(), "no room"))
			must(db.Undone(ctx, j.Ref(), "volumes", "the pööl is away"))
		}
	}
	must(db.NoteStrays(ctx, []string{"node"},
		[]seedbed.Orphan{{Kind: seedbed.OrphanDomain, Node: "node", Name: "löst", Instance: seedbed.NewInstanceID()}}))
	web := do(db.InstanceByName(ctx, seedbed.InDefault("web0")))(t)
	do(db.Accept(ctx, seedbed.Acceptance{Rebuild: &web,
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRebuild, Instance: web.ID, Spec: []byte(`{}`)}}))(t)
	kept := do(db.InstanceByName(ctx, seedbed.InDefault("web4")))(t)
	do(db.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobSnapshot, Instance: kept.ID, Spec: []byte(`{"name":"before"}`)}}))(t)
	do(db.Accept(ctx, seedbed.Acceptance{
		Volume: &seedbed.ProjectVolume{ID: seedbed.NewVolumeID(), Name: "data", Pool: "default", Size: seedbed.GiB},
		Job:    seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeAdd, Node: "node"}}))(t)
	lent := seedbed.AddrRange{First: netip.MustParseAddr("203.0.113.16"), Last: netip.MustParseAddr("203.0.113.17")}
	do(db.ChangeNetwork(ctx, "default", func(n *seedbed.Network) error {
		n.Floating, n.FloatingUplink = []seedbed.AddrRange{lent}, "ext0"
		n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
		return nil
	}))(t)
	do(db.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "default", Project: seedbed.DefaultProject, Description: "ö"}))(t)
	do(db.ChangeInstance(ctx, seedbed.InDefault("web4"), func(i *seedbed.Instance) error {
		i.NICs[0].Secondary, i.NICs[0].BandwidthOut = seedbed.FreeAddrs(2, 1), 100_000_000
		return nil
	}, func(_ seedbed.Instance, g seedbed.Guest) seedbed.Guest { return g }))(t)
	do(db.AddMaintenance(ctx, "node", "", seedbed.Maintenance{Code: "system-reboot", NotBefore: time.Now()}))(t)
	do(db.CronSlot(ctx, "mappings", time.Now()))(t)
	do(db.CreateRole(asked(ctx), seedbed.CustomRole{Name: "looker", Actions: []string{"job.*"}}))(t)
	do(db.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: "web", Policy: seedbed.AntiAffinity}))(t)
	do(db.CreateBackupTarget(ctx, seedbed.BackupTarget{Name: "nas", BackupSettings: seedbed.BackupSettings{Path: "/srv/backup"}}))(t)
	do(db.CreateSchedule(ctx, seedbed.Schedule{Kind: seedbed.ScheduleBackup, Name: "nightly", Target: "nas", Cron: "0 3 * * *",
		ScheduleSettings: seedbed.ScheduleSettings{Tag: "backup"}}))(t)
	do(db.sql.Write.Exec(`INSERT INTO backup_owner (instance, project, removed) VALUES ('i', 'default', 7)`))(t)
	do(db.CreateToken(asked(ctx), seedbed.Token{Name: "ci", Role: "looker"}, [32]byte{0, 200}))(t)
	request, _, err := db.BeginRequest(ctx, seedbed.KeyedRequest{ID: [32]byte{1, 200}, Digest: [32]byte{2}}, time.Minute)
	must(err)
	must(db.EndRequest(ctx, request, []byte{0, 200}, false))
	anna := seedbed.Person{Issuer: "https://login.example", Subject: "ö", Name: "anna", Groups: []string{"ops"}}
	do(db.BeginSession(ctx, anna, time.Now().Add(time.Hour), "192.0.2.1", [32]byte{2, 200}))(t)
	must(db.KeepSignIn(ctx, [32]byte{3, 200}, []byte{0, 200}, time.Now().Add(time.Hour)))
	must(db.RecordDelivery(ctx, seedbed.Delivery{Hook: "ci", ID: "msg_done", Decision: seedbed.DecisionDone, Detail: "network-set lab"}))
	must(db.RecordDelivery(ctx, seedbed.Delivery{Hook: "ci", ID: "msg_other", Decision: seedbed.DecisionIgnored, Payload: []byte("{}")}))
	do(db.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: "small", VCPUs: 1, Memory: seedbed.GiB, NodeLimit: []string{"node"}}))(t)
	do(db.CreateNetworkTemplate(ctx, "lan", ""))(t)
	do(db.ChangeNetworkTemplate(ctx, "lan", func(t *seedbed.NetworkTemplate) error { return t.AddNetwork("default", false) }))(t)
	do(db.CreateStorageTemplate(ctx, "root"))(t)
	do(db.ChangeStorageTemplate(ctx, "root", func(t *seedbed.StorageTemplate) error {
		return errors.Join(t.AddDisk(seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "debian"}), t.AddDisk(
			seedbed.TemplateDisk{Name: "sdb", Pool: "default", Size: seedbed.GiB, Filesystem: "ext4", FilesystemArgs: []string{"-L=ö"}}))
	}))(t)
	do(db.CreateScript(ctx, "ova", "def install(**kwargs): pass\n"))(t)
	do(db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{
		ID: seedbed.NewJobID(), Kind: seedbed.JobOVA, Subject: "vm", Node: "node",
	}, OVA: &seedbed.NewOVA{
		OVA: seedbed.OVA{Name: "vm", Volumes: []seedbed.OVAVolume{
			{Disk: "sda", Pool: "default", Image: seedbed.OVAImage("vm", "sda"), File: "a.vmdk", Format: "vmdk", Size: seedbed.GiB},
		}},
		System:  seedbed.SystemTemplate{Name: "vm", VCPUs: 2, Memory: seedbed.GiB, OVA: "vm"},
		Profile: seedbed.Profile{Name: "vm", System: "vm", Script: "ova", OVA: "vm"},
		Images:  []seedbed.Image{{Name: seedbed.OVAImage("vm", "sda"), Pool: "default", Source: "ova:vm"}}}}))(t)
	do(db.PlaceEvents(ctx))(t)
	do(db.CreateUserData(ctx, "cloud", "#cloud-config\n"))(t)
	do(db.CreateProfile(ctx, seedbed.Profile{Name: "composed", System: "small", NetworkTemplate: "lan",
		Storage: "root", Script: seedbed.Empty, Arguments: []string{"a=b"}}))(t)
}

func asked(ctx context.Context) context.Context {
	return seedbed.WithChange(ctx,
		&seedbed.Change{Actor: "uid 0", Role: seedbed.RoleAdmin, Request: "POST /api/v1/tokens", Before: []byte(`"ö"`)})
}

// dump returns every row of a table as text, sorted.
func dump(t *testing.T, db *DB, table string, columns []string) []string {
	t.Helper()
	rows := do(db.sql.Read.QueryContext(t.Context(), `SELECT `+strings.Join(columns, ", ")+` FROM `+table))(t)
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		values, at := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q", values))
	}
	slices.Sort(all)
	return all
}

func TestCopy(t *testing.T) {
	s := postgresServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	everything(t, db)
	name := s.Database(t, s.template)
	from := Config{Path: path, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if _, err := Copy(ctx, from, s.config(name)); !errors.Is(err, seedbed.ErrInUse) {
		t.Fatalf("a database in use was copied: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(ctx, from, s.config(s.Database(t, ""))); !errors.Is(err, seedbed.ErrVersion) ||
		!strings.Contains(err.Error(), "seedbedd migrate") {
		t.Errorf("copied into a database without tables: %v", err)
	}
	done := do(Copy(ctx, from, s.config(name)))(t)
	if len(done) != len(tables) {
		t.Errorf("copied %v", done)
	}
	if _, err := Copy(ctx, from, s.config(name)); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("copied twice: %v", err)
	}

	db = open(t, path)
	copied := s.use(t, name)
	there := do(names(
		ctx, db,
		`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('version', 'goose_db_version', 'sqlite_sequence') ORDER BY name`,
	))(t)
	if d := cmp.Diff(slices.Sorted(slices.Values(tables)), there); d != "" {
		t.Errorf("the tables that are copied are not all:\n%s", d)
	}
	for n, table := range tables {
		columns := do(names(ctx, db, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, table))(t)
		theirs := do(names(ctx, copied,
			`SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND table_schema = current_schema() ORDER BY ordinal_position`,
			table))(t)
		if d := cmp.Diff(columns, theirs); d != "" {
			t.Errorf("columns of %s:\n%s", table, d)
		}
		want := dump(t, db, table, columns)
		if d := cmp.Diff(want, dump(t, copied, table, columns)); d != "" {
			t.Errorf("%s:\n%s", table, d)
		}
		if len(want) == 0 || int64(len(want)) != done[n].Rows {
			t.Errorf("%s has %d rows, and %d were copied", table, len(want), done[n].Rows)
		}
	}

	// Work continues: followers resume, numbers continue, and jobs can be claimed.
	before, after := do(db.FeedPage(ctx, "node", 0, ""))(t), do(copied.FeedPage(ctx, "node", 0, ""))(t)
	if d := cmp.Diff(before, after, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Errorf("the feed is another:\n%s", d)
	}
	if j := do(copied.ClaimJob(ctx, "two", time.Hour))(t); j == nil || j.Epoch != 2 {
		t.Errorf("claimed %+v", j)
	}
	var last, given int64
	if err := db.sql.Read.QueryRow(`SELECT seq FROM sqlite_sequence WHERE name = 'nic'`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	if err := copied.sql.Write.QueryRow(`SELECT nextval(pg_get_serial_sequence('nic', 'id'))`).Scan(&given); err != nil || given != last+1 {
		t.Errorf("NIC %d comes after %d (%v)", given, last, err)
	}
}

// names reads a column without a method of DB.
func names(ctx context.Context, db *DB, query string, args ...any) (all []string, err error) {
	err = db.sql.View(ctx, "read", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, sqldb.Value[string], query, args...)
		return err
	})
	return all, err
}
