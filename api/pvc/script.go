package pvc

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// scriptOptions are Seedbed's additions to PVC's scripts: their privilege and their limits.
type scriptOptions struct {
	Privileged bool   `json:"privileged"`
	Network    bool   `json:"network"`
	Always     bool   `json:"always"`
	IfNeeded   bool   `json:"if_needed"`
	Time       string `json:"time"`
	Memory     string `json:"memory"`
}

func scriptOptionsOf(o seedbed.ScriptOptions) scriptOptions {
	shown := scriptOptions{Privileged: o.Privileged, Network: o.Network, Always: o.Always, IfNeeded: o.IfNeeded}
	if o.Time > 0 {
		shown.Time = o.Time.String()
	}
	if o.Memory > 0 {
		shown.Memory = o.Memory.String()
	}
	return shown
}

// scriptBefore is a script without its text.
type scriptBefore struct {
	documentBefore
	Options scriptOptions `json:"options"`
}

func (r *router) scriptOptionRoutes(p string, get, put routing) {
	get(seedbed.ActionScriptRead, p, func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		found, err := r.scripts().named(ctx, server.CallerOf(c), server.Param(c, "name"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return refused(fiber.StatusNotFound, "%s", r.scripts().none)
		}
		return server.Reply(c, fiber.StatusOK, scriptOptionsOf(found[0].Options))
	})
	put(seedbed.ActionScriptManage, p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		req, err := optionsChange(f)
		if err != nil {
			return err
		}
		change, err := server.ScriptChange(req)
		if err != nil {
			return err
		}
		if err := server.LetsOut(c, req); err != nil {
			return err
		}
		name, err := r.scripts().owned(ctx, c)
		if err != nil {
			return err
		}
		if _, err := r.Store.ChangeScriptOptions(ctx, name, change); err != nil {
			return err
		}
		return say(c, `Changed the options of provisioning script "%s".`, server.Param(c, "name"))
	})
}

// optionsChange returns the change of a script's options that the parameters ask for. Options
// without a parameter stay.
func optionsChange(f *fields) (req wire.ScriptOptionsChange, err error) {
	for name, to := range map[string]**bool{
		"privileged": &req.Privileged, "network": &req.Network, "always": &req.Always, "if_needed": &req.IfNeeded,
	} {
		if f.has(name) {
			*to = new(f.flag(name))
		}
	}
	if f.has("sha256") {
		req.SHA256 = f.text("sha256")
	}
	if f.has("time") {
		req.Time = new(f.text("time"))
	}
	if f.has("memory") {
		var size seedbed.Bytes
		if text := f.text("memory"); text != "" {
			if size, err = seedbed.ParseBytes(text); err != nil {
				return req, err
			}
		}
		req.Memory = &size
	}
	return req, f.err
}
