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

// callerKey is where a request's caller travels with it.
const callerKey = "seedbed.caller"

// caller is who asks.
type caller struct {
	// name is "token NAME", or "uid N" of the control socket.
	name string
	role seedbed.Role
	// peer is the address; empty on the control socket.
	peer string
	// token is the name of the token that was shown, and quota the token's.
	token string
	quota seedbed.TokenQuota
	// sum is the digest of the token's secret; zero on the control socket.
	sum [sha256.Size]byte
}

func callerOf(c *fiber.Ctx) caller {
	who, _ := c.Locals(callerKey).(caller)
	return who
}

// local lets whoever could open the control socket do all.
func (r *router) local(c *fiber.Ctx) error {
	c.Locals(callerKey, caller{name: "uid " + peerUID(c.Context()), role: seedbed.RoleAdmin})
	return c.Next()
}

// peerUID is the user at the other end of a unix socket (unix(7), SO_PEERCRED).
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
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = strconv.Itoa(int(cred.Uid))
		}
	})
	return uid
}

// authorize lets a request pass whose caller's role is enough for it.
func (r *router) authorize(c *fiber.Ctx) error {
	need := needed(c.Method(), c.Path())
	if who := callerOf(c); !who.role.Allows(need) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, and this takes %s", who.name, who.role, need)
	}
	return c.Next()
}

// administered are the resources that only an admin changes.
var administered = map[string]bool{
	"hooks": true, "endpoints": true, "networks": true, "nodes": true, "maintenance": true, "cleanup": true, "tokens": true, "audit": true,
}

// reserved are those that only an admin even reads.
var reserved = map[string]bool{"tokens": true, "audit": true}

// secretive are what an instance has that may hold secrets: reading takes an operator.
var secretive = map[string]bool{"metadata": true, "console": true}

// needed is the least role for a request.
func needed(method, path string) seedbed.Role {
	parts := strings.Split(strings.TrimPrefix(path, prefix+"/"), "/")
	switch {
	case unguarded(method, path):
		return seedbed.RoleViewer
	case reserved[parts[0]]:
		return seedbed.RoleAdmin
	case method == fiber.MethodGet || method == fiber.MethodHead:
		if parts[0] == "catalogue" && len(parts) == 1 { // it has all documents and scripts
			return seedbed.RoleOperator
		}
		if parts[0] == "jobs" && len(parts) > 2 && parts[2] == "output" { // scripts put out what they like
			return seedbed.RoleOperator
		}
		if parts[0] == "provisioner" && len(parts) > 1 && (parts[1] == "userdata" || parts[1] == "script") {
			return seedbed.RoleOperator
		}
		if (parts[0] == "instances" || parts[0] == "vm") && len(parts) > 2 && secretive[parts[2]] || parts[0] == "hooks" && len(parts) > 3 { // a delivery's payload
			return seedbed.RoleOperator
		}
		return seedbed.RoleViewer
	case administered[parts[0]]:
		return seedbed.RoleAdmin
	}
	return seedbed.RoleOperator
}
