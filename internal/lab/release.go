package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Release is an entry of debian/changelog.
type Release struct {
	Version string
	// Commit is what the version was made from. The entry of the version that is being made has none.
	Commit string
}

var (
	releaseLine = regexp.MustCompile(`^seedbed \((\S+)\)`)
	commitLine  = regexp.MustCompile(`^  \* Commit ([0-9a-f]{40})\.$`)
)

// Releases returns the entries of debian/changelog, the newest first.
func Releases(t T) (all []Release) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(), "debian", "changelog"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := releaseLine.FindStringSubmatch(line); m != nil {
			all = append(all, Release{Version: m[1]})
		} else if m := commitLine.FindStringSubmatch(line); m != nil && len(all) > 0 {
			all[len(all)-1].Commit = m[1]
		}
	}
	return all
}

// Previous returns the version before the one that is being made, and a directory with its seedbedd
// and seedbed. They are built from its commit, once for each commit. If this is a shallow clone,
// Previous fetches the commit, and skips the test if that is not possible.
func Previous(t testing.TB) (r Release, dir string) {
	t.Helper()
	all := Releases(t)
	if len(all) < 2 || all[1].Commit == "" {
		t.Fatalf(
			`debian/changelog names no commit of the previous version: expected a line "  * Commit" with 40 digits and a full stop in entry 2`,
		)
	}
	r = all[1]
	dir = filepath.Join(Root(), ".cache", "releases", r.Commit)
	if _, err := os.Stat(dir); err == nil {
		return r, dir
	}
	if _, err := git("cat-file", "-e", r.Commit+"^{commit}"); err != nil {
		missing := fmt.Sprintf("commit %s of version %s is not in this clone, so its programs cannot be built", r.Commit, r.Version)
		if shallow, _ := git("rev-parse", "--is-shallow-repository"); strings.TrimSpace(shallow) == "false" {
			t.Fatal(missing + ": is it right in debian/changelog?")
		}
		if _, err := git("fetch", "--quiet", "--depth", "1", "origin", r.Commit); err != nil {
			t.Skipf("%s: run git fetch --unshallow first (%v)", missing, err)
		}
	}
	if err := buildRelease(t.TempDir(), r, dir); err != nil {
		t.Fatalf("build version %s from commit %s: %v", r.Version, r.Commit, err)
	}
	return r, dir
}

// buildRelease builds the programs of a release in tree, an empty directory, and moves them to dir.
func buildRelease(tree string, r Release, dir string) error {
	source := exec.Command("tar", "-x", "-C", tree)
	text, err := git("archive", "--format=tar", r.Commit)
	if err != nil {
		return err
	}
	source.Stdin = strings.NewReader(text)
	if out, err := source.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack: %w\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "new")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X seedbed/internal/build.version="+r.Version,
		"-o", made+"/", "./cmd/seedbedd", "./cmd/seedbed")
	build.Dir = tree
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return os.Rename(made, dir)
}

// git runs git on this repository, whoever owns it.
func git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", Root()}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, errs.String())
	}
	return string(out), nil
}
