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
		return shownUsed(ctx, r, who, seedbed.PublishedProfile, name, r.Store.Profile)
	case "hooks":
		return shownOwned(ctx, who, "hook", name, r.Store.Hook)
	case "endpoints":
		return shownOwned(ctx, who, "endpoint", name, r.Store.Endpoint)
	case "instances":
		return r.Store.InstanceByName(ctx, who.Instance(name))
	case "images":
		return shownUsed(ctx, r, who, seedbed.PublishedImage, name, r.Store.Image)
	case "templates", "userdata", "scripts", "ovas":
		return r.shownObject(ctx, who, parts)
	case "networks":
		return shownUsed(ctx, r, who, seedbed.PublishedNetwork, name, r.Store.Network)
	case "addresses":
		return r.addressNamed(ctx, who, name)
	case "security-groups":
		return shownOwned(ctx, who, securityGroup, name, r.Store.SecurityGroup)
	case "placement-groups":
		return shownOwned(ctx, who, placementGroup, name, r.Store.PlacementGroup)
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
func (r *router) shownObject(ctx context.Context, who server.Caller, parts []string) (any, error) {
	kind, name := parts[0], parts[1]
	if kind == "templates" {
		if len(parts) < 3 {
			return nil, nil
		}
		kind, name = parts[1], parts[2]
	}
	switch kind {
	case "system":
		return shownPart(ctx, who, name, r.systemTemplates())
	case "network":
		return shownPart(ctx, who, name, r.networkTemplates())
	case "storage":
		return shownPart(ctx, who, name, r.storageTemplates())
	case "userdata":
		return shownPart(ctx, who, name, r.userData())
	case "scripts":
		return shownPart(ctx, who, name, r.scripts())
	case "ovas":
		return shownPart(ctx, who, name, r.ovaImages())
	}
	return nil, nil
}

// shownPart returns the object that a part of a path names, as it is shown, if the caller sees it.
func shownPart[T, W any](ctx context.Context, who server.Caller, part string, all objects[T, W]) (any, error) {
	return shownUsed(ctx, all.r, who, all.kind, part, func(ctx context.Context, name string) (any, error) {
		v, err := all.read(ctx, who, name)
		return all.show(v), err
	})
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
