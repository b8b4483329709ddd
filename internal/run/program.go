package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"seedbed/internal/build"
	"seedbed/internal/config"
)

// These are the exit statuses of a daemon.
const (
	exitDone   = 0 // it was told to stop, and did
	exitFailed = 1
	exitUsage  = 2
)

// Program is a daemon: its main is os.Exit(Program{...}.Main(...)).
type Program struct {
	// Name is the program's name, and Summary one line for -help.
	Name, Summary string
	// Flags adds the program's own flags. It may be nil.
	Flags func(*flag.FlagSet)
	// Run does the work until ctx ends.
	Run func(ctx context.Context, c config.Config, log *slog.Logger) error
}

// Main reads flags and configuration, sets up the log and signals, and runs the program. The status
// is 0 after an orderly stop, 1 after a failure, and 2 for wrong arguments. Every daemon has the
// flags -config FILE, -check (load the configuration, report whether it is valid, and exit),
// -example (print a configuration with all defaults), -version, and -cpuprofile FILE (profile until
// the stop).
func (p Program) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nUsage: %s [flags]\n\nFlags:\n", p.Name, p.Summary, p.Name)
		flags.PrintDefaults()
	}
	file := flags.String("config", config.DefaultPath, "configuration `file`; the default need not exist")
	check := flags.Bool("check", false, "check the configuration and exit")
	example := flags.Bool("example", false, "print a configuration with every key and its default, and exit")
	version := flags.Bool("version", false, "print the release and exit")
	profile := flags.String("cpuprofile", "", "write a CPU profile of the whole run to this `file`, complete once the program has stopped")
	if p.Flags != nil {
		p.Flags(flags)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unexpected argument %q: see %s -help\n", p.Name, flags.Arg(0), p.Name)
		return exitUsage
	case *version:
		fmt.Fprintln(stdout, p.Name, build.Version())
		return exitDone
	case *example:
		fmt.Fprint(stdout, config.Example())
		return exitDone
	}
	c, err := config.Load(*file)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return exitFailed
	}
	if *check {
		fmt.Fprintf(stdout, "%s: configuration ok\n", p.Name)
		return exitDone
	}
	return p.run(ctx, c, NewLog(stderr, c.Log.Level), *profile)
}

func (p Program) run(ctx context.Context, c config.Config, log *slog.Logger, profile string) int {
	ctx, stop := Signals(ctx, log, os.Exit)
	defer stop()
	log.Info("starting", "program", p.Name, "version", build.Version(), "node", c.Node)
	if err := profiled(profile, func() error { return p.Run(ctx, c, log) }); err != nil {
		log.Error("giving up", "program", p.Name, "err", err)
		return exitFailed
	}
	log.Info("stopped", "program", p.Name)
	return exitDone
}
