package image

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
)

// An operator imports what is offered, and does not learn what other files there are.
func TestImports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	err := errors.Join(os.MkdirAll(at("offered", "below"), 0o700), os.Mkdir(at("offered-not"), 0o755),
		os.Symlink(at("offered-not", "public"), at("offered", "out")), os.Symlink("below/private", at("offered", "in")),
		os.Symlink(at("offered-not"), at("offered", "dir")))
	for path, mode := range map[string]os.FileMode{at("offered", "below", "private"): 0o600, at("offered", "public"): 0o644,
		at("offered-not", "public"): 0o644, at("offered-not", "private"): 0o600, at("offered-not", "group"): 0o640} {
		err = errors.Join(err, os.WriteFile(path, []byte("disk"), 0o600), os.Chmod(path, mode))
	}
	listener, wrong := net.Listen("unix", at("offered-not", "socket"))
	err = errors.Join(err, wrong, os.Symlink("round", at("offered", "round")))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	all, offered := Imports(nil), Imports{at("none"), at("offered")}
	for _, c := range []struct {
		name string
		from Imports
		path string
		ok   bool
	}{
		{"a public file", all, at("offered-not", "public"), true},
		{"below a private file", all, at("offered-not", "private", "x"), false},
		{"below nothing", all, at("offered-not", "nothing", "x"), false},
		{"a link to itself", all, at("offered", "round"), false},
		{"a socket", all, at("offered-not", "socket"), false},
		{"a link to one", all, at("offered", "out"), true},
		{"a private file", all, at("offered-not", "private"), false},
		{"a group's file", all, at("offered-not", "group"), false},
		{"a link to a private file", all, at("offered", "in"), false},
		{"nothing", all, at("offered-not", "nothing"), false},
		{"an offered file", offered, at("offered", "public"), true},
		{"a private one that is offered", offered, at("offered", "below", "private"), true},
		{"an offered one by a link", offered, at("offered", "in"), true},
		{"another public file", offered, at("offered-not", "public"), false},
		{"one with a longer way", offered, at("offered") + "/../offered-not/public", false},
		{"a link out", offered, at("offered", "out"), false},
		{"a link to a directory outside", offered, at("offered", "dir", "public"), false},
		{"the directory", offered, at("offered"), false},
		{"nothing that is offered", offered, at("offered", "nothing"), false},
	} {
		src, err := OpenSource(seedbed.ImageSpec{Name: "x", Path: c.path}, nil, c.from)
		if !c.ok && !errors.Is(err, seedbed.ErrNotFound) || c.ok && err != nil {
			t.Errorf("%s: got %v", c.name, err)
		}
		if src == nil {
			continue
		}
		if text, err := io.ReadAll(src.file); err != nil || string(text) != "disk" {
			t.Errorf("%s: read %q, %v", c.name, text, err)
		}
		src.Close()
	}
}

// What is not a regular file is looked at and not opened: opening a device can be an order to it.
func TestImportsOpenNoDevice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := errors.Join(unix.Mkfifo(fifo, 0o644), os.Chmod(fifo, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from Imports
		path string
	}{"a device": {nil, "/dev/zero"}, "a FIFO": {nil, fifo}, "an offered FIFO": {Imports{dir}, fifo}} {
		f, err := c.from.open(seedbed.ImageSpec{Name: "x", Path: c.path}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if how, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || how&unix.O_PATH == 0 {
			t.Errorf("%s is opened with the flags %#x, %v", name, how, err)
		}
		f.Close()
	}
}
