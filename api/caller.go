package api

import (
	"crypto/sha256"
	"net"
	"strconv"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// callerKey is the key of the caller among a request's locals.
const callerKey = "seedbed.caller"

// caller is who sent a request.
type caller struct {
	// name is "token NAME", or "uid N" of the control socket.
	name string
	role seedbed.Role
	// peer is the address; empty on the control socket.
	peer string
	// token is the name of the token that was presented. quota is that token's quota.
	token string
	quota seedbed.TokenQuota
	// sum is the digest of the token's secret; zero on the control socket.
	sum [sha256.Size]byte
}

func callerOf(c *fiber.Ctx) caller {
	who, _ := c.Locals(callerKey).(caller)
	return who
}

// local makes the caller an admin: the control socket's file mode has already decided who may
// connect.
func (r *router) local(c *fiber.Ctx) error {
	c.Locals(callerKey, caller{name: "uid " + peerUID(c.Context()), role: seedbed.RoleAdmin})
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

// authorize refuses a request whose caller has a lesser role than need.
func authorize(c *fiber.Ctx, need seedbed.Role) error {
	if who := callerOf(c); !who.role.Allows(need) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, and this takes %s", who.name, who.role, need)
	}
	return nil
}

// authorizePVC is like authorize for PVC's paths, whose roles are not in the route table.
func (r *router) authorizePVC(c *fiber.Ctx) error {
	if compatible(c.Path()) {
		if err := authorize(c, neededPVC(c.Method(), c.Path())); err != nil {
			return err
		}
	}
	return c.Next()
}

// neededPVC returns the least role for a request of PVC's API. Documents, scripts, metadata and
// consoles may hold secrets.
func neededPVC(method, path string) seedbed.Role {
	switch {
	case unguarded(method, path):
		return seedbed.RoleViewer
	case method != fiber.MethodGet && method != fiber.MethodHead:
		return seedbed.RoleOperator
	}
	parts := strings.Split(strings.TrimPrefix(path, prefix+"/"), "/")
	switch {
	case parts[0] == "provisioner" && len(parts) > 1 && (parts[1] == "userdata" || parts[1] == "script"),
		parts[0] == "vm" && len(parts) > 2 && (parts[2] == "metadata" || parts[2] == "console"):
		return seedbed.RoleOperator
	}
	return seedbed.RoleViewer
}
