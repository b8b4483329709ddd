package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// documented is a block of a page that TestDocumentedCommands runs.
var documented = regexp.MustCompile(`(?m)^<!-- run: TestDocumentedCommands -->\n\n((?:    .*\n|\n)+)`)

// furnish makes what pages take for granted: an image, a profile, a key, and secrets of senders.
const furnish = `
mkdir $HOME/.ssh
cp key.pub $HOME/.ssh/id_ed25519.pub
symlink examples -> $ROOT/examples
exec seedbed -q image add debian disk
exec seedbed -q image add debian-13 disk
`

const furniture = `
-- disk --
-- key.pub --
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnbi2O4bamyvGex+KKx6teSJUluixtO12v0Y6RxM8g6 me
-- stripe.secret --
whsec_stripe0123456789abcdefghijklmnopqrs
-- slack.secret --
8f742231b10e8888abcd99yyyzzz85a5
-- next.secret --
whsec_bmV4dC1zZWNyZXQtb2YtdGhpcnR5LXR3by1ieXRlcw==
-- cloud.yaml --
#cloud-config
`

// ports replaces the default ports by those of the test.
var ports = strings.NewReplacer("http://127.0.0.1:7370", "$API", "hook send forge", "hook send forge --url $HOOKS")

// profileless are pages that make the profile web themselves, or need none.
var profileless = []string{"how-to/profiles.md", "reference/pvc.md"}

// TestDocumentedCommands runs the blocks of the documentation that are marked for it, page by page,
// as they are written but for the ports.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, docs := t.TempDir(), filepath.Join(root, "docs")
	err = filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		blocks := documented.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			return nil
		}
		page, err := filepath.Rel(docs, path)
		if err != nil {
			return err
		}
		script, files := strings.ReplaceAll(furnish, "$ROOT", root), furniture
		if !slices.Contains(profileless, page) {
			script += "exec seedbed -q profile add web --image debian\n"
		}
		for i, b := range blocks {
			script += fmt.Sprintf("exec sh -ex block%d.sh\n", i)
			commands := regexp.MustCompile(`(?m)^    `).ReplaceAllString(b[1], "")
			files += fmt.Sprintf("-- block%d.sh --\n%s", i, ports.Replace(commands))
		}
		return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(page, "/", "-")+".txtar"), []byte(script+files), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := scripts()
	p.Dir = dir
	testscript.Run(t, p)
}
