package image

import (
	"context"
	"errors"
	"strings"

	"seedbed/internal/command"
)

// Write writes the disk in the image at src to target, an existing raw disk that is at least as
// large and all zeros. target is a name that qemu-img accepts, such as "rbd:pool/image:id=user".
// Zeros are not written. Nothing is cached: each part is read once and written once. progress gets
// percentages from 0 to 100. It returns ErrFull if there is no space, and ErrInvalid if src cannot
// be read in its format.
func Write(ctx context.Context, src string, format Format, target string, progress func(percent float64)) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Stdout: &percents{report: progress},
		Args: []string{"convert", "-p", "-n", "--target-is-zero", "-W", "-t", "none", "-f", string(format.driver()), "-O", "raw", src, target}})
	if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
		return unreadable(err)
	}
	return room(err)
}
