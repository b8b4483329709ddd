package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Learns reports whether the caller may learn to whom an object is published, and change it: one of the
// project that it acts in, or any if it is an admin of the installation.
func (w Caller) Learns(qualified string) bool {
	return w.May(seedbed.ActionProjectEnter) || w.Project == seedbed.ProjectOf(qualified)
}

// Visible returns the qualified name of the object that the path names: one that the caller's project may
// use. An admin of the installation who names no project sees all by their qualified names. What the caller
// does not see is ErrNotFound.
func (r *Router) Visible(ctx context.Context, c *fiber.Ctx, kind seedbed.PublishedKind) (string, error) {
	return r.Sees(ctx, CallerOf(c), kind, qualifiedName(c))
}

// Sees is Visible for a name.
func (r *Router) Sees(ctx context.Context, who Caller, kind seedbed.PublishedKind, name string) (string, error) {
	if who.everywhere && strings.Contains(name, "/") {
		meant, err := seedbed.Meant(kind, who.Project, name)
		if err != nil {
			return "", err
		}
		return meant[0], nil
	}
	return r.Store.Resolve(ctx, kind, who.Project, name)
}

// Owned is like Visible, for an object that the request changes: one of the caller's project. An object of
// another project that the caller may use is ErrForbidden.
func (r *Router) Owned(ctx context.Context, c *fiber.Ctx, kind seedbed.PublishedKind) (string, error) {
	return r.OwnedName(ctx, CallerOf(c), kind, qualifiedName(c))
}

// OwnedName is Owned for a name.
func (r *Router) OwnedName(ctx context.Context, who Caller, kind seedbed.PublishedKind, name string) (string, error) {
	name, err := r.Sees(ctx, who, kind, name)
	if err != nil {
		return "", err
	}
	if !who.Scope().Sees(seedbed.ProjectOf(name)) {
		return "", seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, and %s %q belongs to project %s",
			who.Name, who.Project, kind.Noun(), seedbed.Explicit(name), seedbed.ProjectOf(name))
	}
	return name, nil
}

// ReceivePublication reads to which projects the caller wants to publish an object. Only callers from the
// default project publish to all.
func ReceivePublication(c *fiber.Ctx) (to seedbed.Publication, err error) {
	if err := Receive(c, &to); err != nil {
		return to, err
	}
	if who := CallerOf(c); to.All && !who.Home {
		return to, seedbed.Errorf(seedbed.ErrForbidden,
			"%s belongs to project %s: only the default project publishes to all, others to named ones", who.Name, who.Project)
	}
	return to, nil
}

// ShownProfile returns a profile as the caller may see it. Of another project's it shows what is needed to
// use it, and neither documents and arguments, which may hold secrets, nor the parts that it is made of. Its
// number is only shown in the default project.
func ShownProfile(who Caller, p seedbed.Profile) seedbed.Profile {
	if !who.Home {
		p.ID = 0
	}
	if who.Learns(p.Name) {
		return p
	}
	var nics []seedbed.NICRequest
	for _, n := range p.NICs {
		nics = append(nics, seedbed.NICRequest{Network: n.Network})
	}
	return seedbed.Profile{
		ID: p.ID, Name: p.Name, Image: p.Image, VCPUs: p.VCPUs, Memory: p.Memory, DiskSize: p.DiskSize, Network: p.Network, NICs: nics,
		BootFrom: p.BootFrom, PlacementGroup: p.PlacementGroup,
		SSHKeys: []string{}, Datasource: p.Datasource, Tags: map[string]string{}, Ready: p.Ready, Params: p.Params, Follow: p.Follow,
		Protected: p.Protected, Hold: p.Hold, OnFailure: p.OnFailure, Revision: p.Revision, Created: p.Created, Changed: p.Changed,
	}
}

// NewPeers returns the qualified names of networks with which a caller wants to peer a network: those of its own project. Only an
// admin of the installation who may protect networks peers those of two projects. What the caller does not see is ErrInvalid.
func (r *Router) NewPeers(ctx context.Context, who Caller, network string, names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		peer, err := r.OwnedName(ctx, who, seedbed.PublishedNetwork, name)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil, Invalid("%v", err)
		}
		if err == nil && seedbed.ProjectOf(peer) != seedbed.ProjectOf(network) {
			err = who.Need(seedbed.ActionNetworkProtect)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, peer)
	}
	return all, nil
}

// PeersNamed returns the qualified names of those peers of a network that a caller's names mean. A name that means no peer is itself.
func (r *Router) PeersNamed(ctx context.Context, who Caller, network string, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	now, err := r.Store.Network(ctx, network)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		meant, err := seedbed.Meant(seedbed.PublishedNetwork, who.Project, name)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(meant, func(m string) bool { return slices.Contains(now.Peers, m) })
		all = append(all, meant[max(at, 0)])
	}
	return all, nil
}
