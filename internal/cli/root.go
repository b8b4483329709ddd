package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed/internal/build"
)

const longHelp = `Seedbed makes virtual machines on hosts that run KVM, and the machines find
their own configuration at http://169.254.169.254/.

Where the API is, and who asks, is taken from the first of these that says so:
the flags (--connection NAME, or --url or --socket, --token-file, --ca), the
environment (SEEDBED_URL or SEEDBED_SOCKET, SEEDBED_TOKEN, SEEDBED_CA; or
SEEDBED_CONNECTION), the file ~/.config/seedbed/config.yaml (keys connection and
connections, which "seedbed connection" writes, url, socket, token_file, ca,
format), the socket /run/seedbed/control.sock if it is there,
http://127.0.0.1:7370.

Exit status:
  0  what was asked for happened
  1  it failed
  2  the command line is wrong
  3  something that was named does not exist
  4  it was refused: invalid, exists already, in use, not allowed, no room
  5  it took longer than --timeout; the job goes on`

// GlobalFlags are the flags of every command.
type GlobalFlags struct {
	URL, Socket, TokenFile, Config string
	Connection, CA                 string
	Format                         string
	Quiet                          bool
}

func (a *App) Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "seedbed",
		Short:         "virtual machines by signed webhook, with EC2's metadata",
		Long:          longHelp,
		Version:       build.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.StringVar(&a.Flags.URL, "url", "", "`URL` of the API")
	f.StringVar(&a.Flags.Socket, "socket", "", "`path` of the API's control socket")
	f.StringVar(&a.Flags.TokenFile, "token-file", "", "`file` with the API token")
	f.StringVarP(&a.Flags.Connection, "connection", "c", "", "`name` of an installation that \"seedbed connection add\" was given")
	f.StringVar(&a.Flags.CA, "ca", "", "`file` with the certificates, in PEM, that the API's must be signed by")
	f.StringVar(&a.Flags.Config, "config", "", "`file` to read instead of ~/.config/seedbed/config.yaml")
	f.StringVarP(&a.Flags.Format, "format", "f", "", "`pretty`, json or json-pretty; raw prints the names of a list alone")
	f.BoolVarP(&a.Flags.Quiet, "quiet", "q", false, "no progress, and no output that was not asked for")
	root.AddCommand(a.Commands(a)...)
	Group(root)
	a.completeNames(root)
	a.completeWords(root)
	return root
}

// Do wraps a command's work: what fails before it is a wrong command line.
func (a *App) Do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.format = a.Flags.Format
		if a.format == "" {
			a.format = a.settledFormat()
		}
		if !slices.Contains(formats, a.format) {
			return Usagef("--format %q: %s", a.format, wantFormats)
		}
		a.started = true
		return work(c.Context(), args)
	}
}

// Group makes a command that only has subcommands say so when none is named.
func Group(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef("unknown command %q: see \"%s --help\"", args[0], c.CommandPath())
		}
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return Usagef("%s what? One of %s; see \"%s --help\"", c.CommandPath(), strings.Join(names, ", "), c.CommandPath())
	}
	c.Args = cobra.ArbitraryArgs
	return c
}

func (a *App) VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the release", Args: cobra.NoArgs,
		RunE: a.Do(func(context.Context, []string) error {
			if a.JSON() {
				return a.PrintJSON(map[string]string{"version": build.Version()})
			}
			fmt.Fprintln(a.Out, "seedbed", build.Version())
			return nil
		}),
	}
}
