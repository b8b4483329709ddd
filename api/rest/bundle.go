package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"
	"seedbed/internal/httpserve"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
)

func (r *router) exportCatalogue(ctx context.Context, c *fiber.Ctx) error {
	found, err := r.Store.Catalogue(ctx, server.CallerOf(c).Project)
	if err != nil {
		return err
	}
	body, err := jsonv2.Marshal(found, server.AnswerOptions, jsonv2.OmitZeroStructFields(true))
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.Send(body)
}

// switched reads a Boolean parameter of the query. An absent one is false.
func switched(c *fiber.Ctx, name string) (bool, error) {
	on, err := strconv.ParseBool(cmp.Or(c.Query(name), "false"))
	if err != nil {
		return false, server.Invalid("%s %q: expected true or false", name, seedbed.Clip(c.Query(name)))
	}
	return on, nil
}

func (r *router) importCatalogue(ctx context.Context, c *fiber.Ctx) (any, error) {
	pools, err := r.PoolNames(ctx)
	if err != nil {
		return nil, err
	}
	how := seedbed.CatalogueImport{Project: server.CallerOf(c).Project, Check: r.CheckProfile, CheckDisk: pools.Check}
	if how.DryRun, err = switched(c, "dry_run"); err != nil {
		return nil, err
	}
	if how.Keep, err = switched(c, "keep"); err != nil {
		return nil, err
	}
	var asked seedbed.Catalogue
	if err := server.ReceiveUpTo(c, &asked, server.MaxCatalogue); err != nil {
		return nil, err
	}
	for _, p := range asked.Profiles {
		if p.Revision != 0 || !p.Created.IsZero() || !p.Changed.IsZero() {
			return nil, httpserve.Problem{
				Status: fiber.StatusBadRequest,
				Detail: "profile " + seedbed.Clip(p.Name) + ": revision, created and changed are not part of a catalogue",
			}
		}
	}
	for _, t := range asked.System {
		if err := server.ChoosesHost(c, t.Template()); err != nil {
			return nil, fmt.Errorf("system template %q of the catalogue: %w", seedbed.Clip(t.Name), err)
		}
	}
	privileged := []string{}
	for _, script := range asked.Scripts {
		if script.Options.Privileged {
			privileged = append(privileged, script.Name)
		}
		options := wire.ScriptOptionsChange{Privileged: &script.Options.Privileged, Network: &script.Options.Network}
		if err := server.LetsOut(c, options); err != nil {
			return nil, fmt.Errorf("script %q of the catalogue: %w", seedbed.Clip(script.Name), err)
		}
	}
	summary, err := json.Marshal(map[string]any{"objects": asked.Objects(), "dry_run": how.DryRun, "keep": how.Keep, "privileged": privileged})
	if err != nil {
		return nil, err
	}
	server.NoteAsked(c, summary) // instead of the whole body: each object has its own entry
	return r.Store.ImportCatalogue(ctx, asked, how)
}
