package api

import (
	"context"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// scriptOptions are Seedbed's additions to PVC's scripts: their privilege and their limits.
type scriptOptions struct {
	Privileged bool   `json:"privileged"`
	Network    bool   `json:"network"`
	Always     bool   `json:"always"`
	Time       string `json:"time"`
	Memory     string `json:"memory"`
}

func scriptOptionsOf(o seedbed.ScriptOptions) scriptOptions {
	shown := scriptOptions{Privileged: o.Privileged, Network: o.Network, Always: o.Always}
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
	get(p, func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		name := param(c, "name")
		found, err := r.Store.Scripts(ctx, seedbed.ExactName(name))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return refused(fiber.StatusNotFound, noScripts)
		}
		return reply(c, fiber.StatusOK, scriptOptionsOf(found[0].Options))
	})
	put(p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		name := param(c, "name")
		change, err := optionsChange(f)
		if err != nil {
			return err
		}
		if who := callerOf(c); f.has("privileged") && f.flag("privileged") && !who.role.Allows(seedbed.RoleAdmin) {
			return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, and to let a script out of its sandbox takes %s", who.name, who.role, seedbed.RoleAdmin)
		}
		if err := r.Store.SetScriptOptions(ctx, name, change); err != nil {
			return err
		}
		return say(c, `Changed the options of provisioning script "%s".`, name)
	})
}

// optionsChange returns the change of a script's options that the parameters ask for. Options
// without a parameter stay.
func optionsChange(f *fields) (func(*seedbed.ScriptOptions), error) {
	var limits seedbed.ScriptLimits
	if text := f.text("time"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, invalid("time %q is no duration: want one such as 30m, or 0s for the worker's limit", seedbed.Clip(text))
		}
		limits.Time = d
	}
	if text := f.text("memory"); text != "" {
		size, err := seedbed.ParseBytes(text)
		if err != nil {
			return nil, err
		}
		limits.Memory = size
	}
	if f.err != nil {
		return nil, f.err
	}
	return func(o *seedbed.ScriptOptions) {
		if f.has("privileged") {
			o.Privileged = f.flag("privileged")
		}
		if f.has("network") {
			o.Network = f.flag("network")
		}
		if f.has("always") {
			o.Always = f.flag("always")
		}
		if f.has("time") {
			o.Time = limits.Time
		}
		if f.has("memory") {
			o.Memory = limits.Memory
		}
	}, nil
}
