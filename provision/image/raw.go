package image

import (
	"context"
	"errors"
	"strings"

	"seedbed/internal/command"
)

// Write writes the disk in the image at src onto target, a raw disk that is
// there, at least as large, and all zeros: a name as qemu-img takes it, such as
// "rbd:pool/image:id=user". What is zero is not written. Nothing is kept in a cache on the way:
// each part is read once, and written once. progress gets percentages, 0 to 100. Errors: ErrFull
// without room, ErrInvalid when src cannot be read as its format.
func Write(ctx context.Context, src string, format Format, target string, progress func(percent float64)) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Stdout: &percents{report: progress},
		Args: []string{"convert", "-p", "-n", "--target-is-zero", "-W", "-t", "none", "-f", string(format.driver()), "-O", "raw", src, target}})
	if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
		return unreadable(err)
	}
	return room(err)
}
