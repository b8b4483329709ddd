package rest

import (
	"context"
	"net/url"

	"seedbed"
	"seedbed/api/server"
)

// shown returns the object that a path is about, for the audit log.
func (r *router) shown(ctx context.Context, who server.Caller, parts []string) (any, error) {
	switch name := parts[1]; parts[0] {
	case "profiles":
		return r.Store.Profile(ctx, name)
	case "hooks":
		return shownOwned(ctx, who, "hook", name, r.Store.Hook)
	case "endpoints":
		return shownOwned(ctx, who, "endpoint", name, r.Store.Endpoint)
	case "instances":
		return r.Store.InstanceByName(ctx, who.Instance(name))
	case "images":
		return shownUsed(ctx, r, who, seedbed.PublishedImage, name, r.Store.Image)
	case "templates", "userdata", "scripts", "ovas":
		return r.shownObject(ctx, parts)
	case "networks":
		return r.Store.Network(ctx, name)
	case "nodes":
		return r.shownNodeSettings(ctx, name)
	case "projects":
		return r.Store.Project(ctx, name)
	case "roles":
		return r.Store.Role(ctx, seedbed.Role(name))
	case "sessions":
		if name == "current" {
			name = who.Session.ID
		}
		return r.Store.Session(ctx, name)
	case "tokens":
		return shownOwned(ctx, who, "token", name, r.Store.Token)
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

// shownUsed returns the object that a part of a path names, if the caller sees it.
func shownUsed[T any](
	ctx context.Context, r *router, who server.Caller, kind seedbed.PublishedKind, part string, read func(context.Context, string) (T, error),
) (any, error) {
	name, err := url.PathUnescape(part)
	if err != nil {
		return nil, err
	}
	if name, err = r.Sees(ctx, who, kind, name); err != nil {
		return nil, err
	}
	return read(ctx, name)
}

// shownOwned returns the token, hook or endpoint that a part of a path names.
func shownOwned[T any](
	ctx context.Context, who server.Caller, kind, part string, read func(context.Context, string) (T, error),
) (any, error) {
	name, err := url.PathUnescape(part)
	if err != nil {
		return nil, err
	}
	if name, err = who.Qualified(kind, name); err != nil {
		return nil, err
	}
	return read(ctx, name)
}
