package seedbed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Role is the name of a set of actions: what a caller of the API may do. Viewer, operator and admin are
// built in; each of them has the actions of those before it. The others are made: see CustomRole.
type Role string

// The built-in roles.
const (
	// RoleViewer reads everything except what may hold secrets.
	RoleViewer Role = "viewer"
	// RoleOperator makes, changes and removes instances, images and profiles.
	RoleOperator Role = "operator"
	// RoleAdmin also manages tokens, hooks, endpoints, networks and nodes, and so decides what
	// others may do.
	RoleAdmin Role = "admin"
)

// Roles returns the built-in roles. Each has the actions of those before it.
func Roles() []Role { return []Role{RoleViewer, RoleOperator, RoleAdmin} }

// builtIn has the actions of the built-in roles, which follow from the table of actions.
var builtIn = func() map[Role]ActionSet {
	sets := map[Role]ActionSet{}
	for rank, role := range Roles() {
		sets[role] = ActionSet{map[Action]bool{}}
		for _, a := range actions {
			if slices.Index(Roles(), a.Role) <= rank {
				sets[role].has[a.Name] = true
			}
		}
	}
	return sets
}()

// BuiltIn returns the actions of a built-in role, and false for another one.
func (r Role) BuiltIn() (ActionSet, bool) {
	set, ok := builtIn[r]
	return set, ok
}

// Description returns what a built-in role is for.
func (r Role) Description() string {
	return map[Role]string{
		RoleViewer:   "reads everything except what may hold secrets",
		RoleOperator: "also makes, changes and removes instances, images and profiles",
		RoleAdmin:    "does everything",
	}[r]
}

// CheckCustom returns ErrConflict if the role is built in.
func (r Role) CheckCustom() error {
	if _, ok := r.BuiltIn(); ok {
		return Errorf(ErrConflict, "role %s is built in: it cannot be made, changed or removed", r)
	}
	return nil
}

// ParseRole parses the name of a role, which may not exist. It returns ErrInvalid for a text that cannot
// be one.
func ParseRole(s string) (Role, error) {
	if err := CheckName("role", s); err != nil {
		return "", err
	}
	return Role(s), nil
}

// NoRole returns the error for a role that does not exist, ErrNotFound.
func NoRole(name Role) error {
	return Errorf(ErrNotFound, "role %q does not exist", Clip(string(name)))
}

// CustomRole is a role that was made. Every project can use it.
type CustomRole struct {
	Name        Role   `json:"name"`
	Description string `json:"description"`
	// Actions are the names of actions, and "noun.*" for all actions of that noun, sorted.
	Actions []string `json:"actions"`
	// Revision, Created and Changed are zero for a built-in role.
	Revision int64     `json:"revision,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	Changed  time.Time `json:"changed,omitzero"`
}

// Set returns the actions that the role has in this release.
func (r CustomRole) Set() ActionSet { return ActionsOf(r.Actions...) }

// MaxRoleDescription is the largest number of bytes of a role's description.
const MaxRoleDescription = 1000

// Check returns ErrInvalid if the role cannot be made as it is.
func (r CustomRole) Check() error {
	if _, err := ParseRole(string(r.Name)); err != nil {
		return err
	}
	if err := r.Name.CheckCustom(); err != nil {
		return err
	}
	if len(r.Description) > MaxRoleDescription {
		return Errorf(ErrInvalid, "role %s: its description has %d bytes: expected at most %d", r.Name, len(r.Description), MaxRoleDescription)
	}
	if len(r.Actions) == 0 {
		return Errorf(ErrInvalid, "role %s has no actions: expected some (seedbed role actions lists them)", r.Name)
	}
	for n, name := range r.Actions {
		if !isPattern(name) {
			return Errorf(ErrInvalid, "role %s: action %q is unknown: expected one such as %s, or one such as instance.* "+
				"(seedbed role actions lists them)", r.Name, Clip(name), ActionInstanceRead)
		}
		if slices.Contains(r.Actions[:n], name) {
			return Errorf(ErrInvalid, "role %s: action %s is there twice", r.Name, name)
		}
	}
	return nil
}

// isPattern reports whether name is an action, or "noun.*" for the noun of one.
func isPattern(name string) bool {
	noun, all := strings.CutSuffix(name, ".*")
	if !all {
		_, ok := Action(name).Info()
		return ok
	}
	return slices.ContainsFunc(actions, func(a ActionInfo) bool { return a.Name.noun() == noun })
}

// Grant gives a caller a role in a project.
type Grant struct {
	Project string `json:"project"`
	Role    Role   `json:"role"`
}

// String returns the grant as "project=role".
func (g Grant) String() string { return g.Project + "=" + string(g.Role) }

// ParseGrant parses a grant as "project=role". It returns ErrInvalid if it is not one.
func ParseGrant(s string) (Grant, error) {
	project, role, ok := strings.Cut(s, "=")
	if !ok {
		return Grant{}, Errorf(ErrInvalid, "grant %q: expected PROJECT=ROLE, such as acme=viewer", Clip(s))
	}
	g := Grant{Project: project, Role: Role(role)}
	return g, g.check()
}

func (g Grant) check() error {
	if err := CheckProjectName(g.Project); err != nil {
		return err
	}
	_, err := ParseRole(string(g.Role))
	return err
}

// maxGrants is the largest number of projects that one caller acts in by name.
const maxGrants = 100

// CheckGrants returns ErrInvalid if grants cannot be those of one caller: each project is there once.
func CheckGrants(grants []Grant) error {
	if len(grants) > maxGrants {
		return Errorf(ErrInvalid, "%d grants: expected at most %d", len(grants), maxGrants)
	}
	for n, g := range grants {
		if err := g.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(grants[:n], func(other Grant) bool { return other.Project == g.Project }) {
			return Errorf(ErrInvalid, "project %s has two grants: expected one", g.Project)
		}
	}
	return nil
}

// GrantIn returns the grant for a project, and false if there is none.
func GrantIn(grants []Grant, project string) (Grant, bool) {
	n := slices.IndexFunc(grants, func(g Grant) bool { return g.Project == project })
	if n < 0 {
		return Grant{}, false
	}
	return grants[n], true
}

// Lacks returns the error for a caller whose role lacks what a request needs, ErrForbidden.
func (g Grant) Lacks(who string, a Action) error {
	return Errorf(ErrForbidden, "%s has the role %s in project %s, which does not have %s", who, g.Role, g.Project, a)
}

// AllGrants returns what the token's holder may do: in its project, and then in the others.
func (t Token) AllGrants() []Grant {
	return append([]Grant{{Project: cmp.Or(t.Project, DefaultProject), Role: t.Role}}, t.Grants...)
}

// GrantLine returns grants on one line, as "project=role" each.
func GrantLine(grants []Grant) string {
	texts := make([]string, len(grants))
	for n, g := range grants {
		texts[n] = fmt.Sprint(g)
	}
	return strings.Join(texts, ", ")
}
