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

func (r *router) userData() collection[seedbed.UserDataDocument] {
	return collection[seedbed.UserDataDocument]{
		r: r, kind: seedbed.PublishedUserData, list: r.Store.UserDataDocuments, none: "No userdata documents found.",
		names:   func(d *seedbed.UserDataDocument) []*string { return []*string{&d.Name} },
		numbers: func(d *seedbed.UserDataDocument) []*int64 { return []*int64{&d.ID} },
		to:      func(d *seedbed.UserDataDocument) *seedbed.Publication { return d.Published },
	}
}

func (r *router) scripts() collection[seedbed.Script] {
	return collection[seedbed.Script]{
		r: r, kind: seedbed.PublishedScript, list: r.Store.Scripts, none: "No scripts found.", label: "provisioning script",
		names:   func(s *seedbed.Script) []*string { return []*string{&s.Name} },
		numbers: func(s *seedbed.Script) []*int64 { return []*int64{&s.ID} },
		to:      func(s *seedbed.Script) *seedbed.Publication { return s.Published },
	}
}

func (r *router) textRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionUserDataRead, p+"/userdata", listed(r.userData(), userDataRowOf))
	get(seedbed.ActionUserDataRead, p+"/userdata/:name", element(r.userData(), userDataRowOf))
	del(seedbed.ActionUserDataManage, p+"/userdata/:name", removed(r.userData(), r.Store.DeleteUserData))
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
	made := documentRoutes(r.userData(), p+"/userdata", seedbed.ActionUserDataManage, post, put, server.UserDataProblem, create, change)

	const manual = "/template/userdata" // in the examples of PVC's manual, but no longer in PVC
	post(seedbed.ActionUserDataManage, p+manual, made)
	list := listed(r.userData(), userDataRowOf)
	get(seedbed.ActionUserDataRead, p+manual, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		name := f.text("name")
		if name == "" || f.err != nil {
			return list(ctx, c, f)
		}
		found, err := r.userData().named(ctx, server.CallerOf(c), name)
		if err != nil {
			return err
		}
		return rows(c, found, userDataRowOf, r.userData().none)
	})

	get(seedbed.ActionScriptRead, p+"/script", listed(r.scripts(), scriptRowOf))
	r.scriptOptionRoutes(p+"/script/:name/options", get, put)
	get(seedbed.ActionScriptRead, p+"/script/:name", element(r.scripts(), scriptRowOf))
	del(seedbed.ActionScriptManage, p+"/script/:name", removed(r.scripts(), r.Store.DeleteScript))
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
	documentRoutes(r.scripts(), p+"/script", seedbed.ActionScriptManage, post, put, unchecked, create, change)
}

// documentRoutes adds the routes that create and change documents. What problem says of a document is added
// to the answer: scripts for PVC save what they like. It returns the handler that creates a document with the
// parameter name. create and set have the qualified name.
func documentRoutes[T any](
	l collection[T], p string, action seedbed.Action, post, put routing, problem func(context.Context, []byte) string,
	create, set func(ctx context.Context, name, data string) error,
) handler {
	keep := func(
		ctx context.Context, c *fiber.Ctx, f *fields, name, done string, how func(ctx context.Context, data string) error,
	) error {
		data := f.must("data", "A "+l.word()+" must be specified.")
		if f.err != nil {
			return f.err
		}
		if most := cmp.Or(l.r.MaxUserData, seedbed.MiB); len(data) > int(most) {
			return server.Invalid("the %s has %d bytes: expected at most %s", l.word(), len(data), most)
		}
		if err := how(ctx, data); err != nil {
			return err
		}
		warning := problem(ctx, []byte(data))
		if warning != "" {
			warning = " Warning: it " + warning + "."
		}
		return say(c, `%s %s "%s".%s`, done, l.word(), name, warning)
	}
	add := func(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
		return keep(ctx, c, f, name, "Created", func(ctx context.Context, data string) error {
			qualified, err := l.called(c, name)
			if err != nil {
				return err
			}
			return create(ctx, qualified, data)
		})
	}
	creating(post, action, p, "name", "name", nameMissing, add)
	put(action, p+"/:name", func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return keep(ctx, c, f, server.Param(c, "name"), "Updated", func(ctx context.Context, data string) error {
			qualified, err := l.owned(ctx, c)
			if err != nil {
				return err
			}
			return set(ctx, qualified, data)
		})
	})
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return add(ctx, c, f, f.must("name", nameMissing))
	}
}
