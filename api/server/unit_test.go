package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"seedbed"
	"seedbed/internal/header"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		status int
		kind   string
		detail string
	}{
		"not found":       {seedbed.Errorf(seedbed.ErrNotFound, "no x"), 404, "not_found", "no x"},
		"exists":          {seedbed.Errorf(seedbed.ErrExists, "x is"), 409, "exists", "x is"},
		"conflict":        {seedbed.Errorf(seedbed.ErrConflict, "x"), 409, "conflict", "x"},
		"in use":          {seedbed.Errorf(seedbed.ErrInUse, "x"), 409, "in_use", "x"},
		"invalid":         {fmt.Errorf("profile p: %w", seedbed.Errorf(seedbed.ErrInvalid, "bad")), 422, "invalid", "profile p: bad"},
		"forbidden":       {seedbed.Errorf(seedbed.ErrForbidden, "x"), 403, "forbidden", "x"},
		"unauthenticated": {seedbed.Errorf(seedbed.ErrUnauthenticated, "x"), 401, "unauthenticated", "x"},
		"full":            {seedbed.Errorf(seedbed.ErrFull, "x"), 507, "full", "x"},
		"unavailable":     {seedbed.Errorf(seedbed.ErrUnavailable, "x"), 503, "unavailable", "x"},
		"stale":           {seedbed.Errorf(seedbed.ErrStale, "inner"), 500, "internal", internal},
		"version":         {seedbed.Errorf(seedbed.ErrVersion, "inner"), 500, "internal", internal},
		"no kind":         {errors.New("inner"), 500, "internal", internal},
		"deadline":        {fmt.Errorf("read: %w", context.DeadlineExceeded), 503, "unavailable", "it took too long, or seedbedd is stopping"},
		"fault":           {httpserve.Problem{Status: 415, Detail: "x"}, 415, "invalid", "x"},
		"router": {
			fiber.NewError(404, "Cannot GET /<script>"), 404, "not_found", "there is no such path: see /api/v1/openapi.yaml",
		},
		"header": {fiber.ErrRequestHeaderFieldsTooLarge, 431, "invalid", "the request could not be read"},
	} {
		got := ProblemOf(test.err)
		if got.Status != test.status || got.Kind != test.kind || got.Detail != test.detail {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := ProblemOf(&seedbed.Error{Kind: seedbed.ErrExists, Msg: "taken", Holder: "job1"}); got.Job != "job1" {
		t.Errorf("holder %q", got.Job)
	}
}

func TestTokenHeadersComeOnce(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"two tokens": "Authorization: a\r\nauthorization: b\r\n\r\n",
		"two keys":   "X-Api-Key: a\r\nx-api-key: a\r\n\r\n",
	} {
		if f, err := header.Parse([]byte(raw), single...); err == nil {
			t.Errorf("%s: accepted as %v", name, f)
		}
	}
}
