package instance

import (
	"reflect"
	"slices"
	"testing"

	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// TestDefinitionHasEveryField checks that a definition has the project, and the fields of the API's request
// except those that only PVC's commands set.
func TestDefinitionHasEveryField(t *testing.T) {
	t.Parallel()
	want := []string{"project"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[wire.InstanceRequest]()) {
		if name := cli.JSONName(f); name != "" && name != "arguments" && name != "disks_only" {
			want = append(want, name)
		}
	}
	var got []string
	for f := range reflect.TypeFor[definition]().Fields() {
		got = append(got, f.Tag.Get("yaml"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the keys of a definition are %q, want %q", got, want)
	}
}
