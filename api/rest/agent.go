package rest

import (
	"context"
	"fmt"
	"strconv"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// exec runs a program in an instance's guest. The audit log has it before it runs. The answer has no output, because answers to
// requests with an idempotency key are kept in the database.
func (r *router) exec(ctx context.Context, c *fiber.Ctx) error {
	var g seedbed.GuestCommand
	if err := server.Receive(c, &g); err != nil {
		return err
	}
	if err := g.Check(); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err == nil {
		err = runs(i)
	}
	if err == nil {
		err = r.Store.Note(ctx, fmt.Sprintf("run %q in instance %s", seedbed.Clip(g.Path), i.FullName()))
	}
	if err != nil {
		return err
	}
	p, err := r.Terminals.GuestExec(ctx, i.Node, i.ID, g)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, seedbed.GuestProcess{ID: p.ID})
}

// execWait waits for a program in an instance's guest.
func (r *router) execWait(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(c.Params("process"), 10, 64)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "process: %q: expected the id of a program, which is a number",
			seedbed.Clip(c.Params("process")))
	}
	p, err := r.Terminals.GuestWait(ctx, i.Node, i.ID, id)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, p)
}

// openFile answers with a ticket to copy a file of an instance's guest.
func (r *router) openFile(ctx context.Context, c *fiber.Ctx) error {
	var req wire.FileRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	f := seedbed.GuestFile{ID: i.ID, Path: req.Path, Write: req.Write}
	if err := f.Check(); err != nil {
		return err
	}
	what := "the file %q, to read,"
	if req.Write {
		what = "the file %q, to write,"
	}
	return r.ticket(ctx, c, i, server.Channel{Instance: i.FullName(), Node: i.Node, Action: seedbed.ActionGuestExec, File: &f,
		What: fmt.Sprintf(what, seedbed.Clip(req.Path))})
}
