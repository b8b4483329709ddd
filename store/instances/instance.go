package instances

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// newInstanceColumns, nicColumns and volumeColumns are the columns of a new row. instanceColumns has
// those that are set later, too.
const (
	newInstanceColumns = `id, project, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, ` +
		`report_token, vendor_data, datasource, metadata, tags, spot, password, protected, follow, source, params, ` +
		`system, token, expires, at_expiry, notes, cdrom, pending, placement_group, revision, created, changed`
	instanceColumns = newInstanceColumns + `, fetched, reported, host_key, gone_since, target, home, ` +
		`(SELECT number FROM project WHERE project.name = instance.project)`
	nicColumns    = `instance, idx, mac, network, addr, security_groups, bandwidth_in, bandwidth_out, state, added`
	volumeColumns = `instance, name, pool, idx, size, image`
)

// FullName is the full name of an instance in a query, as seedbed.InstanceName.String has it.
const FullName = `CASE instance.project WHEN '` + seedbed.DefaultProject +
	`' THEN instance.name ELSE instance.name || '.' || instance.project END`

func scanInstance(r sqldb.Row) (i seedbed.Instance, err error) {
	var expiry seedbed.Expiry
	var cdrom, group sql.NullString
	err = r.Scan(&i.ID, &i.Project, &i.Name, &i.Profile, &i.Image, &i.Node, &i.State, &i.VCPUs, &i.Memory,
		&i.Ready, &i.Held, sqldb.ToBlob(&i.UserData), sqldb.ToJSON(&i.SSHKeys),
		&i.ReportToken, sqldb.ToBlob(&i.VendorData), &i.Datasource, sqldb.ToJSON(&i.Metadata),
		sqldb.ToJSON(&i.Tags), sqldb.ToJSON(&i.Spot), &i.Password,
		&i.Protected, &i.Follow, &i.Source, sqldb.ToParams(&i.Params), sqldb.ToJSON(&i.System), &i.Token,
		sqldb.ToTime(&expiry.Time), &expiry.Action, &i.Notes, &cdrom, sqldb.ToJSON(&i.Pending), &group, &i.Revision,
		sqldb.ToTime(&i.Created), sqldb.ToTime(&i.Changed), sqldb.ToTime(&i.Fetched), sqldb.ToTime(&i.Reported), &i.HostKey,
		sqldb.ToTime(&i.GoneSince), &i.Target, &i.Home, &i.Account)
	i.NICs, i.Volumes, i.CDROM, i.PlacementGroup = []seedbed.NIC{}, []seedbed.Volume{}, cdrom.String, group.String
	if len(i.Pending) == 0 {
		i.Pending = nil
	}
	if !expiry.Time.IsZero() {
		i.Expiry = &expiry
	}
	return i, err
}

// Read returns the instances that satisfy cond sorted by project and name, with their NICs and volumes.
func Read(ctx context.Context, tx *sqldb.Tx, cond string, args ...any) ([]seedbed.Instance, error) {
	all, err := sqldb.List(ctx, tx, scanInstance, `SELECT `+instanceColumns+` FROM instance WHERE `+cond+` ORDER BY project, name`, args...)
	if err != nil || len(all) == 0 {
		return all, err
	}
	at := make(map[seedbed.InstanceID]*seedbed.Instance, len(all))
	for n := range all {
		at[all[n].ID] = &all[n]
	}
	ofThem := ` WHERE instance IN (SELECT id FROM instance WHERE ` + cond + `) ORDER BY instance, idx`
	_, err = sqldb.List(ctx, tx, func(r sqldb.Row) (n seedbed.NIC, err error) {
		var id seedbed.InstanceID
		var secondary string
		if err = r.Scan(&id, &n.Index, sqldb.ToText(&n.MAC), &n.Network, sqldb.ToText(&n.Addr), &n.ID, sqldb.ToJSON(&n.Groups),
			sqldb.ToJSON(&n.Forwards), sqldb.ToText(&n.Floating), sqldb.ToText(&n.Floating6), &secondary, &n.BandwidthIn,
			&n.BandwidthOut, &n.State, &n.Added); err == nil {
			if len(n.Groups) == 0 {
				n.Groups = nil
			}
			if len(n.Forwards) == 0 {
				n.Forwards = nil
			}
			if n.Secondary, err = parseSecondary(secondary); err == nil {
				at[id].NICs = append(at[id].NICs, n)
			}
		}
		return n, err
	}, `SELECT instance, idx, mac, network, COALESCE(addr, ''), id, security_groups, forwards,
		COALESCE(floating, ''), COALESCE(floating6, ''), `+secondaryOfNIC+`, bandwidth_in, bandwidth_out, state, added
		FROM nic`+ofThem, args...)
	if err != nil {
		return nil, err
	}
	_, err = sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.Volume, err error) {
		var id seedbed.InstanceID
		var image sql.NullString
		if err = r.Scan(&id, &v.Name, &v.Pool, &v.Index, &v.Size, &image); err == nil {
			v.Image = image.String
			at[id].Volumes = append(at[id].Volumes, v)
		}
		return v, err
	}, `SELECT `+volumeColumns+` FROM volume`+ofThem, args...)
	if err != nil {
		return nil, err
	}
	return all, readAttached(ctx, tx, at, ofThem, args)
}

func (s *Store) instance(ctx context.Context, missing error, cond string, args ...any) (i seedbed.Instance, err error) {
	err = s.db.View(ctx, "read instance", func(tx *sqldb.Tx) error {
		all, err := Read(ctx, tx, cond, args...)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return missing
		}
		i = all[0]
		return nil
	})
	return i, err
}

// Instance returns the instance with that ID, with its NICs and volumes.
func (s *Store) Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error) {
	return s.instance(ctx, seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", sqldb.Clean(string(id), 80)), `id = $1`, id)
}

// InstanceByName returns the instance of that name, with its NICs and volumes.
func (s *Store) InstanceByName(ctx context.Context, n seedbed.InstanceName) (seedbed.Instance, error) {
	return s.instance(ctx, seedbed.Errorf(seedbed.ErrNotFound, "instance %q does not exist", sqldb.Clean(n.Name, 80)),
		`project = $1 AND name = $2`, n.Project, n.Name)
}

// Instances returns all instances sorted by project and name.
func (s *Store) Instances(ctx context.Context) (all []seedbed.Instance, err error) {
	err = s.db.View(ctx, "list instances", func(tx *sqldb.Tx) error {
		all, err = Read(ctx, tx, `1 = 1`)
		return err
	})
	return all, err
}

// SetInstanceState changes the state of an instance that was read as seen, and reports whether it
// did. It does not if the instance has changed since, no longer exists or has a job that has not
// ended, whichever engine owns that job.
func (s *Store) SetInstanceState(ctx context.Context, seen seedbed.Instance, to seedbed.InstanceState) (changed bool, err error) {
	err = s.db.Update(ctx, "set instance state", func(tx *sqldb.Tx) error {
		// Lock the row first, so that a job that is accepted at the same time is seen.
		changed = false
		n, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1 AND revision = $2`, seen.ID, seen.Revision)
		if err == nil && n == 1 {
			n, err = sqldb.Affect(ctx, tx, `UPDATE instance SET state = $1, pending = CASE WHEN $1 = 'stopped' THEN '[]' ELSE pending END,
				revision = revision + 1, changed = $2
				WHERE id = $3 AND NOT EXISTS (SELECT 1 FROM job WHERE job.instance = instance.id AND job.state IN ('queued', 'running', 'undoing'))`,
				to, sqldb.Micros(sqldb.Now()), seen.ID)
		}
		changed = n == 1
		if err == nil && n == 0 {
			return sqldb.ErrUnchanged
		}
		return err
	})
	return changed && err == nil, err
}

// SetState changes the state. It returns missing if the instance does not exist.
func SetState(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, to seedbed.InstanceState, missing error) error {
	// Starting an instance clears held. One that is stopped has nothing pending: it gets everything at its next start.
	n, err := sqldb.Affect(ctx, tx,
		`UPDATE instance SET state = $1, held = CASE WHEN $1 = 'running' THEN 0 ELSE held END,
			pending = CASE WHEN $1 = 'stopped' THEN '[]' ELSE pending END,
			revision = revision + 1, changed = $2 WHERE id = $3`,
		to, sqldb.Micros(sqldb.Now()), id)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

// ChangeNICs writes what may change of an instance's NICs, and differs from before: the secondary addresses, rates, security groups,
// forwards and floating addresses. It replaces secondary addresses that are the zero Addr by free ones. It returns ErrInvalid if
// a NIC cannot have one, ErrConflict for a forward whose port another has, ErrInUse for an address that another NIC has, and
// ErrFull if no address is free. It calls hold once it has locked the networks and groups, which others lock first as well, and
// returns its error. It returns the instances from which secondary addresses were taken, besides inst.
func ChangeNICs(
	ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC, hold func() error,
) (others []seedbed.InstanceID, err error) {
	if err := lockReaddressed(ctx, tx, inst, before); err != nil {
		return nil, err
	}
	if err := regroup(ctx, tx, inst, before); err != nil {
		return nil, err
	}
	if others, err = takeOver(ctx, tx, inst); err != nil {
		return nil, err
	}
	if err := hold(); err != nil {
		return nil, err
	}
	if err := reforward(ctx, tx, inst, before); err != nil {
		return nil, err
	}
	if err := rerate(ctx, tx, inst, before); err != nil {
		return nil, err
	}
	if err := readdress(ctx, tx, inst, before); err != nil {
		return nil, err
	}
	return others, refloat(ctx, tx, inst, before)
}

// CheckServed returns an error if the instance has something that a guest cannot be served.
func CheckServed(i seedbed.Instance) error {
	return cmp.Or(
		seedbed.CheckDocument("user-data", i.UserData), seedbed.CheckDocument("vendor-data", i.VendorData),
		i.Metadata.Check(), seedbed.CheckTags(i.Tags), checkSpot(i.Spot), seedbed.CheckNotes(i.Notes))
}

// ExpiryValues returns the values of the columns expires and at_expiry.
func ExpiryValues(e *seedbed.Expiry) (at any, action string) {
	if e == nil {
		return nil, ""
	}
	return sqldb.Micros(e.Time), e.Action
}

// Expired returns the instances that have expired at now.
func (s *Store) Expired(ctx context.Context, now time.Time) (all []seedbed.Instance, err error) {
	err = s.db.View(ctx, "list expired instances", func(tx *sqldb.Tx) error {
		all, err = Read(ctx, tx, `expires <= $1`, sqldb.Micros(now))
		return err
	})
	return all, err
}

func checkSpot(s *seedbed.Spot) error {
	switch {
	case s == nil:
		return nil
	case s.Action == "" && s.Time.IsZero() && !s.Rebalance.IsZero():
		return nil
	case s.Action != "terminate" && s.Action != "stop" && s.Action != "hibernate":
		return seedbed.Errorf(seedbed.ErrInvalid, "spot action %q is unknown: expected terminate, stop or hibernate", sqldb.Clean(s.Action, 80))
	case s.Time.IsZero():
		return seedbed.Errorf(seedbed.ErrInvalid, "spot action %s has no time: expected when it will be taken", s.Action)
	}
	return nil
}

// ReadOne returns the instance with that ID. It returns ErrNotFound if there is none.
func ReadOne(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (seedbed.Instance, error) {
	all, err := Read(ctx, tx, `id = $1`, id)
	if err == nil && len(all) == 0 {
		err = seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", sqldb.Clean(string(id), 80))
	}
	if err != nil {
		return seedbed.Instance{}, err
	}
	return all[0], nil
}

// Delete deletes an instance with its claims, if nothing refers to it any more.
func Delete(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM instance WHERE id = $1`, id)
}

// Restarts returns the value of the column restarts: whether the instance is started on another node once its own was fenced.
func Restarts(i seedbed.Instance) int64 { return sqldb.Flag(i.System.Restart == seedbed.RestartAlways) }

// SetHardware writes what a job changes of an instance's hardware.
func SetHardware(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance) error {
	return sqldb.Exec(ctx, tx,
		`UPDATE instance SET system = $1, cdrom = $2, pending = $3, placement_group = $4, restarts = $5,
			revision = revision + 1, changed = $6 WHERE id = $7`,
		sqldb.AsJSON(i.System), sqldb.Null(i.CDROM), sqldb.AsJSON(sqldb.OrEmpty(i.Pending)), sqldb.Null(i.PlacementGroup),
		Restarts(i), sqldb.Micros(sqldb.Now()), i.ID)
}

// Rename gives an instance a name that is free.
func Rename(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, name string) error {
	return sqldb.Exec(ctx, tx, `UPDATE instance SET name = $1, revision = revision + 1, changed = $2 WHERE id = $3`,
		name, sqldb.Micros(sqldb.Now()), id)
}
