package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"seedbed"
	"seedbed/internal/cli"
)

// draft is a text that the user has edited, and its file.
type draft struct{ text, path string }

// discard removes the file. If that fails, it stays in the directory of temporary files, readable
// only by this user.
func (d draft) discard() { _ = os.Remove(d.path) }

// edit lets the user edit a text in a temporary file with that suffix. The file exists until the
// draft is discarded.
func edit(ctx context.Context, a *cli.App, text, suffix string) (draft, error) {
	f, err := os.CreateTemp("", "seedbed-*"+suffix) // mode 0600: the text may hold secrets
	if err != nil {
		return draft{}, err
	}
	d := draft{text, f.Name()}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		d.discard()
		return draft{}, err
	}
	if err := runEditor(ctx, a, d.path); err != nil {
		d.discard()
		return draft{}, err
	}
	changed, err := cli.ReadBounded(d.path, seedbed.MaxDocument)
	if err != nil {
		return draft{}, err // the text is the user's work: its file stays
	}
	d.text = string(changed)
	return d, nil
}

// runEditor runs the user's editor. Its command may have arguments.
func runEditor(ctx context.Context, a *cli.App, path string) error {
	words := strings.Fields(a.Getenv("VISUAL"))
	if len(words) == 0 {
		words = strings.Fields(a.Getenv("EDITOR"))
	}
	if len(words) == 0 {
		words = []string{"vi"}
		if _, err := exec.LookPath("editor"); err == nil { // Debian's default
			words = []string{"editor"}
		}
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %s failed and nothing was changed: %w (set VISUAL or EDITOR for another)", words[0], err)
	}
	return nil
}
