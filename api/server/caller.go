package server

import (
	"crypto/sha256"
	"net"
	"strconv"

	"seedbed"

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
	// peer is the address; empty on the control socket.
	peer string
	// token is the name of the token that was presented. quota is that token's quota.
	token string
	quota seedbed.TokenQuota
	// sum is the digest of the token's secret; zero on the control socket.
	sum [sha256.Size]byte
}

// CallerOf returns the caller of a request.
func CallerOf(c *fiber.Ctx) Caller {
	who, _ := c.Locals(callerKey).(Caller)
	return who
}

// local makes the caller an admin: the control socket's file mode has already decided who may
// connect.
func (r *Router) local(c *fiber.Ctx) error {
	c.Locals(callerKey, Caller{Name: "uid " + peerUID(c.Context()), Role: seedbed.RoleAdmin})
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
	if who := CallerOf(c); !who.Role.Allows(need) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, but this needs %s", who.Name, who.Role, need)
	}
	return nil
}
