package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"seedbed"
)

// The doctor mentions strays, and says nothing if there are none.
func TestStrayChecks(t *testing.T) {
	t.Parallel()
	one := seedbed.Orphan{Node: "hv1", Kind: seedbed.OrphanImage, Pool: "default", Name: "debian"}
	domain := seedbed.Orphan{Node: "hv1", Kind: seedbed.OrphanDomain, Name: "web1"}
	for name, c := range map[string]struct {
		strays []seedbed.Orphan
		err    error
		lines  int
		ok     bool
		want   string
	}{
		"none":    {nil, nil, 0, false, ""},
		"one":     {[]seedbed.Orphan{one}, nil, 1, true, "image debian on hv1"},
		"two":     {[]seedbed.Orphan{one, one}, nil, 1, true, "and 1 more"},
		"domain":  {[]seedbed.Orphan{one, domain}, nil, 1, true, "and 1 more"},
		"unknown": {nil, errors.New("no connection"), 1, false, "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strayChecks(func(context.Context) ([]seedbed.Orphan, error) { return c.strays, c.err })(t.Context())
			if len(got) != c.lines || len(got) > 0 && (got[0].OK != c.ok || got[0].Hint == "" || !strings.Contains(got[0].Detail, c.want)) {
				t.Errorf("%+v", got)
			}
			if domains := slices.Contains(c.strays, domain); len(got) > 0 && strings.Contains(got[0].Hint, "shut it down") != domains {
				t.Errorf("the hint with a domain among them, %t: %s", domains, got[0].Hint)
			}
		})
	}
}
