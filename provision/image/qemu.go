package image

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

// Tool is the program that this package runs.
const Tool = "qemu-img"

const (
	shortTime = time.Minute
	longTime  = 24 * time.Hour // the caller's context sets the real bound
	// slack is how much larger a converted file may be than measured.
	slack = 4 * seedbed.MiB
)

// untrusted limits the program that opens an unchecked file, thorough the one that then follows all
// of its tables, reading the one that reads its data, and changing the one that changes a volume.
var (
	untrusted = command.Limits{Memory: 1 * seedbed.GiB, CPU: 30 * time.Second, FileSize: 1 * seedbed.MiB}
	thorough  = command.Limits{Memory: 2 * seedbed.GiB, CPU: 10 * time.Minute, FileSize: 1 * seedbed.MiB}
	reading   = command.Limits{Memory: 4 * seedbed.GiB, FileSize: 1 * seedbed.MiB}
	changing  = command.Limits{Memory: 4 * seedbed.GiB}
)

// inherited is the path of the file that the tool is run on.
const inherited = "/proc/self/fd/3"

// onFile runs the tool, or the program that c names, on the file at path, which it knows as inherited,
// and lets it read no other file. It may write to the files of write.
func onFile(ctx context.Context, path string, c command.Command, write ...string) (command.Output, error) {
	f, err := os.Open(path)
	if err != nil {
		return command.Output{}, err
	}
	defer f.Close()
	c.Name, c.Confined = cmp.Or(c.Name, Tool), &command.Confined{Files: []*os.File{f}, Write: write}
	return command.Run(ctx, c)
}

// Inspect describes the file at path, an absolute path, and returns ErrInvalid if it cannot be used
// by itself: see Sniff and Info.Check. The file must not change during the call.
func Inspect(ctx context.Context, path string) (Info, error) {
	head, size, err := headOf(path)
	if err != nil {
		return Info{}, err
	}
	format, err := Sniff(head, size)
	if err != nil {
		return Info{}, err
	}
	return inspect(ctx, path, format)
}

// inspect is Inspect for a file whose format is known.
func inspect(ctx context.Context, path string, format Format) (Info, error) {
	info, err := describe(ctx, path, format)
	if err != nil {
		return Info{}, err
	}
	if err := info.Check(inherited); err != nil {
		return Info{}, err
	}
	info.Format = format
	return info, whole(ctx, path, format)
}

// InspectDisk is like Inspect for a disk of a domain, which may be a clone: its Backing is not
// checked. It refuses files that are not qcow2.
func InspectDisk(ctx context.Context, path string) (Info, error) {
	head, _, err := headOf(path)
	if err != nil {
		return Info{}, err
	}
	if !bytes.HasPrefix(head, []byte("QFI\xfb")) {
		return Info{}, seedbed.Errorf(seedbed.ErrInvalid,
			"is not in qcow2 format: convert it first, with qemu-img convert -O qcow2, and have the domain use that")
	}
	h, err := ReadHeader(path)
	if err != nil {
		return Info{}, err
	}
	if h.Backing != "" && h.Format != "" && h.Format != string(QCOW2) {
		return Info{}, seedbed.Errorf(seedbed.ErrInvalid, "reads from a file in the format %q: expected qcow2", seedbed.Clip(h.Format))
	}
	info, err := describe(ctx, path, QCOW2)
	if err != nil {
		return Info{}, err
	}
	alone := info
	alone.Backing, alone.Snapshots = "", nil
	return info, alone.Check(inherited)
}

// headOf returns the beginning of a file, and its size.
func headOf(path string) ([]byte, seedbed.Bytes, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, int64(HeadSize)))
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return head, seedbed.Bytes(st.Size()), nil
}

// describe returns what qemu-img reports of a file of that format.
func describe(ctx context.Context, path string, format Format) (Info, error) {
	out, err := onFile(ctx, path, command.Command{Timeout: shortTime, Limits: untrusted,
		Args: []string{"info", "-f", string(format.driver()), "--output=json", "--", inherited}})
	if err != nil {
		return Info{}, unreadable(err)
	}
	if out.Cut {
		return Info{}, invalid("has a description longer than any usable image's")
	}
	info, err := ParseInfo(out.Stdout)
	if err != nil {
		return Info{}, err
	}
	if info.Format != format.driver() {
		return Info{}, fmt.Errorf("%s info -f %s answered for the format %q", Tool, format.driver(), info.Format)
	}
	return info, nil
}

// The exit status of qemu-img check for an image whose only fault is leaked space.
const onlyLeaks = 3

// whole refuses an image that is damaged or truncated: missing parts would be read as zeros.
func whole(ctx context.Context, path string, format Format) error {
	if format != QCOW2 && format != VMDK {
		return nil // a raw image has no structure, and Sniff checks a vdi
	}
	_, err := onFile(ctx, path, command.Command{Timeout: longTime, Limits: thorough,
		Args: []string{"check", "-q", "-f", string(format), inherited}})
	e := (*command.Error)(nil)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e) || e.Err != nil:
		return err
	case e.Status == onlyLeaks:
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "is damaged or truncated: %s", e.Error())
}

// Measure returns the size that the file would have as qcow2.
func Measure(ctx context.Context, path string, format Format) (seedbed.Bytes, error) {
	out, err := onFile(ctx, path, command.Command{Timeout: longTime, Limits: reading,
		Args: []string{"measure", "-f", string(format.driver()), "-O", "qcow2", "--output=json", inherited}})
	if err != nil {
		return 0, unreadable(err)
	}
	var a struct {
		Required int64 `json:"required"`
	}
	if err := json.Unmarshal(out.Stdout, &a); err != nil {
		return 0, fmt.Errorf("answer of %s measure: %w", Tool, err)
	}
	if a.Required <= 0 {
		return 0, fmt.Errorf("%s measure answered that %d bytes are needed", Tool, a.Required)
	}
	return seedbed.Bytes(a.Required), nil
}

// Convert writes the image at src to dst, a qcow2 file that it creates with at most size bytes, as
// returned by Measure. progress gets percentages from 0 to 100. The data is not yet synced. It
// returns ErrFull if there is no space, and ErrInvalid if src cannot be read in its format.
func Convert(ctx context.Context, src string, format Format, dst string, size seedbed.Bytes, progress func(percent float64)) error {
	made, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY, 0o600) // the tool may only write to what is there
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		return err
	}
	limits := changing
	limits.FileSize = size + size/64 + slack
	_, err = onFile(ctx, src, command.Command{Timeout: longTime, Limits: limits, Stdout: &percents{report: progress},
		Args: []string{"convert", "-p", "-f", string(format.driver()), "-O", "qcow2", inherited, dst}}, dst)
	if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
		return unreadable(err)
	}
	return room(err)
}

// Create creates a qcow2 file of that virtual size. backing, if not empty, is the qcow2 file of
// which it is a clone, as a path relative to path's directory. It returns ErrFull if there is no
// space.
func Create(ctx context.Context, path, backing string, size seedbed.Bytes) error {
	args := []string{"create", "-q", "-f", "qcow2"}
	if backing != "" {
		args = append(args, "-b", backing, "-F", "qcow2")
	}
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: shortTime,
		Args: append(args, path, strconv.FormatInt(int64(size), 10))})
	return room(err)
}

// unreadable translates the error of a tool that cannot read an image to ErrInvalid.
func unreadable(err error) error {
	e := (*command.Error)(nil)
	if !errors.As(err, &e) || e.Err != nil || strings.Contains(e.Line, noSpace) {
		return room(err)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "cannot be read as a disk image: %s", e.Error())
}

// Messages of the tool for ENOSPC and EDQUOT in the C locale.
const (
	noSpace = "No space left on device"
	noQuota = "Disk quota exceeded"
)

func room(err error) error {
	e := (*command.Error)(nil)
	if errors.As(err, &e) && (strings.Contains(e.Line, noSpace) || strings.Contains(e.Line, noQuota)) {
		return seedbed.Errorf(seedbed.ErrFull, "no space left: %s", e.Error())
	}
	return err
}
