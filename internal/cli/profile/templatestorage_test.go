package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDashed(t *testing.T) {
	t.Parallel()
	want := []string{"-L=data", "--label=x", "-q", "-E=a=b"}
	got := dashed([]string{"L=data", "label=x", "q", "E=a=b"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
