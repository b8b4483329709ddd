package flags

import (
	"fmt"
	"strings"

	"seedbed"
	"seedbed/internal/cli"
)

// SSHKeys takes each argument as an authorized_keys line, or as a file of them.
func SSHKeys(args []string) ([]string, error) {
	keys := []string{}
	for _, arg := range args {
		if strings.Contains(arg, " ") && !strings.HasPrefix(arg, "/") {
			keys = append(keys, strings.TrimSpace(arg))
			continue
		}
		text, err := cli.ReadBounded(arg, 64*seedbed.KiB)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		if strings.Contains(string(text), "PRIVATE KEY") {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "--ssh-key: %s is a private key: name the public one, %s.pub", arg, arg)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				keys = append(keys, line)
			}
		}
	}
	return keys, nil
}
