package image

import (
	"bytes"
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
	// slack is what a converted file may be larger than measured.
	slack = 4 * seedbed.MiB
)

// untrusted bounds the program that opens a file that nobody has looked at yet,
// and thorough the one that then follows all of its tables.
var (
	untrusted = command.Limits{Memory: 1 * seedbed.GiB, CPU: 30 * time.Second, FileSize: 1 * seedbed.MiB}
	thorough  = command.Limits{Memory: 2 * seedbed.GiB, CPU: 10 * time.Minute, FileSize: 1 * seedbed.MiB}
)

// Inspect tells what the file at path, an absolute path, holds, and refuses with ErrInvalid what
// cannot be used by itself: see Sniff and Info.Check. The file must not change meanwhile.
func Inspect(ctx context.Context, path string) (Info, error) {
	head, size, err := headOf(path)
	if err != nil {
		return Info{}, err
	}
	format, err := Sniff(head, size)
	if err != nil {
		return Info{}, err
	}
	info, err := describe(ctx, path, format)
	if err != nil {
		return Info{}, err
	}
	if err := info.Check(path); err != nil {
		return Info{}, err
	}
	info.Format = format
	return info, whole(ctx, path, format)
}

// InspectDisk is Inspect for the disk of a domain, which may be a clone: its
// Backing is not looked at. It refuses what is not qcow2.
func InspectDisk(ctx context.Context, path string) (Info, error) {
	head, _, err := headOf(path)
	if err != nil {
		return Info{}, err
	}
	if !bytes.HasPrefix(head, []byte("QFI\xfb")) {
		return Info{}, seedbed.Errorf(seedbed.ErrInvalid, "is not in qcow2 format: convert it first, with qemu-img convert -O qcow2, and have the domain use that")
	}
	info, err := describe(ctx, path, QCOW2)
	if err != nil {
		return Info{}, err
	}
	alone := info
	alone.Backing, alone.Snapshots = "", nil
	return info, alone.Check(path)
}

// headOf is the start of a file, and its size.
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

// describe is what qemu-img says of a file of that format.
func describe(ctx context.Context, path string, format Format) (Info, error) {
	out, err := command.Run(ctx, command.Command{Name: Tool, Timeout: shortTime, Limits: untrusted,
		Args: []string{"info", "-f", string(format.driver()), "--output=json", "--", path}})
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

// The exit status of qemu-img check for an image whose only fault is space that nothing refers to.
const onlyLeaks = 3

// whole refuses an image that is damaged or cut off: what is missing would be
// read as zeros.
func whole(ctx context.Context, path string, format Format) error {
	if format != QCOW2 && format != VMDK {
		return nil // a raw image has no structure, and Sniff looks at a vdi
	}
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Limits: thorough,
		Args: []string{"check", "-q", "-f", string(format), path}})
	e := (*command.Error)(nil)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e) || e.Err != nil:
		return err
	case e.Status == onlyLeaks:
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "is damaged or cut off: %s", e.Error())
}

// Measure is the size that the file would have as qcow2.
func Measure(ctx context.Context, path string, format Format) (seedbed.Bytes, error) {
	out, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime,
		Limits: command.Limits{FileSize: 1 * seedbed.MiB},
		Args:   []string{"measure", "-f", string(format.driver()), "-O", "qcow2", "--output=json", path}})
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

// Convert writes the image at src into dst, a qcow2 file that it makes, of at
// most size bytes as Measure gave them. progress gets percentages, 0 to 100. The data is not yet
// synced. Errors: ErrFull without room, ErrInvalid when src cannot be read as its format.
func Convert(ctx context.Context, src string, format Format, dst string, size seedbed.Bytes, progress func(percent float64)) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime,
		Limits: command.Limits{FileSize: size + size/64 + slack}, Stdout: &percents{report: progress},
		Args: []string{"convert", "-p", "-f", string(format.driver()), "-O", "qcow2", src, dst}})
	if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
		return unreadable(err)
	}
	return room(err)
}

// Create makes a qcow2 file of that virtual size. backing, when not empty, is a qcow2 file
// whose clone it is, as a path relative to path's directory. ErrFull without room.
func Create(ctx context.Context, path, backing string, size seedbed.Bytes) error {
	args := []string{"create", "-q", "-f", "qcow2"}
	if backing != "" {
		args = append(args, "-b", backing, "-F", "qcow2")
	}
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: shortTime,
		Args: append(args, path, strconv.FormatInt(int64(size), 10))})
	return room(err)
}

// unreadable makes ErrInvalid of a tool that would not read an image.
func unreadable(err error) error {
	e := (*command.Error)(nil)
	if !errors.As(err, &e) || e.Err != nil || strings.Contains(e.Line, noSpace) {
		return room(err)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "cannot be read as a disk image: %s", e.Error())
}

// What the tool prints for ENOSPC and EDQUOT in the C locale.
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
