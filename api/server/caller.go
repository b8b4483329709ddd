package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/provision/network"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// callerKey is the key of the caller among a request's locals.
const callerKey = "seedbed.caller"

// Caller is who sent a request. Its Name and Grants are known from the start; enter sets the rest of what
// it may do.
type Caller struct {
	// Name is "token NAME", the [seedbed.Person.Actor] of a person, or "uid N" of the control socket.
	Name string
	// Grants are its roles in projects, each of which is there once. Requests that name no project act
	// in that of the first.
	Grants []seedbed.Grant
	// Grant is the grant by which the request acts.
	Grant seedbed.Grant
	// Project is the project that the request acts in. It is another than the grant's if the caller may
	// act in every project.
	Project string
	// Home reports whether the grant is for the default project. The caller may then see what belongs to
	// the installation as a whole.
	Home bool
	// Session is that of a person; zero for other callers.
	Session seedbed.Session
	// actions are those of the grant's role.
	actions seedbed.ActionSet
	// peer is the address; empty on the control socket.
	peer string
	// token is the name of the token that was presented. quota is that token's quota.
	token string
	quota seedbed.TokenQuota
	// sum is the digest of the token's secret; zero on the control socket.
	sum [sha256.Size]byte
	// named is true if the request names the project that it acts in.
	named bool
	// everywhere is true if the caller may see the objects of every project by their IDs.
	everywhere bool
}

// May reports whether the caller may do a in the project that the request acts in.
func (w Caller) May(a seedbed.Action) bool {
	info, _ := a.Info()
	return w.actions.Has(a) && (w.Home || !info.Installation)
}

// Actions returns what the caller may do in the project that the request acts in.
func (w Caller) Actions() seedbed.ActionSet { return w.actions.In(w.Grant.Project) }

// Shown returns the name of the caller as those of its project may read it.
func (w Caller) Shown() string {
	if w.visits() {
		return seedbed.InstallationActor
	}
	return w.Name
}

// visits reports whether the caller is an admin of the installation, and acts in another project than the default one.
func (w Caller) visits() bool { return w.Home && w.Project != seedbed.DefaultProject }

// Need returns ErrForbidden unless the caller may do a.
func (w Caller) Need(a seedbed.Action) error {
	switch {
	case w.May(a):
		return nil
	case w.actions.Has(a):
		return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, but %s is about the installation as a whole",
			w.Name, w.Project, a)
	}
	return w.Grant.Lacks(w.Name, a)
}

// Asker returns the caller as one who asks for a network.
func (w Caller) Asker() network.Asker {
	return network.Asker{Name: w.Name, Project: w.Project, Home: w.Home, Protect: w.Need(seedbed.ActionNetworkProtect)}
}

// Networks returns what the installation says about networks.
func (r *Router) Networks() network.Rules {
	return network.Rules{Resolvers: r.Resolvers, Prefixes: r.NetworkPrefixes}
}

// Scope returns the scope in which the caller sees an object by its ID: the project that it acts in
// or, for an admin of the installation who names none, all projects.
func (w Caller) Scope() seedbed.Scope {
	if w.everywhere {
		return seedbed.AllProjects()
	}
	return seedbed.InProject(w.Project)
}

// Instance returns the full name of the instance of that name in the caller's project.
func (w Caller) Instance(name string) seedbed.InstanceName { return seedbed.Named(w.Project, name) }

// Qualified returns the qualified name of a token, hook or endpoint, as a request names it, or of an image that
// it makes: one without a project is in the caller's. What is in a project that the caller does not see is ErrNotFound.
func (w Caller) Qualified(kind, name string) (string, error) {
	project, short, qualified := strings.Cut(name, "/")
	if !qualified {
		project, short = w.Project, name
	}
	checked := short
	if kind == "security group" {
		checked = cmp.Or(seedbed.NetworkOfGroup(short), short)
	}
	if err := seedbed.CheckName(kind, checked); err != nil {
		return "", err
	}
	if !w.Scope().Sees(project) {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "%s %q does not exist", kind, seedbed.Clip(name))
	}
	return seedbed.Qualified(project, short), nil
}

// SeesSession reports whether the caller may see and end a session: one of the same person, or any if it
// manages those of all.
func (w Caller) SeesSession(s seedbed.Session) bool {
	return w.Session.ID != "" && w.Session.Same(s.Person) || w.May(seedbed.ActionSessionManage)
}

// enter returns the caller in the project that the request acts in: that which the header Seedbed-Project
// names, or that of the first grant. It is refused in a project for which it has no grant, unless it may
// act in every project. The answer does not depend on whether there is that project.
func (r *Router) enter(c *fiber.Ctx, who Caller) (Caller, error) {
	return r.enterProject(who, strings.Clone(httpserve.FieldsOf(c.Context()).Get("seedbed-project")))
}

// enterProject is enter for the project that is asked for; empty means that of the first grant.
func (r *Router) enterProject(who Caller, asked string) (Caller, error) {
	who.named = asked != ""
	grant, granted := who.Grants[0], asked == ""
	if !granted {
		grant, granted = seedbed.GrantIn(who.Grants, asked)
	}
	if !granted {
		grant, _ = seedbed.GrantIn(who.Grants, seedbed.DefaultProject)
	}
	ctx, cancel := context.WithTimeout(r.base, CallTimeout)
	defer cancel()
	var err error
	if who.actions, err = r.actionsOf(ctx, grant.Role); err != nil {
		return who, err
	}
	who.Grant, who.Project, who.Home = grant, grant.Project, grant.Project == seedbed.DefaultProject
	switch enters := who.May(seedbed.ActionProjectEnter); {
	case granted:
		who.everywhere = enters && asked == ""
	case !enters:
		return who, seedbed.Errorf(seedbed.ErrForbidden, "%s has no role in project %q: it acts in %s",
			who.Name, seedbed.Clip(asked), projectsOf(who.Grants))
	default:
		p, err := r.Store.Project(ctx, asked)
		who.Project = p.Name
		return who, err
	}
	return who, nil
}

// projectsOf returns the names of the projects of grants.
func projectsOf(grants []seedbed.Grant) string {
	return strings.Join(Each(grants, func(g seedbed.Grant) string { return g.Project }), ", ")
}

// actionsOf returns the actions that a role has now. One that does not exist has none.
func (r *Router) actionsOf(ctx context.Context, role seedbed.Role) (seedbed.ActionSet, error) {
	if set, ok := role.BuiltIn(); ok || role == "" {
		return set, nil
	}
	made, err := r.Store.RoleOf(ctx, role)
	if errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.ActionsOf(), nil
	}
	return made.Set(), err
}

// ScopeOf returns the scope of a list: the project that the caller acts in or, if the query asks for
// it, all projects, which only an admin of the installation may.
func ScopeOf(c *fiber.Ctx) (seedbed.Scope, error) {
	who := CallerOf(c)
	switch all := c.Query("all_projects"); {
	case all == "" || all == "false":
		return seedbed.InProject(who.Project), nil
	case all != "true":
		return seedbed.Scope{}, Invalid("all_projects %q: expected true or false", seedbed.Clip(all))
	case !who.May(seedbed.ActionProjectEnter):
		return seedbed.Scope{}, who.Need(seedbed.ActionProjectEnter)
	}
	return seedbed.AllProjects(), nil
}

// SiteScopeOf returns the scope of what operators look after for the whole installation: the trash,
// orphans, leases and the audit log. A caller from the default project sees all of it, unless the request
// names a project. For others it is ScopeOf.
func SiteScopeOf(c *fiber.Ctx) (seedbed.Scope, error) {
	if who := CallerOf(c); who.Home && !who.named && c.Query("all_projects") == "" {
		return seedbed.AllProjects(), nil
	}
	return ScopeOf(c)
}

// CallerOf returns the caller of a request.
func CallerOf(c *fiber.Ctx) Caller {
	who, _ := c.Locals(callerKey).(Caller)
	return who
}

// local makes the caller an admin of the installation: the control socket's file mode has already decided who may
// connect.
func (r *Router) local(c *fiber.Ctx) error {
	who, err := r.enter(c, Caller{
		Name: "uid " + peerUID(c.Context()), Grants: []seedbed.Grant{{Project: seedbed.DefaultProject, Role: seedbed.RoleAdmin}},
	})
	if err != nil {
		return err
	}
	c.Locals(callerKey, who)
	return c.Next()
}

// peerUID returns the user ID of the process at the other end of a Unix socket (unix(7),
// SO_PEERCRED).
func peerUID(ctx *fasthttp.RequestCtx) string {
	conn, ok := ctx.Conn().(*net.UnixConn)
	if !ok {
		return "?"
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return "?"
	}
	uid := "?"
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = strconv.Itoa(int(cred.Uid))
		}
	})
	return uid
}
