package intake

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// onlySystem is a store that has one system template.
type onlySystem struct {
	Store
	system seedbed.SystemTemplate
}

func (s onlySystem) Parts(context.Context, string, seedbed.PartNames) (seedbed.Parts, error) {
	return seedbed.Parts{System: &s.system}, nil
}

// TestTailor checks that the arguments of a script are filled in with what an instance's parameters
// and templates say.
func TestTailor(t *testing.T) {
	t.Parallel()
	in := &Intake{store: onlySystem{system: seedbed.SystemTemplate{Name: "small", VCPUs: 2, Memory: 512 * seedbed.MiB}}}
	profile := seedbed.NewScripted("web", seedbed.Empty)
	profile.System = "small"
	profile.Arguments = []string{"host=${vm.name}", "role=${param.role}", "half=$(system.memory / 2)", "shell=$${HOME}"}
	profile.Params = []seedbed.Param{{Name: "role", Type: seedbed.ParamEnum, Values: []string{"db", "web"}, Default: textOf("web")}}
	c, err := in.tailor(t.Context(), profile, seedbed.InDefault("web3"), map[string]any{"role": "db"}, []string{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"host=web3", "role=db", "half=268435456", "shell=${HOME}"}, c.Arguments); d != "" || c.params["role"] != "db" {
		t.Errorf("%s, params %v", d, c.params)
	}
}

// TestTailorArguments checks that params that a script cannot have as its arguments are refused with
// the profile, the reason and another way.
func TestTailorArguments(t *testing.T) {
	t.Parallel()
	in := &Intake{store: onlySystem{system: seedbed.SystemTemplate{Name: "small", VCPUs: 2, Memory: 512 * seedbed.MiB}}}
	profile := seedbed.NewScripted("web", seedbed.Empty)
	profile.System = "small"
	for name, test := range map[string]struct {
		params map[string]any
		want   string
	}{
		"tags":  {map[string]any{"tags": map[string]any{"a": "b"}}, `leave out --tag, and use "seedbed vm tag"`},
		"keys":  {map[string]any{"ssh_keys": []any{"ssh-ed25519 A"}}, "leave out --ssh-key, and put the keys into the profile's user-data"},
		"lists": {map[string]any{"list": []any{"x"}}, "param list: profile web declares no params, so they are its script's arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := in.tailor(t.Context(), profile, seedbed.InDefault("web3"), test.params, nil)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}
