package api

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Listings reads lists that are too long for one answer.
type Listings interface {
	// ListInstances returns instances by name.
	ListInstances(ctx context.Context, q seedbed.InstanceQuery) ([]seedbed.Instance, error)
	// ListProfiles returns profiles by name.
	ListProfiles(ctx context.Context, q seedbed.ProfileQuery) ([]seedbed.Profile, error)
	// ListJobs returns jobs, newest first.
	ListJobs(ctx context.Context, q seedbed.JobQuery) ([]seedbed.Job, error)
}

// one reads a parameter of the query that must be one of words.
func one[T ~string](c *fiber.Ctx, name string, words []T) (T, error) {
	v := T(strings.Clone(c.Query(name)))
	if v != "" && !slices.Contains(words, v) {
		return "", invalid("%s %q is unknown: want %s", name, seedbed.Clip(string(v)), strings.Join(each(words, func(w T) string { return string(w) }), ", "))
	}
	return v, nil
}

// prefixForm matches a prefix of an instance name.
var prefixForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// instanceQuery reads the query of a list of instances.
func instanceQuery(c *fiber.Ctx) (q seedbed.InstanceQuery, err error) {
	if q.Limit, err = limit(c, maxLimit); err != nil {
		return q, err
	}
	if q.State, err = one(c, "state", seedbed.InstanceStates()); err != nil {
		return q, err
	}
	for name, to := range map[string]*string{"name": &q.Prefix, "after": &q.After} {
		*to = strings.Clone(c.Query(name))
		if *to != "" && !prefixForm.MatchString(*to) {
			return q, invalid("%s %q: want an instance's name, or the start of one: lower-case letters, digits and hyphens", name, seedbed.Clip(*to))
		}
	}
	if q.Profile = strings.Clone(c.Query("profile")); q.Profile != "" {
		if err = seedbed.CheckName("profile", q.Profile); err != nil {
			return q, err
		}
	}
	q.Node, err = nodeQuery(c)
	return q, err
}

func (r *router) instances(ctx context.Context, c *fiber.Ctx) error {
	q, err := instanceQuery(c)
	if err != nil {
		return err
	}
	return page(c, q.Limit, func(i seedbed.Instance) string { return i.Name }, func(n int) ([]seedbed.Instance, error) {
		q.Limit = n
		return r.Store.ListInstances(ctx, q)
	})
}

// objectForm matches a prefix of a catalogue name.
var objectForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// nameQuery reads the query of a list of objects that are listed by name. kind is the messages' word
// for one.
func nameQuery(c *fiber.Ctx, kind string) (q seedbed.ProfileQuery, err error) {
	if q.Limit, err = limit(c, maxLimit); err != nil {
		return q, err
	}
	for name, to := range map[string]*string{"name": &q.Prefix, "after": &q.After} {
		*to = strings.Clone(c.Query(name))
		if *to != "" && !objectForm.MatchString(*to) {
			return q, invalid("%s %q: want the name of a %s, or the start of one: letters, digits, dots, underscores and hyphens", name, seedbed.Clip(*to), kind)
		}
	}
	return q, nil
}

func (r *router) profiles(ctx context.Context, c *fiber.Ctx) error {
	q, err := nameQuery(c, "profile")
	if err != nil {
		return err
	}
	return page(c, q.Limit, func(p seedbed.Profile) string { return p.Name }, func(n int) ([]seedbed.Profile, error) {
		q.Limit = n
		return r.Store.ListProfiles(ctx, q)
	})
}

// jobQuery reads the query of a list of jobs.
func jobQuery(c *fiber.Ctx) (q seedbed.JobQuery, err error) {
	if q.Limit, err = limit(c, defaultLimit); err != nil {
		return q, err
	}
	if q.State, err = one(c, "state", seedbed.JobStates()); err != nil {
		return q, err
	}
	if q.Kind, err = one(c, "kind", seedbed.JobKinds()); err != nil {
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
	return page(c, q.Limit, func(j seedbed.Job) string { return j.Cursor().String() }, func(n int) ([]seedbed.Job, error) {
		q.Limit = n
		return r.Store.ListJobs(ctx, q)
	})
}

// page answers at most n objects, with a link to the next page if there are more (RFC 8288). It
// reads n+1 objects to find out.
func page[T any](c *fiber.Ctx, n int, cursor func(T) string, read func(n int) ([]T, error)) error {
	found, err := read(n + 1)
	if err != nil {
		return err
	}
	if len(found) > n {
		found = found[:n]
		query, err := url.ParseQuery(string(c.Context().URI().QueryString()))
		if err != nil {
			return invalid("the query is not well formed: want name=value, separated by &, with %%XX for other characters")
		}
		query.Set("limit", strconv.Itoa(n))
		query.Set("after", cursor(found[n-1]))
		c.Set(fiber.HeaderLink, "<"+c.Path()+"?"+query.Encode()+`>; rel="next"`)
	}
	return reply(c, fiber.StatusOK, found)
}
