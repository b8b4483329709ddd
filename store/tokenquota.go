package store

import (
	"context"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// holdToken records the token that a new instance is made with, and returns ErrForbidden if the
// instance exceeds the token's quota. If there is a quota, the token's row is locked, so that
// concurrent creates count each other.
func holdToken(ctx context.Context, b *groupcommit.Batch, asker *seedbed.Change, a *seedbed.Acceptance) error {
	if a.Job.Kind != seedbed.JobCreate || a.Delivery != nil || asker == nil {
		return nil
	}
	a.Instance.Token = asker.Token
	return holdTokenQuota(ctx, b, quotaToken(asker, *a), *a.Instance)
}

// quotaToken returns the token whose quota an acceptance counts against, or the empty string.
func quotaToken(asker *seedbed.Change, a seedbed.Acceptance) string {
	if a.Job.Kind != seedbed.JobCreate || a.Delivery != nil || asker == nil || asker.Quota == (seedbed.TokenQuota{}) {
		return ""
	}
	return asker.Token
}

// batchTokens holds the tokens that a batch has locked, by name.
type batchTokens map[string]seedbed.Token

// lockToken locks the row of a token, once for all writes of the batch. A token that does not exist
// is the zero Token.
func lockToken(ctx context.Context, b *groupcommit.Batch, name string) (t seedbed.Token, err error) {
	locked := groupcommit.Of[batchTokens](b)
	if t, ok := (*locked)[name]; ok || name == "" {
		return t, nil
	}
	if *locked == nil {
		*locked = batchTokens{}
	}
	t, err = sqldb.LockOne(ctx, b.Tx, access.ScanToken, nil,
		`UPDATE token SET name = name WHERE name = $1 RETURNING `+access.TokenColumns, name)
	(*locked)[name] = t
	return t, err
}

// holdTokenQuota returns ErrForbidden if an instance, together with the token's other instances,
// exceeds the token's quota.
func holdTokenQuota(ctx context.Context, b *groupcommit.Batch, token string, i seedbed.Instance) error {
	most, has, err := tokenUse(ctx, b, token, i.ID)
	if err != nil || most == (seedbed.TokenQuota{}) {
		return err
	}
	return overQuota(token, most, has, seedbed.TokenQuota{Instances: 1, VCPUs: int64(i.VCPUs), Memory: i.Memory, Disk: disksOf(i)})
}

// holdTokenDisk returns ErrForbidden if one more volume for the instance i exceeds its token's
// quota for disks. The other resources were checked when the job was accepted.
func holdTokenDisk(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, v seedbed.Volume) error {
	token, err := tokenOf(ctx, tx, i.ID)
	if err != nil {
		return err
	}
	most, has, err := tokenUse(ctx, groupcommit.Alone(tx), token, i.ID)
	if err != nil || most.Disk == 0 {
		return err
	}
	err = overQuota(token, seedbed.TokenQuota{Disk: most.Disk},
		seedbed.TokenQuota{Disk: has.Disk + disksOf(i)}, seedbed.TokenQuota{Disk: v.Size})
	if err == nil {
		return nil
	}
	return sqldb.Within(fmt.Sprintf("volume %s of instance %q", v.Name, i.Name), err)
}

// tokenOf returns the name of the token that an instance was made with, or the empty string.
func tokenOf(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) (string, error) {
	return sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT token FROM instance WHERE id = $1`, id)
}

func disksOf(i seedbed.Instance) (sum seedbed.Bytes) {
	for _, v := range i.Volumes {
		sum += v.Size
	}
	return sum
}

// tokenUse returns a token's quota, and what its instances except the instance but have or were
// promised. It locks the token's row. Both are zero if the token has no quota.
func tokenUse(
	ctx context.Context, b *groupcommit.Batch, token string, but seedbed.InstanceID,
) (most, has seedbed.TokenQuota, err error) {
	tx := b.Tx
	t, err := lockToken(ctx, b, token)
	if err != nil || t.Quota == most { // no quota, or the token was revoked
		return most, has, err
	}
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(vcpus), 0) AS bigint), CAST(COALESCE(SUM(memory), 0) AS bigint)
		FROM instance WHERE token = $1 AND token <> '' AND id <> $2`,
		token, but).Scan(&has.Instances, &has.VCPUs, &has.Memory)
	if err != nil {
		return most, has, err
	}
	if t.Quota.Disk > 0 {
		has.Disk, err = sqldb.Value[seedbed.Bytes](tx.QueryRowContext(ctx,
			`SELECT CAST(COALESCE(SUM(volume.size), 0) AS bigint) FROM instance JOIN volume ON volume.instance = instance.id
			WHERE instance.token = $1 AND instance.token <> '' AND instance.id <> $2`, token, but))
		if err != nil {
			return most, has, err
		}
	}
	return t.Quota, has, addGrowth(ctx, tx, token, but, &has)
}

// overQuota returns an error that lists all exceeded limits with their numbers, or nil.
func overQuota(token string, most, has, wants seedbed.TokenQuota) error {
	var over []string
	for _, q := range []struct {
		what             string
		most, has, wants int64
		size             bool
	}{
		{"instances", most.Instances, has.Instances, wants.Instances, false},
		{"vcpus", most.VCPUs, has.VCPUs, wants.VCPUs, false},
		{"memory", int64(most.Memory), int64(has.Memory), int64(wants.Memory), true},
		{"disk", int64(most.Disk), int64(has.Disk), int64(wants.Disk), true},
	} {
		if q.most == 0 || q.wants <= q.most-q.has {
			continue
		}
		shown := func(n int64) string {
			if q.size {
				return seedbed.Bytes(n).String()
			}
			return fmt.Sprint(n)
		}
		over = append(over,
			fmt.Sprintf("%s: it has %s, this wants %s more, and %s is the most", q.what, shown(q.has), shown(q.wants), shown(q.most)))
	}
	if over == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "token %q is over its quota of %s: remove some instances, or raise it (seedbed token quota)",
		token, strings.Join(over, "; of "))
}
