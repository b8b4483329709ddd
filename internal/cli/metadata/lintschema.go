package metadata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

const (
	schemaTimeout = 30 * time.Second
	schemaLines   = 20
	schemaWidth   = 500
)

// schemaBy returns a function that checks a cloud-config with the schema of the cloud-init
// installed as tool.
func schemaBy(tool string) func(context.Context, []byte) ([]string, error) {
	return func(ctx context.Context, config []byte) ([]string, error) {
		dir, err := os.MkdirTemp("", "seedbed-lint-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "user-data")
		if !bytes.HasPrefix(config, []byte("#cloud-config")) {
			config = append([]byte("#cloud-config\n"), config...) // the kind of a part is in its header
		}
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return nil, err
		}
		out, err := command.Run(ctx, command.Command{Name: tool, Args: []string{"schema", "--config-file", file}, Timeout: schemaTimeout})
		if err == nil || errors.Is(err, seedbed.ErrUnavailable) {
			return nil, nil
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("cloud-init schema: %w", err)
		}
		return complaints(string(out.Stderr)+"\n"+string(out.Stdout), file), nil
	}
}

// complaints returns cloud-init's messages about a file, without those that it prints for every
// file.
func complaints(text, file string) (all []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.ReplaceAll(line, file, "the document"))
		for _, opening := range []string{
			"Error:", "Cloud config schema errors:", "Cloud config schema deprecations:",
			"Invalid cloud-config schema: user-data", "Invalid user-data",
		} {
			line = strings.TrimSpace(strings.TrimPrefix(line, opening))
		}
		if line != "" && len(all) < schemaLines {
			all = append(all, "cloud-init schema: "+strings.ToValidUTF8(line[:min(len(line), schemaWidth)], ""))
		}
	}
	if all == nil {
		all = []string{"cloud-init schema refuses it"}
	}
	return all
}
