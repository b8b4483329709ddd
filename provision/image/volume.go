package image

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// TakeSnapshot takes a snapshot inside the file. The tool accepts a name that exists, so the caller
// must check first. It returns ErrInUse while a domain has the file open, ErrFull if there is no
// space, and the errors of Header.
func (v Volume) TakeSnapshot(ctx context.Context, name string) error {
	return v.snapshot(ctx, "-c", name)
}

// DropSnapshot removes a snapshot inside the file. It returns ErrInUse while a domain has the file
// open, and the errors of Header.
func (v Volume) DropSnapshot(ctx context.Context, name string) error {
	return v.snapshot(ctx, "-d", name)
}

// RestoreSnapshot gives the file the content and the size that it had at a snapshot inside it, which
// stays. The data is not yet synced. It returns ErrInUse while a domain has the file open, ErrFull if
// there is no space, and the errors of Header.
func (v Volume) RestoreSnapshot(ctx context.Context, name string) error {
	return v.snapshot(ctx, "-a", name)
}

func (v Volume) snapshot(ctx context.Context, what, name string) error {
	if _, err := v.Header(); err != nil {
		return err
	}
	return v.change(ctx, command.Command{Timeout: longTime, Args: []string{"snapshot", "-q", "--image-opts", what, name, v.options()}})
}

// change runs the tool so that it can open the volume and its image, and no other file.
func (v Volume) change(ctx context.Context, c command.Command) error {
	c.Name, c.Limits, c.Confined = Tool, changing, &command.Confined{Write: []string{v.Path}}
	if v.Backing != "" {
		c.Confined.Read = []string{v.Backing}
	}
	_, err := command.Run(ctx, c)
	return used(err)
}

// options names the file and its format to a command that has no option for the format, and would
// guess it.
func (v Volume) options() string {
	return "driver=" + string(QCOW2) + ",file.driver=file,file.filename=" + strings.ReplaceAll(v.Path, ",", ",,")
}

// Flatten copies into the file what it shares with its image, and then removes the reference to
// that. It works in place: after an interruption the file is as before but larger, and a second call
// continues. QEMU's own lock keeps domains out in the meantime. The data is not yet synced. It
// returns ErrInUse while a domain has the file open, ErrFull if there is no space, and the errors of
// Header.
func (v Volume) Flatten(ctx context.Context, progress func(percent float64)) error {
	h, err := v.Header()
	if err != nil || h.Backing == "" {
		return err
	}
	return v.change(ctx, command.Command{Timeout: longTime, Stdout: &percents{report: progress},
		Args: []string{"rebase", "-p", "-f", string(QCOW2), "-F", string(QCOW2), "-b", "", v.Path}})
}

// Copy writes what the disk contains, or contained at a snapshot inside the file if at is not empty, to dst, a qcow2 file of that virtual
// size, which it creates and which depends on no other. QEMU's own lock keeps domains out in the meantime. The data is not yet synced. It
// returns ErrInUse while a domain has the file open, ErrFull if there is no space, and the errors of Header.
func (v Volume) Copy(ctx context.Context, at, dst string, size seedbed.Bytes, progress func(percent float64)) error {
	if _, err := v.Header(); err != nil {
		return err
	}
	made, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY, 0o600) // the tool may only write to what is there
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		return err
	}
	from := command.Confined{Write: []string{dst}, Read: []string{v.Path}}
	if v.Backing != "" {
		from.Read = append(from.Read, v.Backing)
	}
	args := []string{"convert", "-p", "-f", string(QCOW2), "-O", string(QCOW2)}
	if at != "" {
		args = append(args, "-l", "snapshot.name="+at)
	}
	_, err = command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Limits: changing, Confined: &from,
		Stdout: &percents{report: progress}, Args: append(args, v.Path, dst)})
	if err != nil {
		return used(err)
	}
	return Volume{Path: dst}.Resize(ctx, size)
}

// CopySnapshot writes what the disk contained at a snapshot inside the file to dst, a raw file that exists, without zeros. A domain may
// have the file open: what a snapshot has does not change. The data is not yet synced. It returns ErrFull if there is no space, and the
// errors of Header.
func (v Volume) CopySnapshot(ctx context.Context, name, dst string) error {
	return room(v.copyRaw(ctx, dst, "-U", "-l", "snapshot.name="+name))
}

// CopyRaw is CopySnapshot for what the disk contains now. QEMU's own lock keeps domains out in the meantime. It returns ErrInUse while a
// domain has the file open.
func (v Volume) CopyRaw(ctx context.Context, dst string) error { return used(v.copyRaw(ctx, dst)) }

func (v Volume) copyRaw(ctx context.Context, dst string, how ...string) error {
	if _, err := v.Header(); err != nil {
		return err
	}
	from := command.Confined{Write: []string{dst}, Read: []string{v.Path}}
	if v.Backing != "" {
		from.Read = append(from.Read, v.Backing)
	}
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Limits: changing, Confined: &from,
		Args: append(append([]string{"convert"}, how...), "-f", string(QCOW2), "-O", string(Raw), v.Path, dst)})
	return err
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

// Resize sets the virtual size of the disk. It must not shrink; the tool refuses that. It returns
// ErrInUse while a domain has the file open, ErrFull if there is no space, and the errors of Header.
func (v Volume) Resize(ctx context.Context, size seedbed.Bytes) error {
	if _, err := v.Header(); err != nil {
		return err
	}
	return v.change(ctx, command.Command{Timeout: shortTime,
		Args: []string{"resize", "-q", "-f", string(QCOW2), "--", v.Path, strconv.FormatInt(int64(size), 10)}})
}
