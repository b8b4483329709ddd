package pvc

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// userDataRow and scriptRow are documents as PVC shows them.
type userDataRow struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	UserData string `json:"userdata"`
}

func userDataRowOf(d seedbed.UserDataDocument) userDataRow { return userDataRow{d.ID, d.Name, d.Data} }

type scriptRow struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Script string `json:"script"`
}

func scriptRowOf(s seedbed.Script) scriptRow { return scriptRow{s.ID, s.Name, s.Text} }

const (
	noUserData = "No userdata documents found."
	noScripts  = "No scripts found."
)

func (r *router) textRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionUserDataRead, p+"/userdata", listed(r.Store.UserDataDocuments, userDataRowOf, noUserData))
	get(seedbed.ActionUserDataRead, p+"/userdata/:name", element(r.Store.UserDataDocuments, userDataRowOf, noUserData))
	del(seedbed.ActionUserDataManage, p+"/userdata/:name", removed(r.Store.DeleteUserData, "userdata document"))
	create := func(ctx context.Context, name, data string) error {
		if err := r.CheckDocument(ctx, name, data); err != nil {
			return err
		}
		_, err := r.Store.CreateUserData(ctx, name, data)
		return err
	}
	change := func(ctx context.Context, name, data string) error {
		if err := r.CheckDocument(ctx, name, data); err != nil {
			return err
		}
		_, err := r.Store.ChangeUserData(ctx, name, func(d *seedbed.UserDataDocument) error {
			d.Data = data
			return nil
		})
		return err
	}
	made := r.documentRoutes(p+"/userdata", "userdata document", seedbed.ActionUserDataManage, post, put, server.UserDataProblem,
		create, change)

	const manual = "/template/userdata" // in the examples of PVC's manual, but no longer in PVC
	post(seedbed.ActionUserDataManage, p+manual, made)
	list := listed(r.Store.UserDataDocuments, userDataRowOf, noUserData)
	get(seedbed.ActionUserDataRead, p+manual, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		name := f.text("name")
		if name == "" || f.err != nil {
			return list(ctx, c, f)
		}
		found, err := r.Store.UserDataDocuments(ctx, seedbed.ExactName(name))
		if err != nil {
			return err
		}
		return rows(c, found, userDataRowOf, noUserData)
	})

	get(seedbed.ActionScriptRead, p+"/script", listed(r.Store.Scripts, scriptRowOf, noScripts))
	r.scriptOptionRoutes(p+"/script/:name/options", get, put)
	get(seedbed.ActionScriptRead, p+"/script/:name", element(r.Store.Scripts, scriptRowOf, noScripts))
	del(seedbed.ActionScriptManage, p+"/script/:name", removed(r.Store.DeleteScript, "provisioning script"))
	unchecked := func(context.Context, []byte) string { return "" }
	create = func(ctx context.Context, name, text string) error {
		_, err := r.Store.CreateScript(ctx, name, text)
		return err
	}
	change = func(ctx context.Context, name, text string) error {
		_, err := r.Store.ChangeScript(ctx, name, func(s *seedbed.Script) error {
			s.Text = text
			return nil
		})
		return err
	}
	r.documentRoutes(p+"/script", "provisioning script", seedbed.ActionScriptManage, post, put, unchecked, create, change)
}

// documentRoutes adds the routes that create and change documents. label is the messages' word for
// one. What problem says of a document is added to the answer: scripts for PVC save what they like. It
// returns the handler that creates a document with the parameter name.
func (r *router) documentRoutes(p, label string, action seedbed.Action, post, put routing, problem func(context.Context, []byte) string,
	create, set func(ctx context.Context, name, data string) error) handler {
	keep := func(
		ctx context.Context, c *fiber.Ctx, f *fields, name, done string, how func(ctx context.Context, name, data string) error,
	) error {
		data := f.must("data", "A "+label+" must be specified.")
		if f.err != nil {
			return f.err
		}
		if most := cmp.Or(r.MaxUserData, seedbed.MiB); len(data) > int(most) {
			return server.Invalid("the %s has %d bytes: expected at most %s", label, len(data), most)
		}
		if err := how(ctx, name, data); err != nil {
			return err
		}
		warning := problem(ctx, []byte(data))
		if warning != "" {
			warning = " Warning: it " + warning + "."
		}
		return say(c, `%s %s "%s".%s`, done, label, name, warning)
	}
	add := func(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
		return keep(ctx, c, f, name, "Created", create)
	}
	creating(post, action, p, "name", "name", nameMissing, add)
	put(action, p+"/:name", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return keep(ctx, c, f, server.Param(c, "name"), "Updated", set)
	})
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return add(ctx, c, f, f.must("name", nameMissing))
	}
}
