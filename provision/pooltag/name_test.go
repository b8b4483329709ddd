package pooltag

import (
	"testing"

	"seedbed"
)

// Names that differ have files whose names differ, which have no slash and are not names themselves.
func TestFileName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, test := range []struct{ name, want string }{
		{"debian", "debian"}, {"acme/debian", "acme+debian"}, {"acme.debian", "acme.debian"}, {"acme_debian", "acme_debian"},
		{"acme-debian", "acme-debian"}, {"acme-x/debian", "acme-x+debian"}, {"acme/x-debian", "acme+x-debian"},
	} {
		if err := seedbed.CheckQualifiedName("image", test.name); err != nil {
			t.Error(err)
		}
		file := FileName(test.name)
		if file != test.want || NameOf(file) != test.name {
			t.Errorf("FileName(%q) is %q, whose name is %q: want %q", test.name, file, NameOf(file), test.want)
		}
		if other, taken := seen[file]; taken {
			t.Errorf("%q and %q have the same file", other, test.name)
		}
		seen[file] = test.name
		if file != test.name && seedbed.CheckQualifiedName("image", file) == nil {
			t.Errorf("%q can be the name of an image", file)
		}
	}
}
