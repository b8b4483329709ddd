package rest

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"
)

// shown returns the object that a path is about, for the audit log.
func (r *router) shown(ctx context.Context, who server.Caller, parts []string) (any, error) {
	switch name := parts[1]; parts[0] {
	case "profiles":
		return r.Store.Profile(ctx, name)
	case "hooks":
		return r.Store.Hook(ctx, name)
	case "endpoints":
		return r.Store.Endpoint(ctx, name)
	case "instances":
		return r.Store.InstanceByName(ctx, who.Instance(name))
	case "images":
		return r.Store.Image(ctx, name)
	case "templates", "userdata", "scripts", "ovas":
		return r.shownObject(ctx, parts)
	case "networks":
		return r.Store.Network(ctx, name)
	case "nodes":
		return r.shownNodeSettings(ctx, name)
	case "projects":
		return r.Store.Project(ctx, name)
	case "tokens":
		return r.shownToken(ctx, name)
	}
	return nil, nil
}

// shownObject returns an object that a profile can name, without the content of a document, which may
// hold secrets.
func (r *router) shownObject(ctx context.Context, parts []string) (any, error) {
	kind, name := parts[0], parts[1]
	if kind == "templates" {
		if len(parts) < 3 {
			return nil, nil
		}
		kind, name = parts[1], parts[2]
	}
	switch kind {
	case "system":
		return server.Find(ctx, name, r.Store.SystemTemplates, shownSystem)
	case "network":
		return server.Find(ctx, name, r.Store.NetworkTemplates, shownNetworkTemplate)
	case "storage":
		return server.Find(ctx, name, r.Store.StorageTemplates, shownStorageTemplate)
	case "userdata":
		return server.Find(ctx, name, r.Store.UserDataDocuments, shownUserData)
	case "scripts":
		return server.Find(ctx, name, r.Store.Scripts, shownScript)
	case "ovas":
		return server.Find(ctx, name, r.Store.OVAs, shownOVA)
	}
	return nil, nil
}

// shownToken returns a token as the API shows it, or nil if there is none of that name.
func (r *router) shownToken(ctx context.Context, name string) (any, error) {
	all, err := r.Store.Tokens(ctx)
	at := slices.IndexFunc(all, func(t seedbed.Token) bool { return t.Name == name })
	if err != nil || at < 0 {
		return nil, err
	}
	return all[at], nil
}
