package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// owner is a token or a project, whose quota bounds what its instances have in total.
type owner struct {
	// kind is "token" or "project", which is also the column of the table instance.
	kind, name string
}

// quotas returns the owners of an instance that have a quota, each with that. It locks their rows, so
// that concurrent transactions count each other.
func quotas(ctx context.Context, b *groupcommit.Batch, i seedbed.Instance) (bounded []quota, err error) {
	if i.Token != "" {
		t, err := lockToken(ctx, b, i.Token)
		if err != nil {
			return nil, err
		}
		if t.Quota != (seedbed.TokenQuota{}) {
			bounded = append(bounded, quota{owner{"token", i.Token}, seedbed.ProjectQuota{TokenQuota: t.Quota}})
		}
	}
	p, err := lockProject(ctx, b, i.Project)
	if err != nil {
		return nil, err
	}
	if p.Quota.BoundsWork() {
		bounded = append(bounded, quota{owner{"project", i.Project}, p.Quota})
	}
	return bounded, nil
}

// quota is what an owner may have at most.
type quota struct {
	of   owner
	most seedbed.ProjectQuota
}

// batchTokens and batchProjects hold the tokens and projects that a batch has read, by name.
type (
	batchTokens   map[string]seedbed.Token
	batchProjects map[string]seedbed.Project
)

// lockToken returns a token, once for all writes of the batch. If it has a quota, its row is locked. A
// token that does not exist is the zero Token.
func lockToken(ctx context.Context, b *groupcommit.Batch, name string) (t seedbed.Token, err error) {
	known := groupcommit.Of[batchTokens](b)
	if t, ok := (*known)[name]; ok || name == "" {
		return t, nil
	}
	t, err = sqldb.One(ctx, b.Tx, access.ScanToken, nil, `SELECT `+access.TokenColumns+` FROM token WHERE name = $1`, name)
	if err == nil && t.Quota != (seedbed.TokenQuota{}) {
		t, err = sqldb.LockOne(ctx, b.Tx, access.ScanToken, nil,
			`UPDATE token SET name = name WHERE name = $1 RETURNING `+access.TokenColumns, name)
	}
	if err != nil {
		return t, err
	}
	if *known == nil {
		*known = batchTokens{}
	}
	(*known)[name] = t
	return t, nil
}

// lockProject returns a project, once for all writes of the batch. If it has a quota, its row is locked.
// That a project without one stays until the transaction ends is the foreign key's. The error is
// ErrInvalid if there is no such project.
func lockProject(ctx context.Context, b *groupcommit.Batch, name string) (seedbed.Project, error) {
	if name == "" {
		return seedbed.Project{}, nil
	}
	err := lockProjects(ctx, b, []string{name})
	if p, ok := (*groupcommit.Of[batchProjects](b))[name]; ok || err != nil {
		return p, err
	}
	return seedbed.Project{}, access.Unknown(name)
}

// lockProjects reads those of the projects that the batch has not read, and locks the rows of those that
// have a quota, in the order of their names. Projects that do not exist are left out.
func lockProjects(ctx context.Context, b *groupcommit.Batch, names []string) error {
	known := groupcommit.Of[batchProjects](b)
	if *known == nil {
		*known = batchProjects{}
	}
	var unread []string
	for _, name := range names {
		if _, ok := (*known)[name]; !ok && name != "" {
			unread = append(unread, name)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	found, err := access.ReadProjects(ctx, b.Tx, unread)
	if err != nil {
		return err
	}
	for _, p := range found {
		if p.Quota.BoundsWork() {
			if p, err = access.LockProject(ctx, b.Tx, p.Name); err != nil {
				return err
			}
		}
		(*known)[p.Name] = p
	}
	return nil
}

// quotaToken returns the token whose quota an acceptance counts against, or the empty string.
func quotaToken(asker *seedbed.Change, a seedbed.Acceptance) string {
	if a.Job.Kind != seedbed.JobCreate || a.Delivery != nil || asker == nil || asker.Quota == (seedbed.TokenQuota{}) {
		return ""
	}
	return asker.Token
}

// quotaProject returns the project whose quota an acceptance of an instance counts against.
func quotaProject(a seedbed.Acceptance) string {
	if a.Instance == nil {
		return ""
	}
	return cmp.Or(a.Instance.Project, seedbed.DefaultProject)
}

// holdQuotas returns ErrForbidden if an instance, together with the other instances of its token or of
// its project, exceeds a quota.
func holdQuotas(ctx context.Context, b *groupcommit.Batch, i seedbed.Instance) error {
	return holdUse(ctx, b, i, useOf(i))
}

// holdUse returns ErrForbidden if a use, together with what the token and the project of an instance have besides it, exceeds a quota.
// Without an ID of the instance, it is what they have in all.
func holdUse(ctx context.Context, b *groupcommit.Batch, i seedbed.Instance, wants seedbed.Use) error {
	bounded, err := quotas(ctx, b, i)
	if err != nil {
		return err
	}
	for _, q := range bounded {
		has, err := q.of.use(ctx, b.Tx, i.ID, q.bounds())
		if err == nil {
			err = q.refuse(has, wants)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holdDisk returns ErrForbidden if one more volume for the instance i exceeds a quota for disks. The
// other resources were checked when the job was accepted.
func holdDisk(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, v seedbed.Volume) error {
	of, err := ownersOf(ctx, tx, i.ID)
	if err != nil {
		return err
	}
	var has, wants seedbed.Use
	for _, w := range i.Volumes {
		has.AddDisk(w.Pool, w.Size)
	}
	wants.AddDisk(v.Pool, v.Size)
	err = holdMore(ctx, tx, of, has, wants, func(most seedbed.ProjectQuota) seedbed.ProjectQuota {
		return seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Disk: most.Disk}, DiskIn: most.DiskIn}
	})
	if err != nil {
		return sqldb.Within(fmt.Sprintf("volume %s of instance %q", v.Name, i.Name), err)
	}
	return nil
}

// readdressed returns ErrForbidden if more addresses for an instance exceed a quota.
func (db *DB) readdressed(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, has, wants int) error {
	if wants < has {
		db.AddressesFreed()
		return nil
	}
	return holdMore(ctx, tx, i, seedbed.Use{Addresses: int64(has)}, seedbed.Use{Addresses: int64(wants - has)},
		func(most seedbed.ProjectQuota) seedbed.ProjectQuota {
			return seedbed.ProjectQuota{Addresses: most.Addresses}
		})
}

// holdMore returns ErrForbidden if what an instance wants besides what it has exceeds a quota of its owners. Of such a quota, only
// what about returns counts.
func holdMore(
	ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, has, wants seedbed.Use, about func(seedbed.ProjectQuota) seedbed.ProjectQuota,
) error {
	bounded, err := quotas(ctx, groupcommit.Alone(tx), i)
	if err != nil {
		return err
	}
	for _, q := range bounded {
		if q.most = about(q.most); !q.most.BoundsWork() {
			continue
		}
		all, err := q.of.use(ctx, tx, i.ID, q.bounds())
		if err != nil {
			return err
		}
		all.Addresses += has.Addresses
		for pool, size := range has.DiskIn {
			all.AddDisk(pool, size)
		}
		if err := q.refuse(all, wants); err != nil {
			return err
		}
	}
	return nil
}

// holdJobs returns ErrFull if a project has as many jobs that have not ended as its quota allows.
func holdJobs(ctx context.Context, b *groupcommit.Batch, project string) error {
	p, err := lockProject(ctx, b, project)
	if err != nil || p.Quota.Jobs == 0 {
		return err
	}
	n, err := liveJobs(ctx, b.Tx, project)
	if err == nil && n >= p.Quota.Jobs {
		err = seedbed.Errorf(seedbed.ErrFull, "project %q has %d jobs that have not ended, which is its limit: wait for some to end", project, n)
	}
	return err
}

func liveJobs(ctx context.Context, tx *sqldb.Tx, project string) (int64, error) {
	return sqldb.Value[int64](tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM job WHERE project = $1 AND `+jobs.Live, project))
}

// ownersOf returns an instance with only its ID, project and token. They are empty if it does not exist.
func ownersOf(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (seedbed.Instance, error) {
	return sqldb.One(ctx, tx, func(r sqldb.Row) (i seedbed.Instance, err error) {
		err = r.Scan(&i.ID, &i.Project, &i.Token)
		return i, err
	}, nil, `SELECT id, project, token FROM instance WHERE id = $1`, id)
}

// useOf returns what one instance uses.
func useOf(i seedbed.Instance) seedbed.Use {
	u := seedbed.Use{Instances: 1, VCPUs: int64(i.VCPUs), Memory: i.Memory, Addresses: int64(instances.Addresses(i.NICs))}
	for _, v := range i.Volumes {
		u.AddDisk(v.Pool, v.Size)
	}
	return u
}

// resources says which resources to count besides those in an instance's own row.
type resources struct{ addresses, disks bool }

// bounds returns the resources that the quota bounds.
func (q quota) bounds() resources {
	return resources{q.most.Addresses > 0, q.most.Disk > 0 || len(q.most.DiskIn) > 0}
}

// use returns what the owner's volumes and its instances, except the instance but, have or were promised.
func (o owner) use(ctx context.Context, tx *sqldb.Tx, but seedbed.InstanceID, of resources) (has seedbed.Use, err error) {
	where := `instance.` + o.kind + ` = $1 AND instance.id <> $2`
	if o.kind == "token" {
		where += ` AND instance.token <> ''` // as the index has it
	}
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(vcpus), 0) AS bigint), CAST(COALESCE(SUM(memory), 0) AS bigint)
		FROM instance WHERE `+where, o.name, but).Scan(&has.Instances, &has.VCPUs, &has.Memory)
	if err != nil {
		return has, err
	}
	if of.addresses { // what a job keeps for a NIC in another network is not a further one
		has.Addresses, err = sqldb.Value[int64](tx.QueryRowContext(ctx, `SELECT COUNT(DISTINCT nic.id) + COUNT(s.addr) FROM instance
			JOIN nic ON nic.instance = instance.id LEFT JOIN secondary_address s ON s.instance = nic.instance AND s.nic = nic.idx
				AND s.network = nic.network
			WHERE `+where, o.name, but))
		if err != nil {
			return has, err
		}
	}
	if of.disks {
		if err := addDisks(ctx, tx, where, o.name, but, &has); err != nil {
			return has, err
		}
		if err := o.addVolumes(ctx, tx, &has); err != nil {
			return has, err
		}
	}
	return has, addGrowth(ctx, tx, where, o.name, but, &has)
}

// addDisks adds to has the volumes of an owner's instances, as addGrowth selects them.
func addDisks(ctx context.Context, tx *sqldb.Tx, where, name string, but seedbed.InstanceID, has *seedbed.Use) error {
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.Volume, err error) {
		err = r.Scan(&v.Pool, &v.Size)
		return v, err
	}, `SELECT volume.pool, CAST(SUM(volume.size) AS bigint) FROM instance JOIN volume ON volume.instance = instance.id
		WHERE `+where+` GROUP BY volume.pool`, name, but)
	for _, v := range all {
		has.AddDisk(v.Pool, v.Size)
	}
	return err
}

// refuse returns an error that lists all exceeded limits with their numbers, or nil.
func (q quota) refuse(has, wants seedbed.Use) error {
	limits := []struct {
		what             string
		most, has, wants int64
		size             bool
	}{
		{"instances", q.most.Instances, has.Instances, wants.Instances, false},
		{"vcpus", q.most.VCPUs, has.VCPUs, wants.VCPUs, false},
		{"memory", int64(q.most.Memory), int64(has.Memory), int64(wants.Memory), true},
		{"disk", int64(q.most.Disk), int64(has.Disk), int64(wants.Disk), true},
		{"addresses", q.most.Addresses, has.Addresses, wants.Addresses, false},
	}
	for _, pool := range slices.Sorted(maps.Keys(q.most.DiskIn)) {
		l := limits[3]
		l.what, l.most = "disk in pool "+pool, int64(q.most.DiskIn[pool])
		l.has, l.wants = int64(has.DiskIn[pool]), int64(wants.DiskIn[pool])
		limits = append(limits, l)
	}
	var over []string
	for _, l := range limits {
		if l.most == 0 || l.wants == 0 || l.wants <= l.most-l.has {
			continue
		}
		shown := func(n int64) string {
			if l.size {
				return seedbed.Bytes(n).String()
			}
			return fmt.Sprint(n)
		}
		over = append(over,
			fmt.Sprintf("%s: it has %s, this wants %s more, and %s is the most", l.what, shown(l.has), shown(l.wants), shown(l.most)))
	}
	if over == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "%s %q is over its quota of %s: remove some instances, or raise it (seedbed %s quota)",
		q.of.kind, q.of.name, strings.Join(over, "; of "), q.of.kind)
}

// addGrowth adds to has what the live jobs of an owner's instances, except the instance but, will add.
// where selects the instances by the owner's name. A job counts from the time when it was accepted.
func addGrowth(ctx context.Context, tx *sqldb.Tx, where, name string, but seedbed.InstanceID, has *seedbed.Use) error {
	live, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`SELECT `+jobs.JobColumns+` FROM job WHERE kind IN ($3, $4) AND `+jobs.Live+`
		AND instance IN (SELECT id FROM instance WHERE `+where+`)`, name, but, seedbed.JobResize, seedbed.JobRebuild)
	if err != nil {
		return err
	}
	for _, j := range live {
		inst, err := instances.ReadOne(ctx, tx, j.Instance)
		if err != nil {
			return err
		}
		if j.Kind == seedbed.JobRebuild {
			if err := addRebuilt(ctx, tx, j.ID, inst, has); err != nil {
				return err
			}
			continue
		}
		next, err := grown(inst, j)
		if err != nil {
			return err
		}
		addDifference(has, useOf(inst), useOf(next))
	}
	return nil
}

// addDifference adds to has what next uses beyond now.
func addDifference(has *seedbed.Use, now, next seedbed.Use) {
	has.VCPUs += next.VCPUs - now.VCPUs
	has.Memory += next.Memory - now.Memory
	for pool, size := range next.DiskIn {
		has.AddDisk(pool, size)
	}
	for pool, size := range now.DiskIn {
		has.AddDisk(pool, -size)
	}
}
