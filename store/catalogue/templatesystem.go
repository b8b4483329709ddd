package catalogue

import (
	"cmp"
	"context"
	"database/sql"
	"net/netip"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// systemColumns are the columns whose values systemValues returns.
const systemColumns = `name, vcpus, memory, serial, vnc, vnc_bind, node_limit, node_selector, node_autostart, ` +
	`migration_method, migration_downtime, disk_bus, disk_copy, revision, created, changed`

const intoSystem = `system_template (` + systemColumns + `)`

// systemRead lists the columns to read of a system template, including the OVA image that it came
// with.
const systemRead = `id, ` + systemColumns + `, ova, (SELECT ova.id FROM ova WHERE ova.name = system_template.ova)`

func scanSystem(r sqldb.Row) (t seedbed.SystemTemplate, err error) {
	var downtime int64
	var ova sql.NullString
	var ovaID sql.NullInt64
	err = r.Scan(&t.ID, &t.Name, &t.VCPUs, &t.Memory, &t.Serial, &t.VNC, &t.VNCBind, sqldb.ToJSON(&t.NodeLimit), &t.NodeSelector,
		&t.NodeAutostart, &t.MigrationMethod, &downtime, &t.DiskBus, &t.DiskCopy, &t.Revision,
		sqldb.ToTime(&t.Created), sqldb.ToTime(&t.Changed), &ova, &ovaID)
	t.OVA, t.OVAID = ova.String, ovaID.Int64
	t.MigrationDowntime = time.Duration(downtime) * time.Microsecond
	return t, err
}

func systemValues(t seedbed.SystemTemplate) []any {
	return []any{t.Name, t.VCPUs, t.Memory, sqldb.Flag(t.Serial), sqldb.Flag(t.VNC), t.VNCBind,
		sqldb.AsJSON(sqldb.OrEmpty(t.NodeLimit)), t.NodeSelector,
		sqldb.Flag(t.NodeAutostart), t.MigrationMethod, t.MigrationDowntime.Microseconds(), t.DiskBus, sqldb.Flag(t.DiskCopy),
		t.Revision, sqldb.Micros(t.Created), sqldb.Micros(t.Changed)}
}

// The values that fields of a system template accept.
var (
	nodeSelectors    = []string{"", "mem", "memprov", "vcpus", "vms", "load"}
	migrationMethods = []string{"", "none", "live", "shutdown"}
	diskBuses        = []string{"", seedbed.BusVirtio, seedbed.BusSCSI}
)

const (
	maxNodes    = 64
	maxDowntime = 24 * time.Hour
)

func checkSystem(t seedbed.SystemTemplate) error {
	err := cmp.Or(seedbed.CheckQualifiedName(kindSystem.Noun(), t.Name), seedbed.CheckVCPUs(t.VCPUs), seedbed.CheckMemory(t.Memory))
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddr(t.VNCBind); t.VNCBind != "" && err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "vnc_bind %q is not an IP address", sqldb.Clean(t.VNCBind, 80))
	}
	if len(t.NodeLimit) > maxNodes {
		return seedbed.Errorf(seedbed.ErrInvalid, "node_limit names %d nodes: expected at most %d", len(t.NodeLimit), maxNodes)
	}
	for _, n := range t.NodeLimit {
		if err := seedbed.CheckName("node", n); err != nil {
			return err
		}
	}
	switch {
	case !slices.Contains(nodeSelectors, t.NodeSelector):
		return seedbed.Errorf(seedbed.ErrInvalid, "node_selector %q is unknown: expected none%s",
			sqldb.Clean(t.NodeSelector, 80), strings.Join(nodeSelectors, ", "))
	case !slices.Contains(migrationMethods, t.MigrationMethod):
		return seedbed.Errorf(seedbed.ErrInvalid, "migration_method %q is unknown: expected none, live or shutdown",
			sqldb.Clean(t.MigrationMethod, 80))
	case !slices.Contains(diskBuses, t.DiskBus):
		return seedbed.Errorf(seedbed.ErrInvalid, "disk_bus %q is unknown: expected virtio or scsi", sqldb.Clean(t.DiskBus, 80))
	case t.MigrationDowntime < 0 || t.MigrationDowntime > maxDowntime:
		return seedbed.Errorf(seedbed.ErrInvalid, "migration_max_downtime is %s: expected 0 to %d milliseconds",
			t.MigrationDowntime, maxDowntime.Milliseconds())
	}
	return nil
}

// CreateSystemTemplate adds a system template and returns it as stored.
func (s *Store) CreateSystemTemplate(ctx context.Context, t seedbed.SystemTemplate) (seedbed.SystemTemplate, error) {
	if err := checkSystem(t); err != nil {
		return seedbed.SystemTemplate{}, err
	}
	t.NodeLimit, t.ObjectMeta = sqldb.OrEmpty(t.NodeLimit), newStored()
	id, err := s.createObject(ctx, kindSystem, intoSystem, t.Name, systemValues(t)...)
	if err != nil {
		return seedbed.SystemTemplate{}, err
	}
	t.ID = id
	return t, nil
}

// SystemTemplates returns the system templates whose names match, sorted by name.
func (s *Store) SystemTemplates(ctx context.Context, m seedbed.NameMatch) (all []seedbed.SystemTemplate, err error) {
	err = s.db.View(ctx, "list system templates", func(tx *sqldb.Tx) error {
		all, err = objects(ctx, tx, kindSystem, scanSystem, func(t seedbed.SystemTemplate) string { return t.Name }, m,
			`SELECT `+systemRead+` FROM system_template WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

// ChangeSystemTemplate changes a system template by calling change, possibly more than once. change
// may set anything except the name and the OVA image. Instances that were made from the template do
// not change. ChangeSystemTemplate returns ErrNotFound, ErrInvalid or the error of change.
func (s *Store) ChangeSystemTemplate(
	ctx context.Context, name string, change func(*seedbed.SystemTemplate) error,
) (t seedbed.SystemTemplate, err error) {
	err = s.locked(ctx, "change", kindSystem, name, func(tx *sqldb.Tx) error {
		was, err := readSystem(ctx, tx, name)
		if err != nil {
			return err
		}
		t = was
		if err := change(&t); err != nil {
			return err
		}
		t.Name, t.OVA, t.OVAID, t.ObjectMeta = was.Name, was.OVA, was.OVAID, changed(was.ObjectMeta)
		if err := checkSystem(t); err != nil {
			return err
		}
		return update(ctx, tx, "system_template", systemColumns, t.ID, systemValues(t))
	})
	return t, err
}

// readSystem reads the system template of that name.
func readSystem(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.SystemTemplate, error) {
	return object(ctx, tx, kindSystem, scanSystem, name, `SELECT `+systemRead+` FROM system_template WHERE name = $1`)
}

// PublishSystemTemplate says to which other projects a system template is published; see [Store.PublishProfile].
func (s *Store) PublishSystemTemplate(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.SystemTemplate) error,
) (seedbed.SystemTemplate, error) {
	return publish(ctx, s, kindSystem, name, to, readSystem, checks)
}

// DeleteSystemTemplate removes a system template. If profiles use it, it returns an ErrInUse that
// names them. If the template does not pass a check, it returns the error of that.
func (s *Store) DeleteSystemTemplate(ctx context.Context, name string, checks ...func(seedbed.SystemTemplate) error) error {
	return deleteObject(ctx, s, kindSystem, "system", name, readSystem, checks)
}
