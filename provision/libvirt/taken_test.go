package libvirt

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestMACsOf(t *testing.T) {
	t.Parallel()
	mac := seedbed.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	for _, test := range []struct {
		name, doc string
		want      []seedbed.MAC
	}{
		{"two", `<domain><devices><interface type='bridge'><mac address='52:54:00:12:34:56'/></interface>
			<interface type='user'><mac address='52:54:00:12:34:57'/></interface></devices></domain>`, []seedbed.MAC{mac,
			{0x52, 0x54, 0, 0x12, 0x34, 0x57}}},
		{"none", `<domain><devices/></domain>`, nil},
		{"no devices", `<domain/>`, nil},
		{"without a MAC", `<domain><devices><interface type='user'/></devices></domain>`, nil},
		{
			"no MAC of an instance",
			`<domain><devices><interface type='user'><mac address='01:00:5e:00:00:01:02'/></interface></devices></domain>`, nil,
		},
	} {
		got, err := macsOf(test.doc)
		if d := cmp.Diff(test.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, d)
		}
	}
	if _, err := macsOf("<domain"); err == nil {
		t.Error("what is no document passes")
	}
}

// TestNeighbours holds that the host's own table can be read.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	all, err := neighbours()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.MAC == (seedbed.MAC{}) || n.By == "" {
			t.Errorf("neighbour %+v", n)
		}
	}
}

func TestSharedTap(t *testing.T) {
	t.Parallel()
	doc := func(taps ...string) string {
		out := "<domain><devices><interface type='user'/>"
		for _, tap := range taps {
			out += "<interface type='bridge'><target dev='" + tap + "'/></interface>"
		}
		return out + "</devices></domain>"
	}
	for _, test := range []struct{ one, other, want string }{
		{doc("sb1", "sb2"), doc("sb3", "sb2"), "sb2"},
		{doc("sb1"), doc("sb11"), ""},
		{doc(), doc(), ""},
		{"<domain/>", doc("sb1"), ""},
		{"<domain", doc("sb1"), ""},
	} {
		if got := sharedTap(test.one, test.other); got != test.want {
			t.Errorf("%s and %s: %q, want %q", test.one, test.other, got, test.want)
		}
	}
}
