package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"

	"seedbed/internal/cli"
)

// addExamples gives every command without an example those of the table.
func addExamples(all []*cobra.Command) {
	table := map[string]string{}
	for block := range strings.SplitSeq(examples, "\n\n") {
		name, lines, _ := strings.Cut(strings.TrimSpace(block), "\n")
		table[name] = lines
	}
	for _, top := range all {
		for _, c := range cli.CommandsOf(top) {
			path := c.CommandPath() // the root is not above it yet
			text, ok := table[path]
			if rest, below := strings.CutPrefix(path, "provisioner "); below && !ok {
				text, ok = strings.ReplaceAll(table[rest], "seedbed ", "seedbed provisioner "), true
			}
			if ok && c.Example == "" {
				c.Example = strings.TrimRight(text, "\n")
			}
		}
	}
}

// examples has a block for each command: its path, and lines as a user types them. Commands of the
// tree provisioner that are also outside it need none.
//
//go:embed examples.txt
var examples string
