package server

import (
	"context"
	"crypto/sha256"
	"net"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// callerKey is the key of the caller among a request's locals.
const callerKey = "seedbed.caller"

// Caller is who sent a request.
type Caller struct {
	// Name is "token NAME", or "uid N" of the control socket.
	Name string
	Role seedbed.Role
	// Project is the project that the request acts in.
	Project string
	// Home reports whether the caller belongs to the default project, and may therefore see what
	// belongs to the installation as a whole.
	Home bool
	// peer is the address; empty on the control socket.
	peer string
	// token is the name of the token that was presented. quota is that token's quota.
	token string
	quota seedbed.TokenQuota
	// sum is the digest of the token's secret; zero on the control socket.
	sum [sha256.Size]byte
	// everywhere is true if the caller may see the objects of every project by their IDs.
	everywhere bool
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

// Qualified returns the qualified name of a token, hook or endpoint, as a request names it: one without a
// project is in the caller's. What is in a project that the caller does not see is ErrNotFound.
func (w Caller) Qualified(kind, name string) (string, error) {
	project, short, qualified := strings.Cut(name, "/")
	if !qualified {
		project, short = w.Project, name
	}
	if err := seedbed.CheckName(kind, short); err != nil {
		return "", err
	}
	if !w.Scope().Sees(project) {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "%s %q does not exist", kind, seedbed.Clip(name))
	}
	return seedbed.Qualified(project, short), nil
}

// installation reports whether the caller is an admin of the installation.
func (w Caller) installation() bool { return w.Home && w.Role == seedbed.RoleAdmin }

// enter returns the caller in the project that the request acts in: that which an admin of the
// installation names in the header Seedbed-Project, or that of the caller's token.
func (r *Router) enter(c *fiber.Ctx, who Caller) (Caller, error) {
	asked := strings.Clone(httpserve.FieldsOf(c.Context()).Get("seedbed-project"))
	switch {
	case asked == "":
		who.everywhere = who.installation()
		return who, nil
	case asked == who.Project:
		return who, nil
	case !who.installation():
		return who, seedbed.Errorf(seedbed.ErrForbidden, "%s belongs to project %s: only an admin of the installation acts in another one",
			who.Name, who.Project)
	}
	ctx, cancel := context.WithTimeout(r.base, CallTimeout)
	defer cancel()
	p, err := r.Store.Project(ctx, asked)
	who.Project = p.Name
	return who, err
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
	case !who.installation():
		return seedbed.Scope{}, seedbed.Errorf(seedbed.ErrForbidden, "%s sees the project %s: only an admin of the installation sees all",
			who.Name, who.Project)
	}
	return seedbed.AllProjects(), nil
}

// CallerOf returns the caller of a request.
func CallerOf(c *fiber.Ctx) Caller {
	who, _ := c.Locals(callerKey).(Caller)
	return who
}

// local makes the caller an admin: the control socket's file mode has already decided who may
// connect.
func (r *Router) local(c *fiber.Ctx) error {
	who, err := r.enter(c, Caller{Name: "uid " + peerUID(c.Context()), Role: seedbed.RoleAdmin, Project: seedbed.DefaultProject, Home: true})
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

// authorize refuses a request whose caller has a lesser role than the route needs, or belongs to
// another project than the default one if the route is not one for projects.
func authorize(c *fiber.Ctx, route Route) error {
	who := CallerOf(c)
	if !who.Role.Allows(route.Role) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, but this needs %s", who.Name, who.Role, route.Role)
	}
	if !who.Home && !route.InProject {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s belongs to project %s, but this belongs to the installation as a whole",
			who.Name, who.Project)
	}
	return nil
}
