package store

import (
	"context"
	"fmt"
	"strings"

	"seedbed"
)

// holdToken notes by which token a new instance is made, and refuses it with
// ErrForbidden where the token has no room for it. With a quota the token's row is
// locked, so that those who create at the same time count each other.
func holdToken(ctx context.Context, tx *Tx, asker *seedbed.Change, a *seedbed.Acceptance) error {
	if a.Job.Kind != seedbed.JobCreate || a.Delivery != nil || asker == nil {
		return nil
	}
	a.Instance.Token = asker.Token
	if asker.Token == "" || asker.Quota == (seedbed.TokenQuota{}) {
		return nil
	}
	return holdTokenQuota(ctx, tx, asker.Token, *a.Instance)
}

// holdTokenQuota refuses an instance for which its token has no room, besides
// what the token's other instances have.
func holdTokenQuota(ctx context.Context, tx *Tx, token string, i seedbed.Instance) error {
	most, has, err := tokenUse(ctx, tx, token, i.ID)
	if err != nil || most == (seedbed.TokenQuota{}) {
		return err
	}
	return overQuota(token, most, has, seedbed.TokenQuota{Instances: 1, VCPUs: int64(i.VCPUs), Memory: i.Memory, Disk: disksOf(i)})
}

// holdTokenDisk refuses a volume more for an instance, whose others i has, when its
// token has no room for it. What else the instance takes was looked at when its job was accepted.
func holdTokenDisk(ctx context.Context, tx *Tx, i seedbed.Instance, v seedbed.Volume) error {
	token, err := tokenOf(ctx, tx, i.ID)
	if err != nil {
		return err
	}
	most, has, err := tokenUse(ctx, tx, token, i.ID)
	if err != nil || most.Disk == 0 {
		return err
	}
	err = overQuota(token, seedbed.TokenQuota{Disk: most.Disk}, seedbed.TokenQuota{Disk: has.Disk + disksOf(i)}, seedbed.TokenQuota{Disk: v.Size})
	if err == nil {
		return nil
	}
	return within(fmt.Sprintf("volume %s of instance %q", v.Name, i.Name), err)
}

// tokenOf is by which token an instance was made; empty without one.
func tokenOf(ctx context.Context, tx *Tx, id seedbed.InstanceID) (string, error) {
	return one(ctx, tx, value[string], nil, `SELECT token FROM instance WHERE id = $1`, id)
}

func disksOf(i seedbed.Instance) (sum seedbed.Bytes) {
	for _, v := range i.Volumes {
		sum += v.Size
	}
	return sum
}

// tokenUse is a token's quota, and what its instances but one have or were
// promised. Its row is locked. Without a quota both are nothing.
func tokenUse(ctx context.Context, tx *Tx, token string, but seedbed.InstanceID) (most, has seedbed.TokenQuota, err error) {
	if token == "" {
		return most, has, nil
	}
	t, err := lockOne(ctx, tx, scanToken, nil, `UPDATE token SET name = name WHERE name = $1 RETURNING `+tokenColumns, token)
	if err != nil || t.Quota == most { // or it was revoked meanwhile
		return most, has, err
	}
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(vcpus), 0) AS bigint), CAST(COALESCE(SUM(memory), 0) AS bigint) FROM instance WHERE token = $1 AND token <> '' AND id <> $2`,
		token, but).Scan(&has.Instances, &has.VCPUs, &has.Memory)
	if err != nil {
		return most, has, err
	}
	if t.Quota.Disk > 0 {
		has.Disk, err = value[seedbed.Bytes](tx.QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(volume.size), 0) AS bigint) FROM instance JOIN volume ON volume.instance = instance.id
			WHERE instance.token = $1 AND instance.token <> '' AND instance.id <> $2`, token, but))
		if err != nil {
			return most, has, err
		}
	}
	return t.Quota, has, addGrowth(ctx, tx, token, but, &has)
}

// overQuota says, with all numbers, what is too much; nil when nothing is.
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
		over = append(over, fmt.Sprintf("%s: it has %s, this wants %s more, and %s is the most", q.what, shown(q.has), shown(q.wants), shown(q.most)))
	}
	if over == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "token %q is over its quota of %s: remove some instances, or raise it (seedbed token quota)", token, strings.Join(over, "; of "))
}
