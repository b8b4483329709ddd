package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// The doctor says that the maintenance mode is on, and nothing while it is off.
func TestMaintenanceCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on    bool
		err   error
		lines int
		ok    bool
		want  string
	}{
		"off":     {},
		"on":      {on: true, lines: 1, ok: true, want: "no lost node is fenced"},
		"unknown": {err: errors.New("no connection"), lines: 1, want: "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := maintenanceCheck(func(context.Context) (bool, error) { return c.on, c.err })(t.Context())
			if len(got) != c.lines || len(got) > 0 && (got[0].OK != c.ok || got[0].Hint == "" || !strings.Contains(got[0].Detail, c.want)) {
				t.Errorf("%+v", got)
			}
		})
	}
}
