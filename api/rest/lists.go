package rest

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// These are the lists that are read as a whole.

func (r *router) networks() listing[seedbed.Network] {
	return listing[seedbed.Network]{
		kind: "network", read: usable(r.Store.Networks, ofNetwork), name: func(n seedbed.Network) string { return n.Name },
		fill: r.countAddresses,
	}
}

func (r *router) leases() listing[seedbed.Lease] {
	return listing[seedbed.Lease]{
		kind: "lease", read: r.readLeases, place: func(l seedbed.Lease) string { return l.MAC.String() },
	}
}

// readLeases returns the leases of the instance that the query names, or all that the caller sees.
func (r *router) readLeases(ctx context.Context, c *fiber.Ctx) ([]seedbed.Lease, error) {
	in, err := server.SiteScopeOf(c)
	if err != nil {
		return nil, err
	}
	name := c.Query("instance")
	all, err := r.Store.Leases(ctx, in)
	if err != nil || name == "" {
		return all, err
	}
	if err := seedbed.CheckInstanceName(name); err != nil {
		return nil, err
	}
	i, err := r.Store.InstanceByName(ctx, server.CallerOf(c).Instance(name))
	if err != nil {
		return nil, err
	}
	var of []seedbed.Lease
	for _, l := range all {
		if l.Instance == i.ID {
			of = append(of, l)
		}
	}
	return of, nil
}

func (r *router) nodes() listing[seedbed.NodeStatus] {
	return listing[seedbed.NodeStatus]{
		kind: "node", read: whole(r.Statuses), name: func(n seedbed.NodeStatus) string { return n.Name },
		filters: []filterBy[seedbed.NodeStatus]{
			byWord("state", seedbed.NodeStates(), func(n seedbed.NodeStatus) seedbed.NodeState { return n.State }),
		},
	}
}

func (r *router) tokens() listing[seedbed.Token] {
	read := inScope(r.Store.Tokens, projectOfToken)
	return listing[seedbed.Token]{
		kind: "token", name: func(t seedbed.Token) string { return t.Name },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.Token, error) {
			if role := strings.Clone(c.Query("role")); role != "" {
				if _, err := r.setOf(ctx, seedbed.Role(role)); err != nil {
					return nil, err
				}
			}
			all, err := read(ctx, c)
			return server.Each(all, func(t seedbed.Token) seedbed.Token { return tokenFor(c, t) }), err
		},
		filters: []filterBy[seedbed.Token]{
			byName("role", func(t seedbed.Token) string { return string(t.Role) }),
		},
	}
}

func (r *router) images() listing[seedbed.Image] {
	return listing[seedbed.Image]{
		kind: "image", read: usable(r.Store.Images, ofImage), name: func(i seedbed.Image) string { return i.Name },
		filters: []filterBy[seedbed.Image]{
			byWord("state", seedbed.ImageStates(), func(i seedbed.Image) seedbed.ImageState { return i.State }),
			byName("pool", func(i seedbed.Image) string { return i.Pool }),
			byName("node", func(i seedbed.Image) string { return i.Node }),
		},
	}
}

func (r *router) hooks() listing[seedbed.Hook] {
	return listing[seedbed.Hook]{
		kind: "hook", read: inScope(r.Store.Hooks, projectOfHook), name: func(h seedbed.Hook) string { return h.Name },
		filters: []filterBy[seedbed.Hook]{
			byWord("scheme", seedbed.Schemes(), func(h seedbed.Hook) seedbed.Scheme { return h.Scheme }),
		},
	}
}

func (r *router) endpoints() listing[seedbed.Endpoint] {
	return listing[seedbed.Endpoint]{
		kind: "endpoint", read: inScope(r.Store.Endpoints, projectOfEndpoint), name: func(e seedbed.Endpoint) string { return e.Name },
		filters: []filterBy[seedbed.Endpoint]{
			byWord("enabled", []string{"true", "false"}, func(e seedbed.Endpoint) string { return strconv.FormatBool(e.Enabled) }),
		},
	}
}

// orphans lists what undone jobs have left, the oldest first, and then the strays.
func (r *router) orphans() listing[seedbed.Orphan] {
	return listing[seedbed.Orphan]{
		kind: "orphan", read: r.readOrphans,
		place: func(o seedbed.Orphan) string {
			stray := "0"
			if o.Stage == "" {
				stray = "1"
			}
			return placed(stray, moment(o.Since), string(o.Job), o.Stage, string(o.Kind), o.Node, o.Pool, o.Name)
		},
		filters: []filterBy[seedbed.Orphan]{
			byWord("kind", seedbed.OrphanKinds(), func(o seedbed.Orphan) seedbed.OrphanKind { return o.Kind }),
			byName("pool", func(o seedbed.Orphan) string { return o.Pool }),
			byName("node", func(o seedbed.Orphan) string { return o.Node }),
		},
	}
}

// trash lists the removed volumes, oldest first.
func (r *router) trash() listing[wire.TrashItem] {
	return listing[wire.TrashItem]{
		kind: "trash item", read: r.readTrash,
		place: func(i wire.TrashItem) string { return placed(moment(i.Removed), i.Node, i.Pool, i.Name, i.ID) },
		filters: []filterBy[wire.TrashItem]{
			byWord("state", []seedbed.TrashState{seedbed.Trashed, seedbed.Restored},
				func(i wire.TrashItem) seedbed.TrashState { return i.State }),
			byName("pool", func(i wire.TrashItem) string { return i.Pool }),
			byName("instance", func(i wire.TrashItem) string { return i.InstanceName }),
		},
	}
}

func (r *router) domains() listing[seedbed.ForeignDomain] {
	return listing[seedbed.ForeignDomain]{
		kind: "domain", read: r.readDomains,
		place: func(d seedbed.ForeignDomain) string { return placed(d.Name, d.Node, string(d.ID)) },
		filters: []filterBy[seedbed.ForeignDomain]{
			byWord("state", seedbed.DomainStates(), func(d seedbed.ForeignDomain) seedbed.DomainState { return d.State }),
		},
	}
}

// snapshots lists the snapshots of an instance, oldest first.
func (r *router) snapshots() listing[wire.Snapshot] {
	return listing[wire.Snapshot]{
		kind: "snapshot", read: r.readSnapshots,
		place: func(s wire.Snapshot) string { return placed(moment(s.Created), s.Name) },
	}
}

func projectOfToken(t seedbed.Token) string       { return t.Project }
func projectOfHook(h seedbed.Hook) string         { return h.Project }
func projectOfEndpoint(e seedbed.Endpoint) string { return e.Project }

// inScope makes a function that reads a list of objects of projects one that leaves out those that are
// not in the request's scope.
func inScope[T any](
	read func(context.Context) ([]T, error), project func(T) string,
) func(context.Context, *fiber.Ctx) ([]T, error) {
	return func(ctx context.Context, c *fiber.Ctx) ([]T, error) {
		in, err := server.ScopeOf(c)
		if err != nil {
			return nil, err
		}
		all, err := read(ctx)
		return slices.DeleteFunc(all, func(v T) bool { return !in.Sees(project(v)) }), err
	}
}
