package instances

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/catalogue"
	"seedbed/store/nodes"
	"seedbed/store/sqldb"
)

const placementGroupColumns = `name, policy, description, created`

func scanPlacementGroup(r sqldb.Row) (g seedbed.PlacementGroup, err error) {
	err = r.Scan(&g.Name, &g.Policy, &g.Description, sqldb.ToTime(&g.Created))
	g.Instances = []string{}
	return g, err
}

// CreatePlacementGroup adds a placement group, and returns it. It returns ErrInvalid for one that is not usable, ErrExists if the name is
// taken, and ErrForbidden if its project has too many.
func (s *Store) CreatePlacementGroup(ctx context.Context, g seedbed.PlacementGroup) (seedbed.PlacementGroup, error) {
	g.Created, g.Instances = sqldb.Now(), []string{}
	if err := g.Check(); err != nil {
		return g, err
	}
	err := s.db.Update(ctx, "create placement group "+g.Name, func(tx *sqldb.Tx) error {
		project, err := access.HoldProject(ctx, tx, seedbed.ProjectOf(g.Name))
		if err != nil {
			return err
		}
		made, err := sqldb.Affect(ctx, tx,
			`INSERT INTO placement_group (`+placementGroupColumns+`) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			g.Name, g.Policy, g.Description, sqldb.Micros(g.Created))
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "placement group %q exists already", g.Name)
		}
		if err != nil {
			return err
		}
		return access.PlacementGroups().Hold(ctx, tx, project)
	})
	return g, err
}

// PlacementGroup returns the placement group of that qualified name with its members.
func (s *Store) PlacementGroup(ctx context.Context, name string) (g seedbed.PlacementGroup, err error) {
	err = s.db.View(ctx, "read placement group", func(tx *sqldb.Tx) error {
		g, err = ReadPlacementGroup(ctx, tx, name)
		return err
	})
	return g, err
}

// ReadPlacementGroup is Store.PlacementGroup in a transaction.
func ReadPlacementGroup(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.PlacementGroup, error) {
	g, err := sqldb.One(ctx, tx, scanPlacementGroup, catalogue.NoPlacementGroup(seedbed.ErrNotFound, name),
		`SELECT `+placementGroupColumns+` FROM placement_group WHERE name = $1`, name)
	if err != nil {
		return g, err
	}
	all := []seedbed.PlacementGroup{g}
	return all[0], readGrouped(ctx, tx, all, `placement_group = $1`, name)
}

// PlacementGroups returns all placement groups sorted by name, with their members.
func (s *Store) PlacementGroups(ctx context.Context) (all []seedbed.PlacementGroup, err error) {
	err = s.db.View(ctx, "list placement groups", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanPlacementGroup, `SELECT `+placementGroupColumns+` FROM placement_group ORDER BY name`)
		if err != nil {
			return err
		}
		return readGrouped(ctx, tx, all, `placement_group IS NOT NULL`)
	})
	return all, err
}

// readGrouped adds the members to groups. cond is what they satisfy.
func readGrouped(ctx context.Context, tx *sqldb.Tx, groups []seedbed.PlacementGroup, cond string, args ...any) error {
	type pair struct{ group, name string }
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (p pair, err error) {
		err = r.Scan(&p.group, &p.name)
		return p, err
	}, `SELECT placement_group, `+FullName+` AS full_name FROM instance WHERE `+cond+` ORDER BY full_name`, args...)
	for _, p := range all {
		at := slices.IndexFunc(groups, func(g seedbed.PlacementGroup) bool { return g.Name == p.group })
		if at >= 0 {
			groups[at].Instances = append(groups[at].Instances, p.name)
		}
	}
	return err
}

// grouped lists where the instances of placement groups are, and where they are on their way to.
const grouped = `SELECT placement_group, id, node FROM instance WHERE placement_group IS NOT NULL
	UNION ALL SELECT placement_group, id, target FROM instance WHERE placement_group IS NOT NULL AND target <> ''`

func scanMember(r sqldb.Row) (m seedbed.GroupMember, err error) {
	err = r.Scan(&m.Group, &m.Instance, &m.Node)
	return m, err
}

// GroupMembers returns the members of all placement groups.
func (s *Store) GroupMembers(ctx context.Context) (all []seedbed.GroupMember, err error) {
	err = s.db.View(ctx, "list the members of placement groups", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanMember, grouped)
		return err
	})
	return all, err
}

// HoldGroup locks the placement group of an instance, and returns ErrInvalid if it does not exist, and ErrConflict if its policy does not
// allow that the instance is on a node. from is the node that it leaves; empty for none. It does nothing for an instance in no group.
//
// The placement chooses by the same policy. What it knows may be a second old, and this is not.
func HoldGroup(ctx context.Context, tx *sqldb.Tx, group string, id seedbed.InstanceID, node, from string) error {
	if group == "" {
		return nil
	}
	policy, err := catalogue.LockPlacementGroup(ctx, tx, group)
	if err != nil || policy != seedbed.Affinity && policy != seedbed.AntiAffinity {
		return err
	}
	all, err := sqldb.List(ctx, tx, scanMember, `SELECT * FROM (`+grouped+`) AS member WHERE placement_group = $1 AND id <> $2`, group, id)
	if err != nil {
		return err
	}
	leaves := false // the node that they are all to leave does not hold them
	if from != "" && policy == seedbed.Affinity {
		left, err := sqldb.One(ctx, tx, nodes.ScanNode, nil, `SELECT `+nodes.NodeColumns+` FROM node WHERE name = $1`, from)
		if err != nil {
			return err
		}
		leaves = left.Leaves()
	}
	for _, m := range all {
		switch {
		case policy == seedbed.AntiAffinity && m.Node == node:
			return seedbed.Errorf(seedbed.ErrConflict, "placement group %q (%s) has another instance on that node now: request it again", group,
				policy)
		case policy == seedbed.Affinity && m.Node != node && !(leaves && m.Node == from):
			return seedbed.Errorf(seedbed.ErrConflict, "placement group %q (%s) has its instances on another node: request it again", group, policy)
		}
	}
	return nil
}

// DropPlacementGroup removes a placement group that no instance and no profile has; otherwise users gets these.
func DropPlacementGroup(ctx context.Context, tx *sqldb.Tx, name string, users *catalogue.Uses) error {
	if _, err := catalogue.LockPlacementGroup(ctx, tx, name); err != nil {
		return err
	}
	err := users.Read(ctx, tx, []catalogue.UserKind{{What: "instance", Query: `SELECT project, ` + FullName + ` AS full_name FROM instance
		WHERE placement_group = $1 ORDER BY full_name`}}, name)
	if err != nil {
		return err
	}
	all, err := sqldb.List(ctx, tx, catalogue.ScanUser, `SELECT '', name FROM profile WHERE placement_group = $1 ORDER BY name`,
		seedbed.ShortName(name))
	if err != nil {
		return err
	}
	users.Add(ctx, "profile", slices.DeleteFunc(all, func(u catalogue.User) bool { return u.Project != seedbed.ProjectOf(name) }))
	if by := users.String(); by != "" {
		return seedbed.Errorf(seedbed.ErrInUse, "placement group %q is used by %s: change these first", name, by)
	}
	return sqldb.Exec(ctx, tx, `DELETE FROM placement_group WHERE name = $1`, name)
}

// DropPlacementGroups removes the placement groups of a project that has no instances.
func DropPlacementGroups(ctx context.Context, tx *sqldb.Tx, project string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM placement_group WHERE name LIKE $1`, project+"/%") // names of projects have neither % nor _
}
