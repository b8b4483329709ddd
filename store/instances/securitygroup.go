package instances

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

const groupColumns = `name, description, rules, created`

func scanGroup(r sqldb.Row) (g seedbed.SecurityGroup, err error) {
	err = r.Scan(&g.Name, &g.Description, sqldb.ToJSON(&g.Rules), sqldb.ToTime(&g.Created))
	g.Rules = sqldb.OrEmpty(g.Rules)
	return g, err
}

func noGroup(kind error, name string) error {
	return seedbed.Errorf(kind, "security group %q does not exist", sqldb.Clean(name, 80))
}

// CreateSecurityGroup adds a security group, and returns it. It returns ErrInvalid for one that is not usable or refers to
// a group that does not exist, ErrExists if the name is taken, and ErrForbidden if its project has too many.
func (s *Store) CreateSecurityGroup(ctx context.Context, g seedbed.SecurityGroup) (seedbed.SecurityGroup, error) {
	err := s.db.Update(ctx, "create security group "+sqldb.Clean(g.Name, 80), func(tx *sqldb.Tx) error {
		var err error
		g, err = AddSecurityGroup(ctx, tx, g)
		return err
	})
	return g, err
}

// AddSecurityGroup is CreateSecurityGroup in a transaction.
func AddSecurityGroup(ctx context.Context, tx *sqldb.Tx, g seedbed.SecurityGroup) (seedbed.SecurityGroup, error) {
	g.Rules, g.Created = sqldb.OrEmpty(g.Rules), sqldb.Now()
	if err := checked(g, nil); err != nil {
		return g, err
	}
	project, err := access.HoldProject(ctx, tx, seedbed.ProjectOf(g.Name))
	if err != nil {
		return g, err
	}
	made, err := sqldb.Affect(ctx, tx, `INSERT INTO security_group (`+groupColumns+`) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		g.Name, g.Description, sqldb.AsJSON(g.Rules), sqldb.Micros(g.Created))
	if err == nil && made == 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "security group %q exists already", g.Name)
	}
	if err != nil {
		return g, err
	}
	if err := access.SecurityGroups().Hold(ctx, tx, project); err != nil {
		return g, err
	}
	return g, cmp.Or(referred(ctx, tx, g), fittingGroup(ctx, tx, g, nil))
}

// referred returns ErrInvalid unless the groups that the rules of a group name exist in its project. It locks these.
func referred(ctx context.Context, tx *sqldb.Tx, g seedbed.SecurityGroup) error {
	var names []string
	for _, r := range g.Rules {
		if r.Group != "" && r.Group != g.Name {
			names = append(names, r.Group)
		}
	}
	return sqldb.InOrder(names, func(name string) error {
		switch {
		case seedbed.ShortName(name) == seedbed.OpenGroup:
			return seedbed.Errorf(seedbed.ErrInvalid,
				"security group %q: a rule names the group %s, in which are all NICs that name none: expected a prefix", g.Name, name)
		case seedbed.ProjectOf(name) != seedbed.ProjectOf(g.Name):
			return seedbed.Errorf(seedbed.ErrInvalid, "security group %q: a rule names the group %q of another project: expected a prefix",
				g.Name, sqldb.Clean(name, 80))
		}
		found, err := catalogue.LockSecurityGroup(ctx, tx, name)
		if err == nil && !found {
			err = fmt.Errorf("security group %q: a rule is wrong: %w", g.Name, noGroup(seedbed.ErrInvalid, name))
		}
		return err
	})
}

// SecurityGroup returns the security group called name, which may be one that the ACLs of a network make, or "open".
func (s *Store) SecurityGroup(ctx context.Context, name string) (g seedbed.SecurityGroup, err error) {
	if network := seedbed.NetworkOfGroup(name); network != "" {
		n, err := s.Network(ctx, network)
		for _, g := range n.ACLGroups() {
			if g.Name == name {
				return g, nil
			}
		}
		if err == nil || errors.Is(err, seedbed.ErrNotFound) {
			err = noGroup(seedbed.ErrNotFound, name)
		}
		return g, err
	}
	err = s.db.View(ctx, "read security group", func(tx *sqldb.Tx) error {
		if project := seedbed.ProjectOf(name); name == seedbed.Qualified(project, seedbed.OpenGroup) {
			known, err := access.ReadProjects(ctx, tx, []string{project})
			if g = seedbed.OpenRules(name); err == nil && len(known) == 0 {
				err = noGroup(seedbed.ErrNotFound, name)
			}
			return err
		}
		g, err = sqldb.One(ctx, tx, scanGroup, noGroup(seedbed.ErrNotFound, name),
			`SELECT `+groupColumns+` FROM security_group WHERE name = $1`, name)
		return err
	})
	return g, err
}

// SecurityGroups returns all security groups sorted by name, and those that the ACLs of networks make. The group "open" of each project
// is not one of them.
func (s *Store) SecurityGroups(ctx context.Context) (all []seedbed.SecurityGroup, err error) {
	err = s.db.View(ctx, "list security groups", func(tx *sqldb.Tx) error {
		if all, err = ReadSecurityGroups(ctx, tx); err != nil {
			return err
		}
		networks, err := ReadNetworks(ctx, tx)
		for _, n := range networks {
			all = append(all, n.ACLGroups()...)
		}
		return err
	})
	slices.SortFunc(all, func(a, b seedbed.SecurityGroup) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// ReadSecurityGroups is Store.SecurityGroups in a transaction, without those of ACLs.
func ReadSecurityGroups(ctx context.Context, tx *sqldb.Tx) ([]seedbed.SecurityGroup, error) {
	return sqldb.List(ctx, tx, scanGroup, `SELECT `+groupColumns+` FROM security_group ORDER BY name`)
}

// ChangeSecurityGroup changes the description and the rules of a security group. change sets these, and may be called more
// than once. Every node is notified. It returns ErrNotFound, ErrInvalid, ErrExists for a rule that is there twice, or the
// error of change.
func (s *Store) ChangeSecurityGroup(
	ctx context.Context, name string, change func(*seedbed.SecurityGroup) error,
) (g seedbed.SecurityGroup, err error) {
	err = s.db.Update(ctx, "change security group "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if g, err = changedGroup(ctx, tx, name); err != nil {
			return err
		}
		was := g
		g.Rules = slices.Clone(g.Rules)
		if err := change(&g); err != nil {
			return err
		}
		g.Name, g.Created = was.Name, was.Created
		if err := checked(g, was.Rules); err != nil {
			return err
		}
		if g.Description == was.Description && slices.Equal(g.Rules, was.Rules) {
			return sqldb.ErrUnchanged
		}
		if err := referred(ctx, tx, g); err != nil {
			return err
		}
		err := sqldb.Exec(ctx, tx, `UPDATE security_group SET description = $1, rules = $2 WHERE name = $3`,
			g.Description, sqldb.AsJSON(g.Rules), name)
		if err == nil {
			err = fittingGroup(ctx, tx, g, was.Rules)
		}
		if err != nil {
			return err
		}
		return s.touch(ctx, tx)
	})
	return g, err
}

func changedGroup(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.SecurityGroup, error) {
	if network := seedbed.NetworkOfGroup(name); network != "" {
		return seedbed.SecurityGroup{}, seedbed.Errorf(seedbed.ErrInvalid,
			"security group %q is what the ACLs of network %q make: change these, with \"pvc network acl add|remove\"",
			sqldb.Clean(name, 80), sqldb.Clean(network, 80))
	}
	if seedbed.ShortName(name) == seedbed.OpenGroup {
		return seedbed.SecurityGroup{}, seedbed.Errorf(seedbed.ErrInvalid,
			"security group %q is built in, allows everything, and does not change: make another, and put NICs into that", sqldb.Clean(name, 80))
	}
	return sqldb.LockOne(ctx, tx, scanGroup, noGroup(seedbed.ErrNotFound, name),
		`UPDATE security_group SET name = name WHERE name = $1 RETURNING `+groupColumns, name)
}

// DeleteSecurityGroup removes a security group that no NIC is in and no other group's rule names. It returns ErrNotFound,
// ErrInUse with what uses it, or the error of a check that the group does not pass.
func (s *Store) DeleteSecurityGroup(ctx context.Context, name string, checks ...func(seedbed.SecurityGroup) error) error {
	return s.db.Update(ctx, "delete security group "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		g, err := changedGroup(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(g, checks); err != nil {
			return err
		}
		var users catalogue.Uses
		err = users.Read(ctx, tx, []catalogue.UserKind{{What: "instance", Query: `SELECT DISTINCT instance.project, ` + FullName + ` AS full_name
			FROM nic JOIN instance ON instance.id = nic.instance
			WHERE ` + names("nic.security_groups") + ` OR instance.id IN
				(SELECT job.instance FROM job WHERE ` + movesNIC + ` AND ` + names(withoutNetwork) + `) ORDER BY full_name`}}, name)
		if err != nil {
			return err
		}
		if err := groupProfiles(ctx, tx, &users, name); err != nil {
			return err
		}
		all, err := ReadSecurityGroups(ctx, tx)
		if err != nil {
			return err
		}
		var by []catalogue.User
		for _, other := range all {
			if other.Name != name && slices.ContainsFunc(other.Rules, func(r seedbed.SecurityRule) bool { return r.Group == name }) {
				by = append(by, catalogue.User{Project: seedbed.ProjectOf(other.Name), Name: other.Name})
			}
		}
		users.Add(ctx, "security group", by)
		if by := users.String(); by != "" {
			return seedbed.Errorf(seedbed.ErrInUse, "security group %q is used by %s: change these first", name, by)
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM security_group WHERE name = $1`, name)
	})
}

// names is the condition that the list of names in a column has the name $1.
func names(column string) string {
	return `REPLACE(` + column + `, '"' || CAST($1 AS text) || '"', '') <> ` + column
}

// groupProfiles adds the profiles that name a security group.
func groupProfiles(ctx context.Context, tx *sqldb.Tx, users *catalogue.Uses, name string) error {
	all, err := sqldb.List(ctx, tx, catalogue.ScanProfile, `SELECT `+catalogue.ProfileColumns+` FROM profile
		WHERE `+names("security_groups")+` OR `+names("nics")+` ORDER BY name`, seedbed.ShortName(name))
	var by []catalogue.User
	for _, p := range all {
		groups := slices.Clone(p.SecurityGroups)
		for _, n := range p.NICs { // in nics, the name may also be that of a network
			groups = append(groups, n.Groups...)
		}
		if seedbed.ProjectOf(p.Name) == seedbed.ProjectOf(name) && slices.Contains(groups, seedbed.ShortName(name)) {
			by = append(by, catalogue.User{Project: seedbed.ProjectOf(p.Name), Name: p.Name})
		}
	}
	users.Add(ctx, "profile", by)
	return err
}

// DropSecurityGroups removes the security groups of a project that has no instances.
func DropSecurityGroups(ctx context.Context, tx *sqldb.Tx, project string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM security_group WHERE name LIKE $1`, project+"/%") // names of projects have neither % nor _
}

// batchGroups holds which security groups there are, by name, as far as the writes of a batch asked.
type batchGroups map[string]bool

// LockSecurityGroups locks security groups in one order. A transaction calls it after LockNetworks. Groups that do not
// exist are left out.
func LockSecurityGroups(ctx context.Context, b *groupcommit.Batch, names []string) error {
	known := groupcommit.Of[batchGroups](b)
	if *known == nil {
		*known = batchGroups{}
	}
	return sqldb.InOrder(names, func(name string) error {
		if _, ok := (*known)[name]; ok || seedbed.CheckName("security group", seedbed.ShortName(name)) != nil {
			return nil
		}
		found, err := catalogue.LockSecurityGroup(ctx, b.Tx, name)
		if err == nil {
			(*known)[name] = found
		}
		return err
	})
}

// SecurityGroupsOf returns the security groups that an instance's NICs may come to be in.
func SecurityGroupsOf(i *seedbed.Instance) (names []string) {
	if i == nil {
		return nil
	}
	for _, n := range i.NICs {
		if names = append(names, n.Groups...); len(n.Groups) == 0 {
			names = append(names, defaultGroup(i.Project))
		}
	}
	return names
}

func defaultGroup(project string) string {
	if project == "" {
		project = seedbed.DefaultProject
	}
	return seedbed.Qualified(project, seedbed.DefaultGroup)
}

// joined returns the groups that a new NIC of a project is in: those that it asks for, or else the group "default" if there
// is one.
func joined(b *groupcommit.Batch, project string, n seedbed.NIC) ([]string, error) {
	known := *groupcommit.Of[batchGroups](b)
	if len(n.Groups) == 0 {
		if name := defaultGroup(project); known[name] {
			return []string{name}, nil
		}
		return []string{}, nil
	}
	return n.Groups, checkJoined(project, n, func(name string) bool { return known[name] })
}

// checkJoined returns ErrInvalid unless a NIC of a project can be in its groups.
func checkJoined(project string, n seedbed.NIC, exists func(string) bool) error {
	if len(n.Groups) > seedbed.MaxSecurityGroups {
		return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d is in %d security groups: expected at most %d",
			n.Index, len(n.Groups), seedbed.MaxSecurityGroups)
	}
	for i, name := range n.Groups {
		switch {
		case seedbed.ProjectOf(name) != project:
			return seedbed.Errorf(seedbed.ErrInvalid, "security group %q of NIC %d is not one of project %s",
				sqldb.Clean(name, 80), n.Index, project)
		case slices.Contains(n.Groups[:i], name):
			return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d is in security group %q twice", n.Index, name)
		case seedbed.ShortName(name) != seedbed.OpenGroup && !exists(name):
			return noGroup(seedbed.ErrInvalid, name)
		}
	}
	return nil
}

// regroup writes the security groups of an instance's NICs which differ from those of before. It returns ErrInvalid if a
// NIC cannot be in them.
func regroup(ctx context.Context, tx *sqldb.Tx, inst seedbed.Instance, before []seedbed.NIC) error {
	for i, n := range inst.NICs {
		if slices.Equal(n.Groups, before[i].Groups) {
			continue
		}
		if err := kept(ctx, tx, n); err != nil {
			return err
		}
		found := map[string]bool{}
		err := sqldb.InOrder(slices.Clone(n.Groups), func(name string) (err error) {
			found[name], err = catalogue.LockSecurityGroup(ctx, tx, name)
			return err
		})
		if err != nil {
			return err
		}
		if err := checkJoined(inst.Project, n, func(name string) bool { return found[name] }); err != nil {
			return err
		}
		err = sqldb.Exec(ctx, tx, `UPDATE nic SET security_groups = $1 WHERE instance = $2 AND idx = $3`,
			sqldb.AsJSON(sqldb.OrEmpty(n.Groups)), inst.ID, n.Index)
		if err != nil {
			return err
		}
	}
	return nil
}
