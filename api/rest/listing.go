package rest

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// instanceQuery reads the query of a list of instances.
func (r *router) instanceQuery(ctx context.Context, c *fiber.Ctx) (q seedbed.InstanceQuery, err error) {
	if q.Limit, err = server.Limit(c, server.MaxLimit); err != nil {
		return q, err
	}
	if q.State, err = server.OneOf(c, "state", seedbed.InstanceStates()); err != nil {
		return q, err
	}
	for name, to := range map[string]*string{"name": &q.Prefix, "after": &q.After.Name} {
		*to = strings.Clone(c.Query(name))
		if *to != "" && !prefixForm.MatchString(*to) {
			return q, server.Invalid("%s %q: expected an instance's name, or the start of one: lower-case letters, digits and hyphens",
				name, seedbed.Clip(*to))
		}
	}
	if q.Scope, err = server.ScopeOf(c); err != nil {
		return q, err
	}
	q.After = instanceAfter(q.Scope, q.After.Name)
	if q.Profile = strings.Clone(c.Query("profile")); q.Profile != "" {
		if q.Profile, err = r.profileAsked(ctx, server.CallerOf(c).Project, q.Profile); err != nil {
			return q, err
		}
	}
	q.Node, err = server.NodeQuery(c)
	return q, err
}

// profileAsked returns the qualified name of the profile that a filter names. One that does not exist any longer, or is
// no longer published to the project, may still have instances.
func (r *router) profileAsked(ctx context.Context, project, name string) (string, error) {
	meant, err := seedbed.Meant(seedbed.PublishedProfile, project, name)
	if err != nil {
		return "", err
	}
	qualified, err := r.Store.Resolve(ctx, seedbed.PublishedProfile, project, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		return meant[len(meant)-1], nil
	}
	return qualified, err
}

// prefixForm matches a prefix of an instance name, or a whole one with its project.
var prefixForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,95}$`)

// instanceAfter returns the instance that after names. In the list of one project, it may lack the
// project.
func instanceAfter(in seedbed.Scope, after string) seedbed.InstanceName {
	if project, one := in.One(); one && after != "" && !strings.Contains(after, ".") {
		return seedbed.Named(project, after)
	}
	return seedbed.ParseInstanceName(after)
}

func (r *router) instances(ctx context.Context, c *fiber.Ctx) error {
	q, err := r.instanceQuery(ctx, c)
	if err != nil {
		return err
	}
	return server.Page(c, q.Limit, func(i seedbed.Instance) string { return i.FullName().String() }, func(n int) ([]seedbed.Instance, error) {
		q.Limit = n
		all, err := r.Store.ListInstances(ctx, q)
		for i := 0; err == nil && i < len(all); i++ {
			err = r.showAddrs6(ctx, all[i])
		}
		return all, err
	})
}

// nameQuery reads the query of a list of objects that are listed by name. kind is the messages' word
// for one.
func nameQuery(c *fiber.Ctx, kind string) (q seedbed.ProfileQuery, err error) {
	if q.Limit, err = server.Limit(c, server.MaxLimit); err != nil {
		return q, err
	}
	for name, to := range map[string]*string{"name": &q.Prefix, "after": &q.After} {
		*to = strings.Clone(c.Query(name))
		if *to != "" && !qualifiedForm.MatchString(*to) {
			return q, server.Invalid("%s %q: expected the name of a %s, or the start of one: letters, digits, dots, underscores and hyphens",
				name, seedbed.Clip(*to), kind)
		}
	}
	return q, nil
}

func (r *router) profiles(ctx context.Context, c *fiber.Ctx) error {
	q, err := nameQuery(c, "profile")
	if err != nil {
		return err
	}
	if q.Scope, err = server.ScopeOf(c); err != nil {
		return err
	}
	return server.Page(c, q.Limit, func(p seedbed.Profile) string { return p.Name }, func(n int) ([]seedbed.Profile, error) {
		q.Limit = n
		all, err := r.Store.ListProfiles(ctx, q)
		for i, p := range all {
			all[i] = server.ShownProfile(server.CallerOf(c), p)
		}
		return all, err
	})
}

// jobQuery reads the query of a list of jobs.
func jobQuery(c *fiber.Ctx) (q seedbed.JobQuery, err error) {
	if q.Limit, err = server.Limit(c, server.DefaultLimit); err != nil {
		return q, err
	}
	if q.State, err = server.OneOf(c, "state", seedbed.JobStates()); err != nil {
		return q, err
	}
	if q.Kind, err = server.OneOf(c, "kind", seedbed.JobKinds()); err != nil {
		return q, err
	}
	if q.Scope, err = server.ScopeOf(c); err != nil {
		return q, err
	}
	if q.Subject = strings.Clone(c.Query("subject")); q.Subject != "" {
		if err := seedbed.CheckName("subject", q.Subject); err != nil {
			return q, err
		}
	}
	if q.Node, err = server.NodeQuery(c); err != nil {
		return q, err
	}
	if after := c.Query("after"); after != "" {
		q.After, err = seedbed.ParseJobCursor(after)
	}
	return q, err
}

func (r *router) jobs(ctx context.Context, c *fiber.Ctx) error {
	q, err := jobQuery(c)
	if err != nil {
		return err
	}
	return server.Page(c, q.Limit, func(j seedbed.Job) string { return j.Cursor().String() }, func(n int) ([]seedbed.Job, error) {
		q.Limit = n
		return r.Store.ListJobs(ctx, q)
	})
}
