package catalogue

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

// User is an object of a project that uses another object, by the name that messages have.
type User struct{ Project, Name string }

// ScanUser scans the project and the name of a user. The project of what has a qualified name is left empty.
func ScanUser(r sqldb.Row) (u User, err error) {
	err = r.Scan(&u.Project, &u.Name)
	if u.Project == "" {
		u.Project = seedbed.ProjectOf(u.Name)
	}
	return u, err
}

// UserKind says where the users of one kind are found: the word for one, and a query of the projects and names
// as [ScanUser] reads them, for the name of what is used.
type UserKind struct{ What, Query string }

// Uses collects what uses an object, as far as who asks for the change may learn of it.
type Uses struct {
	lines  []string
	others bool // of which who asks may not learn
}

// Read adds the users of some kinds of the object called name.
func (u *Uses) Read(ctx context.Context, tx *sqldb.Tx, kinds []UserKind, name string) error {
	for _, k := range kinds {
		all, err := sqldb.List(ctx, tx, ScanUser, k.Query, name)
		if err != nil {
			return err
		}
		u.Add(ctx, k.What, all)
	}
	return nil
}

// Add adds users; what is the word for one.
func (u *Uses) Add(ctx context.Context, what string, all []User) {
	told := Told(ctx, all, func(v User) string { return v.Project })
	u.others = u.others || len(told) < len(all)
	if line := listed(what, told); line != "" {
		u.lines = append(u.lines, line)
	}
}

// String returns what uses the object, such as "profile web and other projects"; empty if nothing does.
func (u *Uses) String() string {
	lines := u.lines
	if u.others {
		lines = append(lines, "other projects")
	}
	return strings.Join(lines, " and ")
}

// listed returns the names of some users, at most five, after the word for one; empty if there are none.
func listed(what string, all []User) string {
	const most = 5
	var names []string
	for _, v := range all[:min(most, len(all))] {
		names = append(names, v.Name)
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return what + " " + names[0]
	}
	if len(all) > most {
		names[most-1] += " and others"
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return what + "s " + strings.Join(names, ", ")
}
