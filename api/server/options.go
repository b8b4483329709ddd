package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// LetsOut refuses to let a script out of its sandbox unless the caller may do that, and to give it the network
// of the hosts unless the caller acts in the default project.
func LetsOut(c *fiber.Ctx, req wire.ScriptOptionsChange) error {
	who := CallerOf(c)
	switch {
	case req.Privileged != nil && *req.Privileged:
		return who.Need(seedbed.ActionScriptPrivilege)
	case req.Network != nil && *req.Network && !who.Home:
		return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and the network of the hosts belongs to the installation",
			who.Name, who.Project)
	}
	return nil
}

// ChoosesNode refuses nodes in the request of a caller that may not see the nodes. Empty names are none.
func ChoosesNode(c *fiber.Ctx, nodes ...string) error {
	if who := CallerOf(c); strings.Join(nodes, "") != "" && !who.Home {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s belongs to project %s, and cannot choose a node: the placement chooses one",
			who.Name, who.Project)
	}
	return nil
}

// ChoosesHost refuses the nodes of a system template, and a screen that other hosts can reach, unless the caller acts
// in the default project.
func ChoosesHost(c *fiber.Ctx, t seedbed.SystemTemplate) error {
	addr, err := netip.ParseAddr(t.VNCBind)
	if who := CallerOf(c); err == nil && !addr.IsLoopback() && !who.Home {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and vnc_bind %s is an address of the hosts: "+
			"leave it out, and the screen listens on the loopback address", who.Name, who.Project, addr)
	}
	return ChoosesNode(c, t.NodeLimit...)
}

// grants refuses to make a script privileged unless its text is the one that the request names.
func grants(req wire.ScriptOptionsChange, text string) error {
	sum := sha256.Sum256([]byte(text))
	switch {
	case req.Privileged == nil || !*req.Privileged:
		return nil
	case req.SHA256 == "":
		return Invalid("privileged: give the digest of the text that you have read (seedbed: --sha256; sha256 in the API), " +
			"as sha256sum prints it")
	case !strings.EqualFold(req.SHA256, hex.EncodeToString(sum[:])):
		return seedbed.Errorf(seedbed.ErrConflict, "privileged: the text of the script does not have that digest: "+
			"read what is stored now, another may have changed it")
	}
	return nil
}

// ScriptChange returns the change of a script's options that req asks for.
func ScriptChange(req wire.ScriptOptionsChange) (func(*seedbed.Script) error, error) {
	var limit time.Duration
	if req.Time != nil && *req.Time != "" {
		d, err := seedbed.ParseDuration(*req.Time)
		if err != nil {
			return nil, Invalid("time %q is not a duration: expected one such as 30m, or 0s for the worker's limit", seedbed.Clip(*req.Time))
		}
		limit = d
	}
	return func(s *seedbed.Script) error {
		if err := grants(req, s.Text); err != nil {
			return err
		}
		o := &s.Options
		for _, set := range []struct{ to, from *bool }{
			{&o.Privileged, req.Privileged}, {&o.Network, req.Network}, {&o.Always, req.Always}, {&o.IfNeeded, req.IfNeeded},
		} {
			if set.from != nil {
				*set.to = *set.from
			}
		}
		if req.Time != nil {
			o.Time = limit
		}
		if req.Memory != nil {
			o.Memory = *req.Memory
		}
		return nil
	}, nil
}
