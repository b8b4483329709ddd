package rest

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// listing is a list that is read as a whole, and answered page by page.
type listing[T any] struct {
	// kind is the messages' word for one object.
	kind string
	read func(context.Context, *fiber.Ctx) ([]T, error)
	// name returns the name of an object, qualified if such objects belong to projects. The list is sorted
	// by it, and the query's name selects the objects whose name starts with a text, with the project or
	// without.
	name func(T) string
	// place replaces name for objects without a unique name: it returns text that sorts as the list
	// does, and differs between objects.
	place   func(T) string
	filters []filterBy[T]
	// fill adds to the objects of a page, in their order, what takes reading them one by one; nil if nothing does.
	fill func(context.Context, *fiber.Ctx, []T) error
}

// filterBy selects objects by one parameter of the query.
type filterBy[T any] struct {
	param string
	// check returns ErrInvalid for a value that no object can have.
	check func(string) error
	of    func(T) string
	// short returns the other text by which an object is selected; nil if there is none.
	short func(string) string
}

// byWord selects objects by one of some words.
func byWord[T any, W ~string](param string, words []W, of func(T) W) filterBy[T] {
	return filterBy[T]{param: param, check: func(v string) error {
		if slices.Contains(words, W(v)) {
			return nil
		}
		return server.Invalid("%s %q is unknown: expected %s", param, seedbed.Clip(v),
			strings.Join(server.Each(words, func(w W) string { return string(w) }), ", "))
	}, of: func(v T) string { return string(of(v)) }}
}

// byName selects objects by the name of another object.
func byName[T any](param string, of func(T) string) filterBy[T] {
	return filterBy[T]{param: param, check: func(v string) error { return seedbed.CheckName(param, v) }, of: of}
}

// byEitherName selects objects by the name of another object, with its project or as short returns it.
func byEitherName[T any](param string, short func(string) string, of func(T) string) filterBy[T] {
	return filterBy[T]{param: param, check: func(v string) error {
		if !qualifiedForm.MatchString(v) {
			return server.Invalid("%s %q is not a name: expected letters, digits, dots, underscores and hyphens, after a project and '/' if need be",
				param, seedbed.Clip(v))
		}
		return nil
	}, of: of, short: short}
}

// whole makes a function that reads a list one that takes no query.
func whole[T any](f func(context.Context) ([]T, error)) func(context.Context, *fiber.Ctx) ([]T, error) {
	return func(ctx context.Context, _ *fiber.Ctx) ([]T, error) { return f(ctx) }
}

// serve answers a page of the list.
func (l listing[T]) serve(ctx context.Context, c *fiber.Ctx) error {
	most, err := server.Limit(c, server.MaxLimit)
	if err != nil {
		return err
	}
	after, err := l.after(c)
	if err != nil {
		return err
	}
	takes, err := l.selection(c)
	if err != nil {
		return err
	}
	all, err := l.read(ctx, c)
	if err != nil {
		return err
	}
	key, cursor := l.name, l.name
	if l.place != nil {
		key = l.place
		cursor = func(v T) string { return base64.RawURLEncoding.EncodeToString([]byte(l.place(v))) }
	}
	var left []T
	for _, v := range all {
		if key(v) > after && takes(v) {
			left = append(left, v)
		}
	}
	slices.SortStableFunc(left, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return server.Page(c, most, cursor, func(n int) ([]T, error) {
		page := left[:min(n, len(left))]
		if l.fill == nil {
			return page, nil
		}
		return page, l.fill(ctx, c, page)
	})
}

// after returns the key of the last object of the page before, or an empty string for the first page.
func (l listing[T]) after(c *fiber.Ctx) (string, error) {
	after := strings.Clone(c.Query("after"))
	if l.place == nil {
		return after, l.isName("after", after)
	}
	return placeOf(after, l.kind)
}

// placeOf decodes a place in a list of objects without a unique name.
func placeOf(after, kind string) (string, error) {
	place, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil {
		return "", notAPlace(after, kind)
	}
	return string(place), nil
}

func notAPlace(after, kind string) error {
	return server.Invalid("after %q is not a position in the list of %s objects: expected the value in the link to the next page",
		seedbed.Clip(after), kind)
}

// isName refuses text that is not the start of a name.
func (l listing[T]) isName(param, text string) error {
	if text != "" && !qualifiedForm.MatchString(text) {
		return server.Invalid("%s %q: expected the name of a %s, or the start of one: letters, digits, dots, underscores and hyphens",
			param, seedbed.Clip(text), l.kind)
	}
	return nil
}

// qualifiedForm matches a prefix of a qualified name.
var qualifiedForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$|^[a-z0-9-]{1,32}/[A-Za-z0-9._-]{0,63}$`)

// selection returns what reports whether the query selects an object.
func (l listing[T]) selection(c *fiber.Ctx) (func(T) bool, error) {
	var tests []func(T) bool
	if prefix := strings.Clone(c.Query("name")); l.name != nil && prefix != "" {
		if err := l.isName("name", prefix); err != nil {
			return nil, err
		}
		tests = append(tests, func(v T) bool {
			name := l.name(v)
			_, short, _ := strings.Cut(name, "/")
			return strings.HasPrefix(name, prefix) || strings.HasPrefix(short, prefix)
		})
	}
	for _, f := range l.filters {
		want := strings.Clone(c.Query(f.param))
		if want == "" {
			continue
		}
		if err := f.check(want); err != nil {
			return nil, err
		}
		tests = append(tests, func(v T) bool { return f.of(v) == want || f.short != nil && f.short(f.of(v)) == want })
	}
	return func(v T) bool {
		return !slices.ContainsFunc(tests, func(test func(T) bool) bool { return !test(v) })
	}, nil
}

// moment returns a time as a part of a place.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%020d", t.UnixMicro())
}

// placed joins the parts of a place.
func placed(parts ...string) string { return strings.Join(parts, "\x00") }

// timed is a place in a list that is sorted by time: the time, and the other parts of the place.
type timed struct {
	at    time.Time
	parts []string
}

// cursorOf returns a timed place as links to the next page contain it.
func cursorOf(at time.Time, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(placed(append([]string{moment(at)}, parts...)...)))
}

// partsOf reads a timed place, of so many parts with the time, from the query. It returns nil for the
// first page.
func partsOf(c *fiber.Ctx, kind string, count int) (*timed, error) {
	after := strings.Clone(c.Query("after"))
	if after == "" {
		return nil, nil
	}
	place, err := placeOf(after, kind)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(place, "\x00")
	micros, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || len(parts) != count || !utf8.ValidString(place) {
		return nil, notAPlace(after, kind)
	}
	return &timed{time.UnixMicro(micros).UTC(), parts[1:]}, nil
}

// sinceOf reads the time since which a list is asked for.
func sinceOf(c *fiber.Ctx) (time.Time, error) {
	s := c.Query("since")
	if s == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, server.Invalid("since %q: expected a time such as 2026-01-02T15:04:05Z", seedbed.Clip(s))
	}
	return at, nil
}
