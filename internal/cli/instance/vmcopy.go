package instance

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// reasonTime is how long the other side has to say why it takes no more of a file.
const reasonTime = 5 * time.Second

func vmCopy(a *cli.App) *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use: "cp FROM TO", Short: "Copy a file from an instance's guest or to it, by its agent",
		Long: `Copy a file from an instance's guest, or to it. One of FROM and TO is NAME:PATH, a path in the
guest, and the other a file of this host; - is the standard input or output, unless that is a
terminal. A directory of this host gets the file under its own name. The QEMU guest agent
reads and writes as root. A file in the guest is written in place, with the owner and the mode
that it has, so an interrupted copy leaves a part of it. It has at most 1 GiB. A file here is
replaced when all of it has come, and keeps its mode; a new one can only be read by you.`,
		Args: cobra.ExactArgs(2),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			from, fromPath, fromGuest := guestPath(args[0])
			to, toPath, toGuest := guestPath(args[1])
			switch {
			case fromGuest == toGuest:
				return cli.Usagef("one of %q and %q must be in a guest, as NAME:PATH, and the other on this host (./a:b has no guest)",
					args[0], args[1])
			case toGuest:
				return sendFile(ctx, a, api, args[0], to, toPath)
			case args[1] == "-" && a.Terminal && !raw:
				return cli.Usagef("a guest's file may control the terminal: name a file, redirect the output (| less), or give --raw")
			}
			return fetchFile(ctx, a, api, from, fromPath, args[1])
		}),
	}
	c.Flags().BoolVar(&raw, "raw", false, "pass a file of the guest to the terminal as it is")
	return c
}

// guestPath parses NAME:PATH. A path of this host with a colon has a slash before it.
func guestPath(s string) (name, path string, ok bool) {
	name, path, ok = strings.Cut(s, ":")
	if !ok || name == "" || path == "" || strings.Contains(name, "/") {
		return "", "", false
	}
	return name, path, true
}

// source is a reader that knows its error, which may be io.EOF.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.err = err
	return n, err
}

func sendFile(ctx context.Context, a *cli.App, api *client.Client, file, name, path string) error {
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() || info.Size() > int64(seedbed.MaxGuestFile) {
			return cli.Usagef("%s: expected a file of at most %s", file, seedbed.MaxGuestFile)
		}
		in = f
	}
	s, err := api.OpenFile(ctx, name, wire.FileRequest{Path: path, Write: true})
	if err != nil {
		return err
	}
	defer s.Close()
	ended, sent := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, s)
		ended <- err
	}()
	from := &source{r: in}
	// A read of a terminal or a pipe cannot be interrupted, so this goroutine may end with the program.
	go func() {
		_, err := io.Copy(s.Conn, from)
		if err == nil {
			err = client.EndFile(s)
		} else if from.err != nil && from.err != io.EOF {
			s.Close() // the guest is not to take a part for the whole
		}
		sent <- err
	}()
	interrupted := func() error {
		return fmt.Errorf("%s in the guest of %s may have only a part of the file: %w", path, name, ctx.Err())
	}
	select {
	case err := <-ended:
		if err != nil { // the other side has said why
			return err
		}
		select { // it has all if all was sent
		case err = <-sent:
			return err
		case <-ctx.Done():
			return interrupted()
		}
	case <-ctx.Done():
		return interrupted()
	case err = <-sent:
	}
	var late <-chan time.Time
	switch {
	case err != nil && from.err != nil && from.err != io.EOF:
		return fmt.Errorf("copy %s: %w", file, from.err)
	case err != nil:
		late = time.After(reasonTime)
	}
	select {
	case reason := <-ended:
		return reason
	case <-ctx.Done():
		return interrupted()
	case <-late:
		return fmt.Errorf("copy %s: %w", file, err)
	}
}

func fetchFile(ctx context.Context, a *cli.App, api *client.Client, name, path, file string) error {
	var to cli.Target
	if file != "-" {
		var err error
		if to, err = cli.NewTarget(file, path[strings.LastIndexAny(path, `/\`)+1:]); err != nil {
			return err
		}
	}
	s, err := api.OpenFile(ctx, name, wire.FileRequest{Path: path})
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	fetch := func(w io.Writer) error {
		_, err := io.Copy(w, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if file == "-" {
		return fetch(a.Out)
	}
	return to.Write(fetch)
}
