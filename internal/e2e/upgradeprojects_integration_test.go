//go:build integration

package e2e

import (
	"strings"

	"seedbed"
)

// checkProjects expects that all that fill has made is in the default project, and makes another one
// with an instance of the same name.
func (u *upgraded) checkProjects() {
	var projects []struct{ Name, Number string }
	u.decode(u.cli("project", "list", "-f", "json"), &projects)
	if len(projects) != 1 || projects[0].Name != seedbed.DefaultProject || len(projects[0].Number) != 12 {
		u.t.Fatalf("projects %+v; expected the default one, with a number of twelve digits", projects)
	}
	for _, noun := range []string{"vm", "job", "hook", "endpoint", "token", "audit"} {
		args := []string{noun, "list", "-f", "json", "--all"}
		if noun == "audit" {
			args = []string{noun, "-f", "json", "--all"}
		}
		var all []struct{ Project, Account string }
		u.decode(u.cli(args...), &all)
		if len(all) == 0 {
			u.t.Errorf("no object of %s", noun)
		}
		for _, o := range all {
			if o.Project != seedbed.DefaultProject || noun == "vm" && o.Account != projects[0].Number {
				u.t.Errorf("an object of %s is in %+v; expected %+v", noun, o, projects[0])
			}
		}
	}
	u.cli("project", "add", "acme")
	u.cli("create", "web1", "composed", "--no-wait", "--project", "acme")
	var made struct{ Project, Account string }
	u.decode(u.cli("vm", "show", "web1", "--project", "acme", "-f", "json"), &made)
	if made.Project != "acme" || len(made.Account) != 12 || made.Account == projects[0].Number {
		u.t.Errorf("the instance of another project is in %+v, and those of the default project in %+v", made, projects[0])
	}
}

// publish lets all projects use what fill has made.
func (u *upgraded) publish() {
	u.t.Helper()
	for _, object := range []string{"image debian", "profile native", "profile composed", "profile scripted"} {
		kind, name, _ := strings.Cut(object, " ")
		u.cli("project", "share", kind, name, "--all")
	}
}

// checkPublished expects that a new project can use what was published before the upgrade, and that it can be
// withdrawn.
func (u *upgraded) checkPublished() {
	u.t.Helper()
	u.cli("token", "add", "tenant", "--role", "operator", "--project", "acme", "--out", u.file("tenant"))
	tenant := []string{"--url", "http://" + u.api, "--token-file", u.file("tenant")}
	as := func(args ...string) []string { return append(tenant[:len(tenant):len(tenant)], args...) }
	u.shows([]string{"image", "show", "debian"}, "all projects")
	u.shows([]string{"network", "show", "default"}, "all projects")
	u.shows(as("image", "list"), "debian")
	u.shows(as("profile", "list"), "native", "composed", "scripted")
	u.cli(as("create", "native", "native", "--no-wait")...)
	u.shows(as("vm", "show", "native"), "default", "acme")

	// Its import waits for a worker. That says that the project may use it.
	own := as("create", "own", "--image", "debian", "--network", "default", "--no-wait")
	u.fails(own, `image "debian" is importing`)
	u.shows([]string{"project", "share", "image", "debian", "--with", "shop"}, "image debian: shop")
	u.fails(own, `image "debian" does not exist`)
	u.shows([]string{"project", "share", "image", "debian", "--with", "acme"}, "image debian: acme")
	u.fails(own, `image "debian" is importing`)
}

// checkRoles expects that the tokens and hooks from before the upgrade have their rights, and that a role
// which is made now has its own.
func (u *upgraded) checkRoles() {
	u.t.Helper()
	ann, desk := []string{"--url", "http://" + u.api, "--token-file", u.file("token")}, u.file("desk")
	u.shows(append(ann, "whoami"), "token ann", "operator", "default=operator", "instance.create")
	u.fails(append(ann, "token", "list"), "token.read")
	u.cli("role", "add", "starter", "--allow", "instance.read,instance.power")
	u.cli("token", "add", "desk", "--role", "starter", "--also", "acme=viewer", "--out", desk)
	at := []string{"--url", "http://" + u.api, "--token-file", desk}
	u.shows(append(at, "vm", "list"), "web1", "web4")
	u.shows(append(at, "vm", "list", "--project", "acme"), "web1")
	u.fails(append(at, "image", "list"), "does not have image.read")
}

// shows expects that a command writes all of these.
func (u *upgraded) shows(args []string, want ...string) {
	u.t.Helper()
	out := u.cli(args...)
	for _, w := range want {
		if !strings.Contains(out, w) {
			u.t.Errorf("%v does not show %q:\n%s", args, w, out)
		}
	}
}

// fails expects that a command is refused and says why.
func (u *upgraded) fails(args []string, want string) {
	u.t.Helper()
	if out, errs, err := u.run(args...); err == nil || !strings.Contains(errs, want) {
		u.t.Errorf("%v: %v, %q, %q; expected a refusal that says %q", args, err, out, errs, want)
	}
}
