package instances

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

// checked returns ErrInvalid or ErrExists if a group is not usable that had other rules before.
func checked(g seedbed.SecurityGroup, before []seedbed.SecurityRule) error {
	if err := g.Check(); err != nil {
		return err
	}
	return g.CheckParts(before)
}

// fitting returns ErrInvalid if the rules of all security groups of a project, which were written, need more parts than a project may
// have, and more than before. what was changed has so many more now. Changes of two groups at once are not told of each other.
func fitting(ctx context.Context, tx *sqldb.Tx, project, what string, more int) error {
	if more <= 0 {
		return nil
	}
	// A network makes two groups at most. As many fit, whatever the rules are that are not older than the bound.
	groups, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT (SELECT COUNT(*) FROM security_group WHERE `+access.InProject+`) +
		2 * (SELECT COUNT(*) FROM network WHERE `+access.InProject+`)`, project)
	if err != nil || groups <= seedbed.MaxProjectParts/seedbed.MaxRuleParts {
		return err
	}
	all, err := sqldb.List(ctx, tx, scanGroup, `SELECT `+groupColumns+` FROM security_group WHERE `+access.InProject, project)
	if err != nil {
		return err
	}
	networks, err := sqldb.List(ctx, tx, scanNetwork, `SELECT `+networkColumns+` FROM network WHERE `+access.InProject, project)
	if err != nil {
		return err
	}
	parts := 0
	for _, g := range all {
		parts += seedbed.RuleParts(g.Rules)
	}
	for _, n := range networks {
		parts += n.ACLParts()
	}
	if parts > seedbed.MaxProjectParts {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: a node would need %d parts that do not overlap for the rules of its "+
			"project, expected at most %d; remove rules, or make them overlap less", what, parts, seedbed.MaxProjectParts)
	}
	return nil
}

func fittingGroup(ctx context.Context, tx *sqldb.Tx, g seedbed.SecurityGroup, before []seedbed.SecurityRule) error {
	more := seedbed.RuleParts(g.Rules) - seedbed.RuleParts(before)
	return fitting(ctx, tx, seedbed.ProjectOf(g.Name), fmt.Sprintf("security group %q", g.Name), more)
}
