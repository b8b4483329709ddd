package instances

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// The tables that insertInstance adds rows to.
var (
	instanceTable = sqldb.Table{Rank: 1,
		Into: `instance (` + newInstanceColumns + `, restarts, hook)`}
	nicTable    = sqldb.Table{Rank: 2, Into: `nic (` + nicColumns + `)`}
	volumeTable = sqldb.Table{Rank: 2, Into: `volume (` + volumeColumns + `)`}
)

// Insert adds the new instance of a job with its NICs and volumes. hook is the hook that
// the request came from, or empty.
func (s *Store) Insert(ctx context.Context, b *groupcommit.Batch, job seedbed.JobID, i seedbed.Instance, hook string) error {
	if err := unclaimed(ctx, b, job, i.Project, holdsName, "", nameTaken, i.Project, i.Name); err != nil {
		return err
	}
	id := "UUID " + string(i.ID)
	if err := unclaimed(ctx, b, job, i.Project, holdsID, id, belongs(id), i.ID); err != nil {
		return err
	}
	ready, err := seedbed.ParseReady(string(i.Ready))
	if err != nil {
		return err
	}
	source, err := seedbed.ParseDatasource(string(i.Datasource))
	if err != nil {
		return err
	}
	follow, err := seedbed.ParseFollow(string(i.Follow), seedbed.FollowPinned)
	if err != nil {
		return err
	}
	if err := CheckImages(ctx, b, i); err != nil {
		return err
	}
	made := sqldb.Micros(sqldb.OrNow(i.Created))
	expires, atExpiry := ExpiryValues(i.Expiry)
	b.Add(instanceTable,
		string(i.ID), i.Project, i.Name, i.Profile, i.Image, i.Node, string(seedbed.InstanceProvisioning),
		int64(i.VCPUs), int64(i.Memory), string(ready), sqldb.Flag(i.Held), sqldb.Blob(i.UserData),
		sqldb.AsJSON(sqldb.OrEmpty(i.SSHKeys)), i.ReportToken,
		sqldb.Blob(i.VendorData), string(source), sqldb.AsJSON(i.Metadata),
		sqldb.AsJSON(sqldb.OrEmptyMap(i.Tags)), sqldb.AsJSON(i.Spot), i.Password,
		sqldb.Flag(i.Protected), string(follow), i.Source, sqldb.AsJSON(i.Params), sqldb.AsJSON(i.System), i.Token,
		expires, atExpiry, i.Notes, sqldb.Null(i.CDROM), sqldb.AsJSON(sqldb.OrEmpty(i.Pending)),
		sqldb.Null(i.PlacementGroup), 1, made, made, Restarts(i), hook)
	if err := ask(b, i.NICs); err != nil { // before any is chosen
		return err
	}
	for _, n := range i.NICs {
		if err := s.insertNIC(ctx, b, job, i, n); err != nil {
			return err
		}
	}
	for _, v := range i.Volumes {
		b.Add(volumeTable, volumeValues(i.ID, v)...)
	}
	return nil
}

// volumeValues returns the values of volumeColumns.
func volumeValues(id seedbed.InstanceID, v seedbed.Volume) []any {
	return []any{string(id), v.Name, v.Pool, int64(v.Index), int64(v.Size), sqldb.Null(v.Image)}
}

// InsertVolume adds a volume to an instance. It returns ErrExists if another has that volume, or a project has it.
func InsertVolume(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, v seedbed.Volume) error {
	values := volumeValues(id, v)
	n, err := sqldb.Affect(ctx, tx, sqldb.InsertRows(volumeTable.Into, 1, len(values))+` ON CONFLICT DO NOTHING`, values...)
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "the volume %s of pool %s is another instance's", v.Name, v.Pool)
	}
	if err != nil {
		return err
	}
	return CheckUnkept(ctx, tx, id, v.Pool, v.Name) // last, to see what became of an instance that had it until now
}

// CheckUnkept returns ErrExists if a volume of a project has the name in the pool, which an instance is to have there. Only the project
// of the instance is told which volume that is.
func CheckUnkept(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, pool, name string) error {
	kept, err := inPool(ctx, tx, pool, name)
	if err != nil || kept.ID == "" {
		return err
	}
	project, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT project FROM instance WHERE id = $1`, id)
	if err == nil && project != kept.Project {
		return seedbed.Errorf(seedbed.ErrExists, "%s of pool %s is a volume of another project", name, pool)
	}
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrExists, "%s of pool %s is volume %q of project %q: remove it first (seedbed volume remove %s)", name,
			pool, kept.Name, project, kept.Name)
	}
	return err
}

// Compose writes the documents of a new instance that depend on its addresses.
func Compose(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, make func(seedbed.Instance) (seedbed.Documents, error)) error {
	inst, err := ReadOne(ctx, tx, id)
	if err != nil {
		return err
	}
	docs, err := make(inst)
	if err != nil {
		return err
	}
	inst.UserData, inst.VendorData = docs.UserData, docs.VendorData
	if err := CheckServed(inst); err != nil {
		return sqldb.Within(fmt.Sprintf("instance %q", inst.Name), err)
	}
	return sqldb.Exec(ctx, tx, `UPDATE instance SET user_data = $1, vendor_data = $2 WHERE id = $3`,
		sqldb.Blob(docs.UserData), sqldb.Blob(docs.VendorData), id)
}

// CheckImages returns an error if one of the instance's images cannot be cloned in the pool of its
// volume, or cannot be in its CD-ROM drive.
func CheckImages(ctx context.Context, b *groupcommit.Batch, i seedbed.Instance) error {
	for _, v := range append([]seedbed.Volume{{Image: i.Image}}, i.Volumes...) {
		if v.Image == "" {
			continue
		}
		img, err := batchImage(ctx, b, v.Image)
		switch {
		case err != nil:
			return sqldb.Within(fmt.Sprintf("instance %q", i.Name), err)
		case img.State != seedbed.ImageActive:
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: image %q is %s: wait for its import to end", i.Name, v.Image, img.State)
		case v.Pool != "" && v.Pool != img.Pool:
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: image %q is in pool %q and cannot be cloned in pool %q",
				i.Name, v.Image, img.Pool, v.Pool)
		}
	}
	if i.CDROM == "" {
		return nil
	}
	iso, err := batchImage(ctx, b, i.CDROM)
	if err == nil {
		err = iso.CheckISO()
	}
	if err == nil {
		return nil
	}
	return sqldb.Within(fmt.Sprintf("instance %q", i.Name), err)
}

// batchImages holds the images that the writes of a batch have read, by name.
type batchImages map[string]seedbed.Image

// batchImage reads an image, once for all writes of the batch.
func batchImage(ctx context.Context, b *groupcommit.Batch, name string) (seedbed.Image, error) {
	known := groupcommit.Of[batchImages](b)
	if i, ok := (*known)[name]; ok {
		return i, nil
	}
	i, err := catalogue.ReadImage(ctx, b.Tx, name, seedbed.ErrInvalid)
	if err == nil {
		if *known == nil {
			*known = batchImages{}
		}
		(*known)[name] = i
	}
	return i, err
}

func (s *Store) insertNIC(ctx context.Context, b *groupcommit.Batch, job seedbed.JobID, i seedbed.Instance, n seedbed.NIC) error {
	mac := "MAC address " + n.MAC.String()
	if err := unclaimed(ctx, b, job, i.Project, holdsMAC, mac, belongs(mac), n.MAC.String()); err != nil {
		return err
	}
	network, err := batchNetwork(ctx, b, n.Network)
	if err != nil {
		return err
	}
	if err := network.Keeps(n); err != nil {
		return err
	}
	groups := []string{}
	if network.Kind.Served() {
		if groups, err = joined(b, i.Project, n); err != nil {
			return err
		}
	}
	if err := seedbed.CheckBandwidth(n.BandwidthIn, n.BandwidthOut); err != nil {
		return err
	}
	addr, err := s.assignAddr(ctx, b, network, n)
	if err != nil {
		return err
	}
	if addr.IsValid() {
		address := "address " + addr.String()
		if err := unclaimed(ctx, b, job, i.Project, holdsAddr, address, belongs(address), n.Network, addr.String()); err != nil {
			return err
		}
	}
	b.Add(nicTable, string(i.ID), int64(n.Index), n.MAC.String(), n.Network, sqldb.Null(sqldb.Text(addr)), sqldb.AsJSON(groups),
		int64(n.BandwidthIn), int64(n.BandwidthOut), string(n.State), sqldb.Flag(n.Added))
	return s.insertSecondaries(ctx, b, i, network, n)
}
