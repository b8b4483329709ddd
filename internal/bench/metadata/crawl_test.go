package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrder: sub-directories come first, each with all that is in it, as
// cloud-init goes.
func TestOrder(t *testing.T) {
	t.Parallel()
	listings := map[string]string{
		"/m/":           "ami-id\nplacement/\npublic-keys/\nhostname",
		"/m/placement/": "region\nzone/", "/m/placement/zone/": "id",
		"/m/public-keys/": "0=admin@example.org\n1=a=b",
	}
	b := boot{todo: []string{"/m/"}}
	var got []string
	for len(b.todo) > 0 {
		path := b.todo[len(b.todo)-1]
		b.todo = b.todo[:len(b.todo)-1]
		got = append(got, path)
		if text, ok := listings[path]; ok {
			b.list(path, text)
		}
	}
	want := []string{"/m/", "/m/placement/", "/m/placement/zone/", "/m/placement/zone/id", "/m/placement/region",
		"/m/public-keys/", "/m/public-keys/0/openssh-key", "/m/public-keys/1/openssh-key", "/m/ami-id", "/m/hostname"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}
