package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// The doctor says so if a script is privileged and no node runs such scripts.
func TestConsentChecks(t *testing.T) {
	t.Parallel()
	plain := seedbed.Script{Name: "plain"}
	privileged := seedbed.Script{Name: "disks", Options: seedbed.ScriptOptions{Privileged: true}}
	node := func(name string, consents bool) seedbed.Node {
		return seedbed.Node{Name: name, Seen: time.Unix(1, 0), Report: seedbed.NodeReport{PrivilegedScripts: consents}}
	}
	for name, c := range map[string]struct {
		scripts []seedbed.Script
		nodes   []seedbed.Node
		err     error
		lines   int
		ok      bool
		want    string
	}{
		"no such script":   {[]seedbed.Script{plain}, []seedbed.Node{node("hv1", false)}, nil, 0, false, ""},
		"nothing reported": {[]seedbed.Script{privileged}, []seedbed.Node{{Name: "hv1"}}, nil, 0, false, ""},
		"no consent":       {[]seedbed.Script{plain, privileged}, []seedbed.Node{node("hv1", false)}, nil, 1, false, "disks: no node"},
		"consent":          {[]seedbed.Script{privileged}, []seedbed.Node{node("hv1", false), node("hv2", true)}, nil, 1, true, "run on hv2"},
		"unknown":          {nil, nil, errors.New("no connection"), 1, false, "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := consentChecks(
				func(context.Context, seedbed.NameMatch) ([]seedbed.Script, error) { return c.scripts, c.err },
				func(context.Context) ([]seedbed.Node, error) { return c.nodes, nil },
			)(t.Context())
			if len(got) != c.lines {
				t.Fatalf("%+v", got)
			}
			for _, check := range got {
				if check.OK != c.ok || check.OK != (check.Hint == "") || !strings.Contains(check.Detail, c.want) {
					t.Errorf("%+v", check)
				}
			}
		})
	}
}
