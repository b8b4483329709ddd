package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"seedbed"
)

// holdToken notes by which token a new instance is made, and refuses it with
// ErrForbidden where the token has no room for it. With a quota the token's row is
// locked, so that those who create at the same time count each other.
func holdToken(ctx context.Context, tx *sql.Tx, asker *seedbed.Change, a *seedbed.Acceptance) error {
	if a.Job.Kind != seedbed.JobCreate || a.Delivery != nil || asker == nil {
		return nil
	}
	a.Instance.Token = asker.Token
	if asker.Token == "" || asker.Quota == (seedbed.TokenQuota{}) {
		return nil
	}
	if p := pileOf(ctx); p != nil { // what is gathered counts
		if err := p.flush(ctx, tx); err != nil {
			return err
		}
	}
	return holdTokenQuota(ctx, tx, asker.Token, *a.Instance)
}

// holdTokenQuota refuses an instance for which its token has no room, besides
// what the token's other instances have.
func holdTokenQuota(ctx context.Context, tx *sql.Tx, token string, i seedbed.Instance) error {
	if token == "" {
		return nil
	}
	t, err := one(ctx, tx, scanToken, nil, `UPDATE token SET name = name WHERE name = $1 RETURNING `+tokenColumns, token)
	if err != nil || t.Quota == (seedbed.TokenQuota{}) { // or it was revoked meanwhile
		return err
	}
	var has seedbed.TokenQuota
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(vcpus), 0) AS bigint), CAST(COALESCE(SUM(memory), 0) AS bigint) FROM instance WHERE token = $1 AND token <> '' AND id <> $2`,
		token, i.ID).Scan(&has.Instances, &has.VCPUs, &has.Memory)
	if err != nil {
		return err
	}
	if t.Quota.Disk > 0 {
		has.Disk, err = value[seedbed.Bytes](tx.QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(volume.size), 0) AS bigint) FROM instance JOIN volume ON volume.instance = instance.id
			WHERE instance.token = $1 AND instance.token <> '' AND instance.id <> $2`, token, i.ID))
		if err != nil {
			return err
		}
	}
	wants := seedbed.TokenQuota{Instances: 1, VCPUs: int64(i.VCPUs), Memory: i.Memory}
	for _, v := range i.Volumes {
		wants.Disk += v.Size
	}
	return overQuota(token, t.Quota, has, wants)
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
