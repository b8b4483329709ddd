package drivertest

import (
	"cmp"
	"slices"
	"testing"

	"seedbed"
	"seedbed/provision/worker"

	diff "github.com/google/go-cmp/cmp"
)

func images(t *testing.T, p worker.Lister, want ...seedbed.ImageInfo) {
	t.Helper()
	got, err := p.Images(t.Context())
	ok(t, "images", err)
	same(t, "images", got, want, func(a, b seedbed.ImageInfo) int { return cmp.Compare(a.Name, b.Name) })
}

func volumes(t *testing.T, p worker.Lister, want ...seedbed.VolumeInfo) {
	t.Helper()
	got, err := p.Volumes(t.Context())
	ok(t, "volumes", err)
	same(t, "volumes", got, want, func(a, b seedbed.VolumeInfo) int { return cmp.Compare(a.Name, b.Name) })
}

func same[T any](t *testing.T, what string, got, want []T, order func(a, b T) int) {
	t.Helper()
	got, want = append([]T{}, got...), append([]T{}, want...)
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if d := diff.Diff(want, got); d != "" {
		t.Fatalf("%s of the pool (-want +got):\n%s", what, d)
	}
}
