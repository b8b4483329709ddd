package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// changeKey is the key of the audit record among the locals of a request that changes something.
const changeKey = "seedbed.change"

// changing returns ctx for the work of a request. If the request may change something, the context
// also carries, for the audit log, the caller and the object's previous state.
func (r *Router) changing(ctx context.Context, c *fiber.Ctx, shown Lookup) context.Context {
	if c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead {
		return ctx
	}
	who := CallerOf(c)
	change := &seedbed.Change{
		Actor: who.Name, Role: who.Grant.Role, Project: who.Project, Visits: who.visits(),
		From: who.peer, Token: who.token, Quota: who.quota, Installation: who.May(seedbed.ActionProjectEnter),
		Request: c.Method() + " " + strings.ToValidUTF8(c.Path(), "?"), Before: before(ctx, who, c.Path(), shown),
	}
	c.Locals(changeKey, change)
	return seedbed.WithChange(ctx, change)
}

// NoteAsked stores the request's input for the audit log.
func NoteAsked(c *fiber.Ctx, body []byte) {
	change, ok := c.Locals(changeKey).(*seedbed.Change)
	if !ok {
		return
	}
	var v any
	if json.Unmarshal(body, &v) == nil {
		change.Asked = encode(v)
	}
}

// WithholdSecrets removes from the audit log's copy of a request the parameters that the profile
// declares as secrets. If the profile cannot be read, it removes all parameters. Without a profile,
// none is declared.
func (r *Router) WithholdSecrets(ctx context.Context, c *fiber.Ctx, profile string, params map[string]any) {
	change, ok := c.Locals(changeKey).(*seedbed.Change)
	if !ok || profile == "" || len(params) == 0 || change.Asked == nil {
		return
	}
	var p seedbed.Profile
	name, err := r.Store.Resolve(ctx, seedbed.PublishedProfile, CallerOf(c).Project, profile)
	if err == nil {
		p, err = r.Store.Profile(ctx, name)
	}
	secret := map[string]bool{}
	open := err != nil || p.Script != "" // an undeclared parameter of a script is an argument, which may be a password
	for _, declared := range p.Params {
		secret[declared.Name] = declared.Type == seedbed.ParamSecret
	}
	var asked map[string]any
	if json.Unmarshal(change.Asked, &asked) != nil {
		return
	}
	kept, _ := asked["params"].(map[string]any)
	for name, v := range kept {
		if hide, declared := secret[name]; hide || open && !declared {
			kept[name] = fmt.Sprintf("(%d bytes)", len(fmt.Sprint(v)))
		}
	}
	change.Asked = encode(asked)
}

// before returns the object that a path is about, as the API shows it, without withheld values. It
// returns nil if the object does not exist.
func before(ctx context.Context, who Caller, path string, shown Lookup) json.RawMessage {
	parts := strings.Split(strings.TrimPrefix(path, Prefix+"/"), "/")
	if len(parts) < 2 {
		return nil
	}
	v, err := shown(ctx, who, parts)
	if err != nil || v == nil {
		return nil // the handler reports what is wrong with the request
	}
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &v) != nil {
		return nil
	}
	return encode(v)
}

// Withheld holds the JSON members whose values the audit log does not keep: secrets, and documents
// that may hold secrets.
var Withheld = map[string]bool{
	"secret": true, "key": true, "password": true, "token": true, "user_data": true, "vendor_data": true,
	"user_data_base64": true, "vendor_data_base64": true, "payload": true, "headers": true, "arguments": true, "data": true, "text": true,
}

// encode returns v as JSON without the values of withheld members.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(redacted(v))
	if err != nil {
		return nil
	}
	return b
}

func redacted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if Withheld[name] && value != nil && value != "" {
				v[name] = fmt.Sprintf("(%d bytes)", len(fmt.Sprint(value)))
				continue
			}
			v[name] = redacted(value)
		}
	case []any:
		for i := range v {
			v[i] = redacted(v[i])
		}
	}
	return v
}
