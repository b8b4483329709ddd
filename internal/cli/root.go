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

// globalFlags are the flags of every command.
type globalFlags struct {
	url, socket, tokenFile, config string
	connection, ca                 string
	format                         string
	quiet                          bool
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
	f.StringVar(&a.flags.url, "url", "", "`URL` of the API")
	f.StringVar(&a.flags.socket, "socket", "", "`path` of the API's control socket")
	f.StringVar(&a.flags.tokenFile, "token-file", "", "`file` with the API token")
	f.StringVarP(&a.flags.connection, "connection", "c", "", "`name` of an installation that \"seedbed connection add\" was given")
	f.StringVar(&a.flags.ca, "ca", "", "`file` with the certificates, in PEM, that the API's must be signed by")
	f.StringVar(&a.flags.config, "config", "", "`file` to read instead of ~/.config/seedbed/config.yaml")
	f.StringVarP(&a.flags.format, "format", "f", "", "`pretty`, json or json-pretty; raw prints the names of a list alone")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "no progress, and no output that was not asked for")
	root.AddCommand(
		a.imageCmd(), a.profileCmd(), a.hookCmd(), a.deliveryCmd(), a.endpointCmd(), a.createCmd(), a.vmCmd(), a.jobCmd(), a.trashCmd(), a.orphanCmd(),
		a.metadataCmd(), a.networkCmd(), a.nodeCmd(), a.clusterCmd(), a.certificateCmd(), a.cleanupCmd(), a.tokenCmd(), a.auditCmd(), a.doctorCmd(), a.statusCmd(), a.versionCmd(), a.docsCmd(),
		a.provisionerCmd(), a.templateCmd(), a.userdataCmd(), a.ovaCmd(), a.connectionCmd(), a.catalogueCmd(), a.scriptCmd(),
	)
	group(root)
	a.completeNames(root)
	a.completeWords(root)
	return root
}

// do wraps a command's work: what fails before it is a wrong command line.
func (a *App) do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.format = a.flags.format
		if a.format == "" {
			a.format = a.settledFormat()
		}
		if !slices.Contains(formats, a.format) {
			return usagef("--format %q: %s", a.format, wantFormats)
		}
		a.started = true
		return work(c.Context(), args)
	}
}

// group makes a command that only has subcommands say so when none is named.
func group(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q: see \"%s --help\"", args[0], c.CommandPath())
		}
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return usagef("%s what? One of %s; see \"%s --help\"", c.CommandPath(), strings.Join(names, ", "), c.CommandPath())
	}
	c.Args = cobra.ArbitraryArgs
	return c
}

func (a *App) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the release", Args: cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			if a.json() {
				return a.printJSON(map[string]string{"version": build.Version()})
			}
			fmt.Fprintln(a.Out, "seedbed", build.Version())
			return nil
		}),
	}
}
