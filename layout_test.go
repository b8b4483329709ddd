package seedbed_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// listed is what `go list -json` says of one package.
type listed struct {
	ImportPath string
	Standard   bool
	CgoFiles   []string
	Imports    []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,CgoFiles,Imports"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

const module = "seedbed"

// within gives the path of a package inside the module, "." for its root.
func within(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// TestLayout holds the direction of imports: cmd -> {api, webhook, provision,
// feed, metadata, netcfg, store} -> seedbed, and siblings never import each other.
func TestLayout(t *testing.T) {
	t.Parallel()
	siblings := []string{"api", "webhook", "provision", "feed", "metadata", "netcfg", "store"}
	engineOf := map[string][]string{ // the engine and the protocol know no driver
		"provision":        {"provision/worker", "provision/dir", "provision/libvirt", "provision/ceph", "provision/image", "provision/mapper", "provision/script", "provision/hook"},
		"provision/worker": {"provision", "provision/dir", "provision/libvirt", "provision/ceph", "provision/image", "provision/mapper", "provision/hook"},
	}
	for _, p := range list(t, "-tags", "libvirt,ceph,pacific", "./...") {
		from, _ := within(p.ImportPath)
		group, _, _ := strings.Cut(from, "/")
		for _, imp := range p.Imports {
			to, ours := within(imp)
			if !ours {
				if from == "." && strings.Contains(strings.Split(imp, "/")[0], ".") {
					t.Errorf("the root package imports %s: it may use the standard library alone", imp)
				}
				continue
			}
			target, _, _ := strings.Cut(to, "/")
			switch {
			case from == ".":
				t.Errorf("the root package imports %s", imp)
			case target == "cmd":
				t.Errorf("%s imports the program %s", from, to)
			case slices.Contains(siblings, group) && slices.Contains(siblings, target) && group != target:
				t.Errorf("%s imports its sibling %s", from, to)
			}
			for _, forbidden := range engineOf[from] {
				if to == forbidden {
					t.Errorf("%s imports %s", from, to)
				}
			}
		}
	}
}

// TestCgo holds that C is linked into seedbed-worker alone.
func TestCgo(t *testing.T) {
	t.Parallel()
	uses := func(program string) (found []string) {
		for _, p := range list(t, "-deps", "-tags", "libvirt,ceph,pacific", "./cmd/"+program) {
			if !p.Standard && len(p.CgoFiles) > 0 {
				found = append(found, p.ImportPath)
			}
		}
		return found
	}
	for _, program := range []string{"seedbedd", "seedbed-metadata", "seedbed"} {
		if found := uses(program); found != nil {
			t.Errorf("%s links C by %v", program, found)
		}
	}
	if uses("seedbed-worker") == nil {
		t.Error("seedbed-worker links no C: was it built with its tags?")
	}
}
