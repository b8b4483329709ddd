package instance

import (
	"context"
	"errors"
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
	"seedbed/internal/durable"
)

func vmExec(a *cli.App) *cobra.Command {
	var input bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "exec NAME -- PROGRAM [ARGUMENT...]", Short: "Run a program in an instance's guest, by its agent",
		Long: `Run a program in an instance's guest. The QEMU guest agent there runs it, as root, without a
shell: for one, run sh -c 'COMMANDS'. Its output is shown when it has exited, and its exit
code is the command's. With -i the program gets the standard input, at most 1 MiB.
The program goes on in the guest if the command is interrupted, or --timeout ends it.`,
		Args: cobra.MinimumNArgs(2),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			g := seedbed.GuestCommand{Path: args[1], Arguments: args[2:]}
			if input {
				var err error
				if g.Data, err = cli.ReadLimited(a.In, "the input", seedbed.MaxGuestInput); err != nil {
					return err
				}
			}
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			p, err := api.GuestExec(ctx, args[0], g)
			for err == nil && !p.Exited {
				p, err = api.GuestWait(ctx, args[0], p.ID)
			}
			if timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return cli.TimedOutf("%s has not exited within %s: it goes on in the guest of %s", args[1], timeout, args[0])
			}
			if err != nil {
				return err
			}
			return showProcess(a, args[1], p)
		}),
	}
	c.Flags().BoolVarP(&input, "stdin", "i", false, "give the program the standard input")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for its end (default: without a limit)")
	return c
}

// showProcess shows what a program in a guest has printed, and returns its exit code as an error unless it is 0.
func showProcess(a *cli.App, program string, p seedbed.GuestProcess) error {
	if a.JSON() {
		if err := a.PrintJSON(p); err != nil {
			return err
		}
	} else {
		for _, o := range []struct {
			to   io.Writer
			text []byte
		}{{a.Out, p.Stdout}, {a.Err, p.Stderr}} {
			if a.Terminal {
				o.to = cli.NewSafeWriter(o.to)
			}
			if _, err := o.to.Write(o.text); err != nil {
				return err
			}
		}
	}
	switch {
	case p.Signal != 0:
		return seedbed.Errorf(seedbed.ErrConflict, "%s was ended by signal %d", program, p.Signal)
	case p.Truncated:
		return seedbed.Errorf(seedbed.ErrConflict, "%s has printed more than the guest agent keeps: the end is missing", program)
	case p.ExitCode != 0:
		return cli.Exit(p.ExitCode)
	}
	return nil
}

func vmCopy(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "cp FROM TO", Short: "Copy a file from an instance's guest or to it, by its agent",
		Long: `Copy a file from an instance's guest, or to it. One of FROM and TO is NAME:PATH, a path in the
guest, and the other a file of this host; - is the standard input or output. The QEMU guest
agent reads and writes as root. A file in the guest is written in place, with the owner and
the mode that it has, so an interrupted copy leaves a part of it. It has at most 1 GiB.`,
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
			}
			return fetchFile(ctx, a, api, from, fromPath, args[1])
		}),
	}
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
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, s)
		ended <- err
		s.Close() // which ends a copy that goes on
	}()
	_, err = io.Copy(s.Conn, in)
	if err == nil {
		err = client.EndFile(s)
	}
	select {
	case <-s.Done(): // the other side has said why
		return <-ended
	default:
	}
	if err != nil {
		s.Close()
		return fmt.Errorf("copy %s: %w", file, err)
	}
	return <-ended
}

func fetchFile(ctx context.Context, a *cli.App, api *client.Client, name, path, file string) error {
	s, err := api.OpenFile(ctx, name, wire.FileRequest{Path: path})
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	if file == "-" {
		_, err := io.Copy(a.Out, s)
		return err
	}
	return durable.Write(file, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, s)
		return err
	})
}
