package provision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/provision/record"
)

// TestTemplateAtCreate checks that templates see the address that the database has assigned, and
// the parameters of the request.
func TestTemplateAtCreate(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	l.intake = NewIntake(l.db, intake.Serving{Node: testNode, Renderer: record.Renderer{Region: "r1", Zone: "r1-a"}})
	const head = "## template: seedbed\n"
	create := func(name string, params map[string]any) error {
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: "create", Name: name, Profile: "small", Params: params}, nil)
		return err
	}
	l.ok(create("web7", map[string]any{
		"user_data":   head + "${vm.name} ${vm.ip} ${vm.mac} ${param.role} $(param.n + vm.number) ${region} ${zone} ${tag.a} ${vm.id}\n" + head,
		"vendor_data": head + "${param.role}", "tags": map[string]any{"a": "${vm.name}"}, "role": "${vm.name}", "n": 35.0,
	}))
	got, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web7"))
	l.ok(err)
	want := "web7 10.9.0.2 " + got.NICs[0].MAC.String() + " ${vm.name} 42 r1 r1-a ${vm.name} " + got.ID.EC2() + "\n" + head
	if d := cmp.Diff([]string{want, "${vm.name}"}, []string{string(got.UserData), string(got.VendorData)}); d != "" {
		t.Error(d)
	}
	for name, tt := range map[string]struct {
		params map[string]any
		want   string
	}{
		"param that nobody reads": {map[string]any{"role": "db"}, `param "role" is unknown`},
		"param that is missing": {
			map[string]any{"user_data": head + "\n ${param.role}"}, "user_data line 3, column 2: ${param.role} has no value: no such key: role",
		},
		"param that is no value": {
			map[string]any{"user_data": head + "${param.role}", "role": []any{}}, "param role has a value that templates cannot use",
		},
		"param that is too long": {
			map[string]any{"user_data": head + "${param.role}", "role": strings.Repeat("x", 5000)}, "at most 4096 bytes",
		},
		"template that is none": {map[string]any{"user_data": head + "${HOME}"}, "write $${"},
		"too large with its value": {
			map[string]any{"user_data": head + strings.Repeat("${param.x}", 300), "x": strings.Repeat("x", 4096)}, "more than 1MiB",
		},
	} {
		if err := create("web8", tt.params); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v; want one that says %q", name, err, tt.want)
		}
	}
}
