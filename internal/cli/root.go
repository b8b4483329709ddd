package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"seedbed/api/client"
	"seedbed/internal/build"
)

const longHelp = `Seedbed creates virtual machines on KVM hosts and serves them their configuration
at http://169.254.169.254/.

The address of the API and the token come from the first of these that has them:
the flags (--connection NAME, or --url or --socket, --token-file, --ca), the
environment (SEEDBED_URL or SEEDBED_SOCKET, SEEDBED_TOKEN, SEEDBED_CA; or
SEEDBED_CONNECTION), the file ~/.config/seedbed/config.yaml (keys connection and
connections, which "seedbed connection" writes, url, socket, token_file, ca,
format), the socket /run/seedbed/control.sock if it exists,
http://127.0.0.1:7370.

The project comes from --project, SEEDBED_PROJECT or the file (key project, of the
connection or of the file). Without it, the token's project is used.

Exit status:
  0  the command succeeded
  1  it failed
  2  the command line is wrong, or names no command: the help is printed
  3  a named object does not exist
  4  it was refused: invalid, exists already, in use, not allowed, no room
  5  it took longer than --timeout; the job continues
For several objects it is the status that all failures have, otherwise 1.
"vm exec" has the status of its program, or 255 if it fails by itself.`

// GlobalFlags are the flags of every command.
type GlobalFlags struct {
	URL, Socket, TokenFile, Config string
	Connection, Project, CA        string
	Format                         string
	Quiet                          bool
}

// ToolGroup is the group of the help with the commands of the tool itself.
const ToolGroup = "This tool"

// Root returns the root command with all its subcommands.
func (a *App) Root() *cobra.Command {
	root := &cobra.Command{
		Use:           "seedbed",
		Short:         "Create virtual machines by signed webhook, with EC2's metadata",
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
	f.StringVar(&a.Flags.Socket, "socket", "", "`PATH` of the API's control socket")
	f.StringVar(&a.Flags.TokenFile, "token-file", "", "read the API token from `FILE`")
	f.StringVarP(&a.Flags.Connection, "connection", "c", "", "`NAME` of an installation added with \"seedbed connection add\"")
	f.StringVar(&a.Flags.Project, "project", "", "act in this `PROJECT` instead of the connection's")
	f.StringVar(&a.Flags.CA, "ca", "", "`FILE` with the PEM certificates of the CA that signed the API's certificate")
	f.StringVar(&a.Flags.Config, "config", "", "`FILE` to read instead of ~/.config/seedbed/config.yaml")
	f.StringVarP(&a.Flags.Format, "format", "f", "", "output `FORMAT`: pretty, json, json-pretty, or raw (only the names of a list)")
	f.StringVarP(&a.Flags.Format, "output", "o", "", "output `FORMAT`; same as --format")
	f.BoolVarP(&a.Flags.Quiet, "quiet", "q", false, "suppress progress and messages")
	for _, c := range a.Commands(a) {
		if c.GroupID != "" && !root.ContainsGroup(c.GroupID) {
			root.AddGroup(&cobra.Group{ID: c.GroupID, Title: c.GroupID + ":"})
		}
		root.AddCommand(c)
	}
	if root.ContainsGroup(ToolGroup) {
		root.SetHelpCommandGroupID(ToolGroup)
		root.SetCompletionCommandGroupID(ToolGroup)
	}
	nameOthers(root)
	Group(root)
	root.SetFlagErrorFunc(flagError)
	countArgs(root)
	a.completeNames(root)
	a.completeWords(root)
	return root
}

// Do returns the function of a command. An error before the call of work is one of the command
// line.
func (a *App) Do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.format = a.Flags.Format
		if a.format == "" {
			a.format = a.settledFormat()
		}
		if !slices.Contains(formats, a.format) {
			return Usagef("--format %q: %s", a.format, expectedFormats)
		}
		a.started = true
		for _, b := range a.bound[c] {
			if err := b.Read(); err != nil {
				return err
			}
		}
		return work(c.Context(), args)
	}
}

// countArgs makes every command accept as many arguments as its usage line names: one for each word
// before the first flag, where one in brackets may be left out, and "..." allows more of the last.
func countArgs(root *cobra.Command) {
	for _, c := range CommandsOf(root) {
		if c.Args == nil && c.Runnable() {
			c.Args = argsOf(c.Use)
		}
	}
}

func argsOf(use string) cobra.PositionalArgs {
	var required []string
	most := 0
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		if most++; !strings.HasPrefix(word, "[") {
			required = append(required, strings.TrimSuffix(word, "..."))
		}
		if strings.HasSuffix(strings.Trim(word, "[]"), "...") {
			most = math.MaxInt
			break
		}
	}
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(required):
			return fmt.Errorf("the argument %s is missing", required[len(args)])
		case len(args) > most:
			return fmt.Errorf("the argument %q is one too many%s", args[most], formatMeant(c, args[most]))
		}
		return nil
	}
}

// formatMeant returns a hint for an argument that is a format, where -f does not stand for --format.
func formatMeant(c *cobra.Command, arg string) string {
	f := c.Flags().ShorthandLookup("f")
	if f == nil || f.Name == "format" || !slices.Contains(formats, arg) {
		return ""
	}
	meant := fmt.Sprintf(": -f means --%s here", f.Name)
	if !c.Flag("format").Hidden {
		meant += ", so choose the format with --format " + arg
	}
	return meant
}

// Call returns the function of a command that uses the API.
func (a *App) Call(work func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.Do(func(ctx context.Context, args []string) error {
		api, err := a.Client()
		if err != nil {
			return err
		}
		return work(ctx, api, args)
	})
}

// OwnOutput says that what a command prints has no JSON form.
func (a *App) OwnOutput(c *cobra.Command) {
	c.Flags().StringVar(&a.Flags.Format, "format", "", "has no effect here")
	_ = c.Flags().MarkHidden("format") // the flag was added above
}

// Group makes a command that has only subcommands print its help when none is named. That is a wrong
// command line, so the help goes where errors go: a script that lost a word does not continue.
func Group(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		c.SetOut(c.ErrOrStderr())
		return errors.Join(c.Help(), Usagef(""))
	}
	c.Args = cobra.ArbitraryArgs
	return c
}

// VersionCommand returns the command version.
func (a *App) VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the release",
		RunE: a.Do(func(context.Context, []string) error {
			if a.JSON() {
				return a.PrintJSON(map[string]string{"version": build.Version()})
			}
			fmt.Fprintln(a.Out, "seedbed", build.Version())
			return nil
		}),
	}
}

// DocsCommand returns the command that generates the package's documentation. Users do not need it.
func (a *App) DocsCommand() *cobra.Command {
	c := Group(&cobra.Command{Use: "docs", Short: "Make documentation", Hidden: true})
	c.AddCommand(&cobra.Command{
		Use: "man DIR", Short: "Write the manual pages to a directory",
		RunE: a.Do(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := a.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "SEEDBED", Section: "1", Source: "Seedbed " + build.Version(), Manual: "Seedbed",
			}, args[0])
		}),
	})
	return c
}
