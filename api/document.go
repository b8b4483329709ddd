package api

import (
	"cmp"
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) userData() objects[seedbed.UserDataDocument, wire.UserData] {
	return objects[seedbed.UserDataDocument, wire.UserData]{
		kind: "userdata document", list: r.Store.UserDataDocuments, remove: r.Store.DeleteUserData, show: shownUserData,
		of: func(d seedbed.UserDataDocument) (string, seedbed.ObjectMeta) { return d.Name, d.ObjectMeta },
	}
}

func shownUserData(d seedbed.UserDataDocument) wire.UserData {
	return wire.UserData{Name: d.Name, Data: d.Data, Stored: wire.Stored(d.ObjectMeta)}
}

// checkSize refuses a document that is larger than the configuration allows.
func (s *Server) checkSize(kind, text string) error {
	if most := cmp.Or(s.MaxUserData, seedbed.MiB); len(text) > int(most) {
		return invalid("the %s has %d bytes: want at most %s", kind, len(text), most)
	}
	return nil
}

// checkUserData refuses a document that cannot be served.
func (s *Server) checkUserData(ctx context.Context, name, data string) error {
	if err := s.checkSize("userdata document", data); err != nil {
		return err
	}
	return s.CheckDocument(ctx, name, data)
}

func (r *router) createUserData(ctx context.Context, c *fiber.Ctx) error {
	var req wire.UserDataRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	if err := r.checkUserData(ctx, req.Name, req.Data); err != nil {
		return err
	}
	d, err := r.Store.CreateUserData(ctx, req.Name, req.Data)
	if err != nil {
		return err
	}
	return created(c, "/userdata/"+d.Name, shownUserData(d))
}

func (r *router) changeUserData(ctx context.Context, c *fiber.Ctx) error {
	var req wire.UserDataRequest
	return changeObject(ctx, c, r.userData(), &req, r.maxDocuments(), func(n string) error {
		if err := keepsName(r.userData().kind, req.Name, n); err != nil {
			return err
		}
		if err := r.checkUserData(ctx, n, req.Data); err != nil {
			return err
		}
		return r.Store.SetUserData(ctx, n, req.Data)
	})
}

func (r *router) scripts() objects[seedbed.Script, wire.Script] {
	return objects[seedbed.Script, wire.Script]{
		kind: "provisioning script", list: r.Store.Scripts, remove: r.Store.DeleteScript, show: shownScript,
		of: func(s seedbed.Script) (string, seedbed.ObjectMeta) { return s.Name, s.ObjectMeta },
	}
}

func shownScript(s seedbed.Script) wire.Script {
	return wire.Script{Name: s.Name, Text: s.Text, Options: shownOptions(s.Options), Stored: wire.Stored(s.ObjectMeta)}
}

func shownOptions(o seedbed.ScriptOptions) wire.ScriptOptions {
	shown := wire.ScriptOptions{Privileged: o.Privileged, Network: o.Network, Always: o.Always, Memory: o.Memory}
	if o.Time > 0 {
		shown.Time = o.Time.String()
	}
	return shown
}

func (r *router) createScript(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	if err := r.checkSize(r.scripts().kind, req.Text); err != nil {
		return err
	}
	s, err := r.Store.CreateScript(ctx, req.Name, req.Text)
	if err != nil {
		return err
	}
	return created(c, "/scripts/"+s.Name, shownScript(s))
}

func (r *router) changeScript(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptRequest
	return changeObject(ctx, c, r.scripts(), &req, r.maxDocuments(), func(n string) error {
		if err := keepsName(r.scripts().kind, req.Name, n); err != nil {
			return err
		}
		if err := r.checkSize(r.scripts().kind, req.Text); err != nil {
			return err
		}
		return r.Store.SetScript(ctx, n, req.Text)
	})
}

// changeOptions changes the options of the script that the path names.
func (r *router) changeOptions(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptOptionsChange
	return changeObject(ctx, c, r.scripts(), &req, maxBody, func(n string) error {
		change, err := optionsOf(req)
		if err != nil {
			return err
		}
		if err := grantsPrivilege(c, req.Privileged); err != nil {
			return err
		}
		return r.Store.SetScriptOptions(ctx, n, change)
	})
}

// grantsPrivilege refuses to let a script out of its sandbox unless the caller is an admin.
func grantsPrivilege(c *fiber.Ctx, privileged *bool) error {
	if who := callerOf(c); privileged != nil && *privileged && !who.role.Allows(seedbed.RoleAdmin) {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s has the role %s, and to let a script out of its sandbox takes %s", who.name, who.role, seedbed.RoleAdmin)
	}
	return nil
}

// optionsOf returns the change of a script's options that req asks for.
func optionsOf(req wire.ScriptOptionsChange) (func(*seedbed.ScriptOptions), error) {
	var limit time.Duration
	if req.Time != nil && *req.Time != "" {
		d, err := time.ParseDuration(*req.Time)
		if err != nil {
			return nil, invalid("time %q is no duration: want one such as 30m, or 0s for the worker's limit", seedbed.Clip(*req.Time))
		}
		limit = d
	}
	return func(o *seedbed.ScriptOptions) {
		for _, set := range []struct{ to, from *bool }{{&o.Privileged, req.Privileged}, {&o.Network, req.Network}, {&o.Always, req.Always}} {
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
	}, nil
}
