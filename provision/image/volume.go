package image

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// Describe describes a qcow2 file of our own, which a domain may be using.
func Describe(ctx context.Context, path string) (Info, error) {
	out, err := command.Run(ctx, command.Command{Name: Tool, Timeout: shortTime,
		Args: []string{"info", "-U", "-f", string(QCOW2), "--output=json", "--", path}})
	if err != nil {
		return Info{}, err
	}
	return ParseInfo(out.Stdout)
}

// TakeSnapshot takes a snapshot inside the qcow2 file at path. The tool accepts a name that exists,
// so the caller must check first. It returns ErrInUse while a domain has the file open, and ErrFull
// if there is no space.
func TakeSnapshot(ctx context.Context, path, name string) error {
	return snapshot(ctx, "-c", path, name)
}

// DropSnapshot removes a snapshot inside the qcow2 file at path. It returns ErrInUse while a domain
// has the file open.
func DropSnapshot(ctx context.Context, path, name string) error {
	return snapshot(ctx, "-d", path, name)
}

func snapshot(ctx context.Context, what, path, name string) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime,
		Args: []string{"snapshot", "-q", what, name, path}})
	return used(err)
}

// Flatten copies into the qcow2 file at path what it shares with its backing file, and then removes
// the reference to that file. It works in place: after an interruption the file is as before but
// larger, and a second call continues. QEMU's own lock keeps domains out in the meantime. The data
// is not yet synced. It returns ErrInUse while a domain has the file open, and ErrFull if there is
// no space.
func Flatten(ctx context.Context, path string, progress func(percent float64)) error {
	info, err := Describe(ctx, path)
	if err != nil || info.Backing == "" {
		return err
	}
	_, err = command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Stdout: &percents{report: progress},
		Args: []string{"rebase", "-p", "-f", string(QCOW2), "-F", string(QCOW2), "-b", "", path}})
	return used(err)
}

// locked is the tool's message when another process has the file open.
const locked = "Is another process using the image"

// used translates the error of a tool that found the file open elsewhere to ErrInUse.
func used(err error) error {
	e := (*command.Error)(nil)
	if errors.As(err, &e) && e.Err == nil && (strings.Contains(e.Line, locked) || strings.Contains(e.Line, "Failed to get \"write\" lock")) {
		return seedbed.Errorf(seedbed.ErrInUse, "a domain has it open: switch the domain off first (seedbed vm stop)")
	}
	return room(err)
}

// Resize sets the virtual size of the qcow2 file at path. It must not shrink; the tool refuses
// that. It returns ErrInUse while a domain has the file open, and ErrFull if there is no space.
func Resize(ctx context.Context, path string, size seedbed.Bytes) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: shortTime,
		Args: []string{"resize", "-q", "-f", string(QCOW2), "--", path, strconv.FormatInt(int64(size), 10)}})
	return used(err)
}
