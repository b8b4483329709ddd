package access

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Kind is a kind of objects that a project's quota bounds by their number.
type Kind struct {
	what  string // the plural, for messages
	query string // counts those of the project $1
	most  func(seedbed.ObjectQuota) int64
}

// Tokens is the kind of tokens.
func Tokens() Kind {
	return Kind{"tokens", `SELECT COUNT(*) FROM token WHERE project = $1`, func(q seedbed.ObjectQuota) int64 { return q.Tokens }}
}

// Hooks is the kind of hooks.
func Hooks() Kind {
	return Kind{"hooks", `SELECT COUNT(*) FROM hook WHERE project = $1`, func(q seedbed.ObjectQuota) int64 { return q.Hooks }}
}

// Endpoints is the kind of endpoints.
func Endpoints() Kind {
	return Kind{"endpoints", `SELECT COUNT(*) FROM endpoint WHERE project = $1`, func(q seedbed.ObjectQuota) int64 { return q.Endpoints }}
}

// Snapshots is the kind of snapshots of instances. A snapshot of all disks of an instance is one.
func Snapshots() Kind {
	return Kind{"snapshots", `SELECT COUNT(*) FROM instance JOIN snapshot ON snapshot.instance = instance.id
		WHERE instance.project = $1`, func(q seedbed.ObjectQuota) int64 { return q.Snapshots }}
}

// Networks is the kind of networks. A network is in the project of its qualified name.
func Networks() Kind {
	return Kind{"networks", `SELECT COUNT(*) FROM network WHERE ` + InProject,
		func(q seedbed.ObjectQuota) int64 { return q.Networks }}
}

// SecurityGroups is the kind of security groups.
func SecurityGroups() Kind {
	return Kind{"security groups", `SELECT COUNT(*) FROM security_group WHERE ` + InProject,
		func(q seedbed.ObjectQuota) int64 { return cmp.Or(q.SecurityGroups, seedbed.MaxProjectGroups) }}
}

// PlacementGroups is the kind of placement groups, which has no quota but a bound.
func PlacementGroups() Kind {
	return Kind{"placement groups", `SELECT COUNT(*) FROM placement_group WHERE ` + InProject,
		func(seedbed.ObjectQuota) int64 { return seedbed.MaxPlacementGroups }}
}

// FloatingAddresses is the kind of floating addresses.
func FloatingAddresses() Kind {
	return Kind{"floating addresses", `SELECT COUNT(*) FROM floating_address WHERE project = $1`,
		func(q seedbed.ObjectQuota) int64 { return cmp.Or(q.Floating, seedbed.MaxProjectFloating) }}
}

// InProject is the condition that an object with a qualified name is in the project $1.
const InProject = `CASE WHEN CAST($1 AS text) = '` + seedbed.DefaultProject + `'
	THEN name NOT LIKE '%/%' ELSE name LIKE CAST($1 AS text) || '/%' END`

// Images is the kind of images. An image is in the project of its qualified name.
func Images() Kind {
	return Kind{"images", `SELECT COUNT(*) FROM image WHERE dropped = 0 AND ` + InProject,
		func(q seedbed.ObjectQuota) int64 { return q.Images }}
}

// Count returns how many objects of the kind a project has.
func (k Kind) Count(ctx context.Context, tx *sqldb.Tx, project string) (int64, error) {
	return sqldb.Value[int64](tx.QueryRowContext(ctx, k.query, project))
}

// Hold returns ErrForbidden if a project has more objects of the kind than its quota allows. The project's
// row must be locked, so that concurrent transactions count each other, and the new object be written.
func (k Kind) Hold(ctx context.Context, tx *sqldb.Tx, p seedbed.Project) error {
	most := k.most(p.Quota.ObjectQuota)
	if most == 0 {
		return nil
	}
	n, err := k.Count(ctx, tx, p.Name)
	if err == nil && n > most {
		err = seedbed.Errorf(seedbed.ErrForbidden,
			"project %q is over its quota of %s: it would have %d, and %d is the most: remove some, or raise it (seedbed project quota)",
			p.Name, k.what, n, most)
	}
	return err
}
