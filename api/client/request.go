package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"seedbed"
)

// send makes a call, and returns its answer.
func send[T any](ctx context.Context, c *Client, r call) (v T, err error) {
	r.answer = &v
	err = c.do(ctx, r)
	return v, err
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return send[T](ctx, c, call{method: http.MethodGet, path: path, query: query})
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return send[T](ctx, c, call{method: http.MethodPost, path: path, body: body})
}

// put replaces the object at path by body, if it still has the entity tag.
func put[T any](ctx context.Context, c *Client, path, tag string, body any) (T, error) {
	return send[T](ctx, c, call{method: http.MethodPut, path: path, body: body, match: tag})
}

func patch[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return send[T](ctx, c, call{method: http.MethodPatch, path: path, body: body})
}

func (c *Client) remove(ctx context.Context, path string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path})
}

func (c *Client) removal(ctx context.Context, path string) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{method: http.MethodDelete, path: path})
}

func at(collection, name string) string { return collection + "/" + url.PathEscape(name) }

func limit(n int) url.Values {
	if n <= 0 {
		return nil
	}
	return url.Values{"limit": {strconv.Itoa(n)}}
}

// given returns the parameters that are not empty.
func given(all map[string]string) url.Values {
	query := url.Values{}
	for name, v := range all {
		if v != "" {
			query.Set(name, v)
		}
	}
	return query
}

// onNode returns the query that names a node, or nil for all nodes.
func onNode(node string) url.Values {
	if node == "" {
		return nil
	}
	return url.Values{"node": {node}}
}

// matching lists the objects whose names match pattern, with their project or without: text that may be anywhere in
// the name, at its start after '^', or at its end before '$'. An empty pattern matches all. in is the scope of
// all projects, or otherwise that of the project that the client acts in. It reads the objects page by page.
func matching[T any](ctx context.Context, c *Client, path string, in seedbed.Scope, pattern string, name func(T) string) ([]T, error) {
	m, query := seedbed.ParseNameMatch(pattern), url.Values{}
	if m.Start && m.Text != "" {
		if seedbed.CheckQualifiedName("object", m.Text) != nil {
			return []T{}, nil // no name starts with that
		}
		query.Set("name", m.Text)
	}
	all, err := pages[T](ctx, c, path, scoped(query, in), 0)
	return slices.DeleteFunc(all, func(v T) bool { return !m.Matches(name(v)) && !m.Matches(seedbed.ShortName(name(v))) }), err
}

// pageSize is the largest page that the server returns.
const pageSize = 1000

// pages reads a list of at most limit objects, or the whole list if limit is 0. A page without a link
// to the next is the last.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values, limit int) ([]T, error) {
	all := []T{}
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	for {
		n := pageSize
		if limit > 0 {
			n = min(n, limit-len(all))
		}
		query.Set("limit", strconv.Itoa(n))
		var page []T
		var link string
		if err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, answer: &page, link: &link}); err != nil {
			return nil, err
		}
		all = append(all, page...)
		after := nextOf(link)
		if limit > 0 && len(all) >= limit {
			return all[:limit], nil
		}
		if after == "" || len(page) == 0 || after == query.Get("after") {
			return all, nil
		}
		query.Set("after", after)
	}
}

var nextLink = regexp.MustCompile(`<[^>?]*\?([^>]*)>; rel="next"`)

// nextOf returns the position after which the next page begins, as a Link header states it, or an empty
// string if there is none. Nothing else of the link is used.
func nextOf(link string) string {
	m := nextLink.FindStringSubmatch(link)
	if m == nil {
		return ""
	}
	query, err := url.ParseQuery(m[1])
	if err != nil {
		return ""
	}
	return query.Get("after")
}
