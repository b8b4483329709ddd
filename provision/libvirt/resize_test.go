package libvirt_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/libvirt"
)

// lines are those of a document, without their indentation.
func lines(doc string) (all []string) {
	for line := range strings.Lines(doc) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

func TestResizedXML(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"kvm.xml", "system.xml", "foreign.xml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile("testdata/" + file)
			if err != nil {
				t.Fatal(err)
			}
			same, changed, err := libvirt.ResizedXML(string(b), 0, 0)
			if err != nil || changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			got, changed, err := libvirt.ResizedXML(string(b), 6, 3*seedbed.GiB)
			if err != nil || !changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			left := map[string]int{} // the lines that one has and the other has not
			for _, line := range lines(got) {
				left[line]++
			}
			for _, line := range lines(same) {
				left[line]--
			}
			for line, n := range left {
				if n != 0 && !strings.Contains(line, "vcpu") && !strings.Contains(line, "emory") && !strings.Contains(line, "topology") {
					t.Errorf("%+d of %q", n, line)
				}
			}
			for _, want := range []string{`>6</vcpu>`, `<memory unit="KiB">3145728</memory>`, `<currentMemory unit="KiB">3145728</currentMemory>`} {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
			if strings.Contains(got, "<topology") && !strings.Contains(got, `sockets="1" dies="1" cores="6" threads="1"`) {
				t.Errorf("the topology is not that of 6 cores:\n%s", got)
			}
			if again, changed, err := libvirt.ResizedXML(got, 6, 3*seedbed.GiB); err != nil || changed {
				t.Errorf("the same size once more: %v, %v\n%s", changed, err, cmp.Diff(got, again))
			}
		})
	}
}

func TestResizedXMLRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		doc    string
		vcpus  int
		memory seedbed.Bytes
	}{
		{"no document", "<domain", 1, 0},
		{"vcpus", "<domain/>", 1000, 0},
		{"memory", "<domain/>", 0, 3 * seedbed.KiB},
	} {
		if _, _, err := libvirt.ResizedXML(c.doc, c.vcpus, c.memory); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

func TestDiskTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		disk seedbed.Disk
		want string
		ok   bool
	}{
		{"file", seedbed.Disk{Type: "file", Source: "/srv/vms/old-web.qcow2"}, "vda", true},
		{"rbd", seedbed.Disk{Type: "rbd", Source: "vms/old-web-data"}, "vdb", true},
		{"other type", seedbed.Disk{Type: "file", Source: "vms/old-web-data"}, "", false},
		{"none", seedbed.Disk{}, "", false},
	} {
		if got, ok, err := libvirt.DiskTarget(foreignDoc(t), c.disk); err != nil || got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v, %v", c.name, got, ok, err)
		}
	}
}
