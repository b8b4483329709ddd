package pooltag

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestStored: installations have these bytes, in files beside the volumes of directories and in the
// image-meta of RBD images.
func TestStored(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	snapshots := []Snapshot{{Name: "s", Job: "k", Created: at, Ready: true}, {Name: "t", Job: "l", Created: at}}
	for name, c := range map[string]struct {
		tag    Tag
		stored string
	}{
		"image of a directory": {
			Tag{Name: "base", Job: "j", Size: 1024, Format: "qcow2", SHA256: "00ff", Firmware: "uefi"},
			`{"seedbed":1,"name":"base","job":"j","size":1024,"format":"qcow2","sha256":"00ff","firmware":"uefi"}`,
		},
		"volume of a directory": {
			Tag{Name: "v", Job: "j", Instance: "i", Image: "base", Size: 2048, Made: 1024, Flat: true, Snapshots: snapshots,
				Trash: &TrashMark{ID: "abc", Removed: at, Expires: at.Add(time.Hour)}},
			`{"seedbed":1,"name":"v","job":"j","instance":"i","image":"base","size":2048,"made":1024,"flat":true,"snapshots":[` +
				`{"name":"s","job":"k","created":"2026-01-02T03:04:05.000006Z","ready":true},` +
				`{"name":"t","job":"l","created":"2026-01-02T03:04:05.000006Z","ready":false}],` +
				`"trash":{"id":"abc","removed":"2026-01-02T03:04:05.000006Z","expires":"2026-01-02T04:04:05.000006Z"}}`,
		},
		"blank volume of a directory": {Tag{Name: "blank", Job: "j"}, `{"seedbed":1,"name":"blank","job":"j","size":0}`},
		"image in Ceph": {
			Tag{Role: RoleImage, State: StateRemoving, Node: "hv1", Name: "base", Job: "j", Size: 1024, Format: "qcow2", SHA256: "00ff",
				Firmware: "uefi"},
			`{"seedbed":1,"role":"image","name":"base","state":"removing","node":"hv1","job":"j","size":1024,"format":"qcow2",` +
				`"sha256":"00ff","firmware":"uefi"}`,
		},
		"volume in Ceph": {
			Tag{Role: RoleVolume, State: StateReady, Node: "hv1", Name: "v", Job: "j", Instance: "i", Image: "base", Size: 2048, Made: 1024,
				Flat: true, Snapshots: snapshots, Trash: &TrashMark{Removed: at, Expires: at.Add(time.Hour)}},
			`{"seedbed":1,"role":"volume","name":"v","state":"ready","node":"hv1","job":"j","instance":"i","image":"base","size":2048,` +
				`"made":1024,"flat":true,"snapshots":[` +
				`{"name":"s","job":"k","created":"2026-01-02T03:04:05.000006Z","ready":true},` +
				`{"name":"t","job":"l","created":"2026-01-02T03:04:05.000006Z","ready":false}],` +
				`"trash":{"removed":"2026-01-02T03:04:05.000006Z","expires":"2026-01-02T04:04:05.000006Z"}}`,
		},
		"volume of a project": {
			Tag{Name: "v", Job: "j", Instance: "i", Project: "acme", Size: 1024},
			`{"seedbed":1,"name":"v","job":"j","instance":"i","project":"acme","size":1024}`,
		},
		"blank volume in Ceph": {
			Tag{Role: RoleVolume, State: StateBuilding, Node: "hv1", Name: "blank", Job: "j"},
			`{"seedbed":1,"role":"volume","name":"blank","state":"building","node":"hv1","job":"j","size":0}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := c.tag.Marshal()
			if diff := cmp.Diff(c.stored, text); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			want := c.tag
			want.Seedbed = Version
			got, err := Parse("it", c.stored)
			if diff := cmp.Diff(&want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"[]", "{}", `{"seedbed":"yes"}`, `{"other":1}`} {
		if got, err := Parse("it", other); got != nil || err != nil {
			t.Errorf("%s: %v, %v", other, got, err)
		}
	}
	for _, broken := range []string{"", "x", `{"seedbed":1`} {
		if got, err := Parse("it", broken); got != nil || err == nil {
			t.Errorf("%s: %v, %v", broken, got, err)
		}
	}
	if got, err := Parse("it", `{"seedbed":2}`); got != nil || !errors.Is(err, seedbed.ErrVersion) {
		t.Errorf("a newer tag: %v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "{}", `{"seedbed":1,"name":"x"}`, `{"seedbed":1,"role":"image","name":"a"}`, `{"seedbed":"x"}`, "[]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stored string) {
		if got, err := Parse("it", stored); got != nil && (err != nil || got.Seedbed != Version) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
