package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// maxViewers is how many viewers there are at a time: a screen has no more sessions.
const maxViewers = 16

func vmVNC(a *cli.App) *cobra.Command {
	v := viewing{a: a}
	var ticket bool
	c := &cobra.Command{
		Use: "vnc NAME", Short: "Let a VNC viewer see an instance's screen",
		Long: `Let a VNC viewer of this host see an instance's screen, and type there. The command prints
an address of this host, to which viewers connect until it is interrupted (Ctrl-C). Whoever
may use the address has the screen, and the viewer needs no password. An address is open to
all users of this host: with --listen it is only open to you.

With --ticket it only prints the URL of a WebSocket, such as for noVNC. One connection can be
made to it, within a minute. The API must be named by --url.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if ticket {
				if !strings.HasPrefix(api.Where(), "http") {
					return cli.Usagef("the control socket %s has no URL for browsers: name the API's with --url", api.Where())
				}
				t, url, err := api.ScreenTicket(ctx, args[0])
				return a.ShowPairs(err, t, [][2]string{{"url", url}, {"ticket", t.Ticket}, {"expires", a.Moment(t.Expires)}})
			}
			v.api, v.name = api, args[0]
			return v.run(ctx)
		}),
	}
	f := c.Flags()
	f.Uint16Var(&v.port, "port", 0, "the `PORT` of 127.0.0.1 for viewers (default: a free one)")
	f.StringVar(&v.socket, "listen", "", "take viewers at this `PATH` of a unix socket instead of a port")
	f.BoolVar(&v.once, "once", false, "end when the first viewer has left")
	f.BoolVar(&ticket, "ticket", false, "only print a URL, and take no viewers")
	for _, other := range []string{"port", "listen", "once"} {
		c.MarkFlagsMutuallyExclusive("ticket", other)
	}
	c.MarkFlagsMutuallyExclusive("port", "listen")
	return c
}

// viewing takes viewers of a screen.
type viewing struct {
	a            *cli.App
	api          *client.Client
	name, socket string
	port         uint16
	once         bool
}

// run takes viewers until ctx ends, or the first one has left if there is to be only one.
func (v viewing) run(ctx context.Context) error {
	if err := v.look(ctx); err != nil {
		return err
	}
	ln, err := v.listen()
	if err != nil {
		return err
	}
	defer ln.Close()
	at := ln.Addr().String()
	if v.a.JSON() {
		err = v.a.PrintJSONLine(map[string]string{"address": at})
	} else {
		_, err = fmt.Fprintln(v.a.Out, at)
	}
	if err != nil {
		return err
	}
	v.say("VNC viewers see the screen of %s at this address, until Ctrl-C", v.name)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var viewers sync.WaitGroup
	defer viewers.Wait()
	places := make(chan struct{}, maxViewers)
	for {
		select { // more wait in the kernel
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		viewer, err := ln.Accept()
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if err != nil {
			return fmt.Errorf("wait for viewers at %s: %w", at, err)
		}
		if v.once {
			ln.Close()
			return v.show(ctx, viewer)
		}
		viewers.Go(func() {
			defer func() { <-places }()
			if err := v.show(ctx, viewer); err != nil && ctx.Err() == nil {
				v.say("a viewer has lost the screen of %s: %s", v.name, cli.OneLine(err.Error()))
			}
		})
	}
}

// say prints a message for people, beside the address.
func (v viewing) say(format string, args ...any) {
	if !v.a.Flags.Quiet {
		fmt.Fprintf(v.a.Err, "seedbed: "+format+"\n", args...)
	}
}

// look finds out whether there is a screen: its server speaks first.
func (v viewing) look(ctx context.Context) error {
	screen, err := v.api.OpenScreen(ctx, v.name)
	if err != nil {
		return err
	}
	defer screen.Close()
	stop := context.AfterFunc(ctx, screen.Close)
	defer stop()
	if _, err = screen.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		err = seedbed.Errorf(seedbed.ErrConflict, "%v", seedbed.ErrConsoleEnded)
	}
	return err
}

// listen opens the address for viewers. A socket is for its owner.
func (v viewing) listen() (net.Listener, error) {
	if v.socket == "" {
		return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(v.port))))
	}
	former := unix.Umask(0o177) // nobody else can connect at any moment; the program makes no other file now
	defer unix.Umask(former)
	return net.Listen("unix", v.socket)
}

// show shows the screen to a viewer until one of them ends. It returns an error if that is the screen.
func (v viewing) show(ctx context.Context, viewer net.Conn) error {
	defer viewer.Close()
	screen, err := v.api.OpenScreen(ctx, v.name)
	if err != nil {
		return err
	}
	defer screen.Close()
	stop := context.AfterFunc(ctx, func() {
		screen.Close()
		viewer.Close() // which may read nothing
	})
	defer stop()
	var left atomic.Bool // the viewer has, before the screen has ended
	over := make(chan struct{})
	go func() {
		defer close(over)
		typed := &source{r: viewer}
		_, _ = io.Copy(screen.Conn, typed) // typed and shown say which side has ended
		if typed.err != nil {
			left.Store(true)
		}
		screen.Close()
	}()
	shown := &source{r: screen}
	_, err = io.Copy(viewer, shown)
	if left.Load() || shown.err == nil { // the viewer takes no more
		err = nil
	}
	viewer.Close()
	screen.Close()
	<-over
	return err
}
