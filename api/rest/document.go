package rest

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) userData() objects[seedbed.UserDataDocument, wire.UserData] {
	return objects[seedbed.UserDataDocument, wire.UserData]{
		r: r, kind: seedbed.PublishedUserData, list: r.Store.UserDataDocuments, show: shownUserData,
		change: r.Store.ChangeUserData, remove: r.Store.DeleteUserData, publish: r.Store.PublishUserData,
		of: func(d *seedbed.UserDataDocument) (string, *seedbed.ObjectMeta) { return d.Name, d.Meta() },
	}
}

func shownUserData(d seedbed.UserDataDocument) wire.UserData {
	return wire.UserData{Name: d.Name, Data: d.Data, Stored: wire.Stored(d.ObjectMeta)}
}

// checkSize refuses a document that is larger than the configuration allows.
func (r *router) checkSize(kind seedbed.PublishedKind, text string) error {
	if most := cmp.Or(r.MaxUserData, seedbed.MiB); len(text) > int(most) {
		return server.Invalid("the %s has %d bytes: expected at most %s", kind.Noun(), len(text), most)
	}
	return nil
}

// checkUserData refuses a document that cannot be served, or that no guest can use.
func (r *router) checkUserData(ctx context.Context, c *fiber.Ctx, name, data string) error {
	if err := r.checkSize(seedbed.PublishedUserData, data); err != nil {
		return err
	}
	if err := r.CheckDocument(ctx, name, data); err != nil {
		return err
	}
	return server.CheckUserData(ctx, c, "the userdata document", []byte(data))
}

func (r *router) createUserData(ctx context.Context, c *fiber.Ctx) error {
	var req wire.UserDataRequest
	if err := server.ReceiveUpTo(c, &req, r.MaxDocuments()); err != nil {
		return err
	}
	all := r.userData()
	name, err := all.called(c, req.Name)
	if err != nil {
		return err
	}
	if err := r.checkUserData(ctx, c, name, req.Data); err != nil {
		return err
	}
	d, err := r.Store.CreateUserData(ctx, name, req.Data)
	if err != nil {
		return err
	}
	return all.made(c, "/userdata", d)
}

func (r *router) changeUserData(ctx context.Context, c *fiber.Ctx) error {
	var req wire.UserDataRequest
	all := r.userData()
	return all.modify(ctx, c, &req, r.MaxDocuments(), func(n string) (func(*seedbed.UserDataDocument) error, error) {
		if err := keepsName(all.kind, req.Name, n); err != nil {
			return nil, err
		}
		return func(d *seedbed.UserDataDocument) error {
			d.Data = req.Data
			return nil
		}, r.checkUserData(ctx, c, n, req.Data)
	})
}

func (r *router) scripts() objects[seedbed.Script, wire.Script] {
	return objects[seedbed.Script, wire.Script]{
		r: r, kind: seedbed.PublishedScript, list: r.Store.Scripts, show: shownScript,
		change: r.Store.ChangeScript, remove: r.Store.DeleteScript, publish: r.Store.PublishScript,
		of: func(s *seedbed.Script) (string, *seedbed.ObjectMeta) { return s.Name, s.Meta() },
	}
}

func shownScript(s seedbed.Script) wire.Script {
	return wire.Script{Name: s.Name, Text: s.Text, Options: shownOptions(s.Options), Stored: wire.Stored(s.ObjectMeta)}
}

func shownOptions(o seedbed.ScriptOptions) wire.ScriptOptions {
	shown := wire.ScriptOptions{Privileged: o.Privileged, Network: o.Network, Always: o.Always, IfNeeded: o.IfNeeded,
		Memory: o.Memory}
	if o.Time > 0 {
		shown.Time = o.Time.String()
	}
	return shown
}

func (r *router) createScript(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptRequest
	if err := server.ReceiveUpTo(c, &req, r.MaxDocuments()); err != nil {
		return err
	}
	all := r.scripts()
	if err := r.checkSize(all.kind, req.Text); err != nil {
		return err
	}
	name, err := all.called(c, req.Name)
	if err != nil {
		return err
	}
	s, err := r.Store.CreateScript(ctx, name, req.Text)
	if err != nil {
		return err
	}
	return all.made(c, "/scripts", s)
}

func (r *router) changeScript(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptRequest
	all := r.scripts()
	return all.modify(ctx, c, &req, r.MaxDocuments(), func(n string) (func(*seedbed.Script) error, error) {
		return func(s *seedbed.Script) error {
			s.Text = req.Text
			return nil
		}, cmp.Or(keepsName(all.kind, req.Name, n), r.checkSize(all.kind, req.Text))
	})
}

// changeOptions changes the options of the script that the path names.
func (r *router) changeOptions(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ScriptOptionsChange
	all := r.scripts()
	all.change = r.Store.ChangeScriptOptions
	return all.modify(ctx, c, &req, server.MaxBody, func(string) (func(*seedbed.Script) error, error) {
		change, err := server.ScriptChange(req)
		return change, cmp.Or(err, server.LetsOut(c, req))
	})
}
