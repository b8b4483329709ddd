package seedbed

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResizeSpecOf(t *testing.T) {
	t.Parallel()
	one := Instance{Name: "web1", VCPUs: 2, Memory: GiB, Volumes: []Volume{{Pool: "default", Name: "v-0", Index: 0, Size: 10 * GiB}}}
	two := one
	two.Volumes = append([]Volume{}, one.Volumes[0], Volume{Pool: "rbd", Name: "v-1", Index: 1, Size: 20 * GiB})
	for _, c := range []struct {
		name string
		of   Instance
		req  ResizeRequest
		want ResizeSpec
		kind error
		says string
	}{
		{"the only disk", one, ResizeRequest{Size: 11 * GiB}, ResizeSpec{Pool: "default", Volume: "v-0", Size: 11 * GiB}, nil, ""},
		{"by number", two, ResizeRequest{Disk: "1", Size: 21 * GiB}, ResizeSpec{Pool: "rbd", Volume: "v-1", Size: 21 * GiB}, nil, ""},
		{"by name", two, ResizeRequest{Disk: "v-1", Size: 21 * GiB}, ResizeSpec{Pool: "rbd", Volume: "v-1", Size: 21 * GiB}, nil, ""},
		{"one of several", two, ResizeRequest{Size: 21 * GiB}, ResizeSpec{}, ErrInvalid,
			"has 2 disks: choose one of 0 (v-0, 10GiB), 1 (v-1, 20GiB)"},
		{"machine", two, ResizeRequest{VCPUs: 4, Memory: 2 * GiB}, ResizeSpec{VCPUs: 4, Memory: 2 * GiB}, nil, ""},
		{"what stays is left out", one, ResizeRequest{Size: 11 * GiB, VCPUs: 2, Memory: GiB},
			ResizeSpec{Pool: "default", Volume: "v-0", Size: 11 * GiB}, nil, ""},
		{"smaller", one, ResizeRequest{Size: GiB}, ResizeSpec{}, ErrInvalid, "a disk can only become larger"},
		{"smaller, with more vcpus", one, ResizeRequest{Size: GiB, VCPUs: 4}, ResizeSpec{}, ErrInvalid, "a disk can only become larger"},
		{"nothing", one, ResizeRequest{}, ResizeSpec{}, ErrInvalid, "already has that size"},
		{"the same", one, ResizeRequest{Size: 10 * GiB, VCPUs: 2}, ResizeSpec{}, ErrInvalid, "already has that size"},
		{"below zero", one, ResizeRequest{Size: -GiB}, ResizeSpec{}, ErrInvalid, "size"},
		{"no such disk", one, ResizeRequest{Disk: "v-9", Size: 11 * GiB}, ResizeSpec{}, ErrNotFound, `no disk "v-9"`},
		{"no disk at all", Instance{Name: "web1"}, ResizeRequest{Size: GiB}, ResizeSpec{}, ErrInvalid, "has 0 disks"},
	} {
		was := cmp.Diff(one.Volumes, c.of.Volumes)
		got, err := c.req.SpecOf(c.of)
		if !errors.Is(err, c.kind) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v that says %q", c.name, err, c.kind, c.says)
		}
		if d := cmp.Diff(c.want, got); err == nil && d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if now := cmp.Diff(one.Volumes, c.of.Volumes); now != was {
			t.Errorf("%s: the instance was changed", c.name)
		}
	}
}
