package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

const (
	// execFailed is the exit status of vm exec when no program says it, as that of ssh.
	execFailed = 255
	// execSignal is added to the number of the signal that ended a program, as shells do.
	execSignal = 128
	// execInterrupted is the exit status after Ctrl-C.
	execInterrupted = execSignal + 2
	// waitAgain is how long the end of a program is asked for while the API or the agent does not answer.
	waitAgain = time.Minute
)

func vmExec(a *cli.App) *cobra.Command {
	x := execution{a: a}
	c := &cobra.Command{
		Use: "exec NAME -- PROGRAM [ARGUMENT...]", Short: "Run a program in an instance's guest, by its agent",
		Long: `Run a program in an instance's guest. The QEMU guest agent there runs it, as root, without a
shell: for one, run sh -c 'COMMANDS'. Its output is shown when it has exited. With -i the
program gets the standard input, at most 64 KiB.

The exit status is that of the program, 128 and the number of the signal that has ended it, or
255 if the command itself fails, such as when no agent answers or --timeout has passed.

The program goes on in the guest if the command is interrupted, or --timeout ends it. The
command then says its ID, and --wait ID takes it up again. The end of a program can be asked
for again for 10 minutes.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			x.api, x.name, x.args = api, args[0], args[1:]
			return x.run(ctx)
		}),
	}
	c.Args = x.checkArgs
	f := c.Flags()
	f.BoolVarP(&x.input, "stdin", "i", false, "give the program the standard input")
	f.DurationVar(&x.timeout, "timeout", 0, "wait at most this `DURATION` for its end (default: without a limit)")
	f.Int64Var(&x.id, "wait", 0, "start nothing, and wait for the program with this `ID`")
	f.BoolVar(&x.raw, "raw", false, "pass the guest's control characters to the terminal")
	c.MarkFlagsMutuallyExclusive("wait", "stdin")
	a.FailAs(c, execFailed)
	return c
}

// execution is one run of vm exec.
type execution struct {
	a          *cli.App
	api        *client.Client
	name       string
	args       []string
	input, raw bool
	waits      bool // for the program with that ID
	timeout    time.Duration
	id         int64
}

// checkArgs requires -- before the program: its flags are not the command's.
func (x *execution) checkArgs(c *cobra.Command, args []string) error {
	x.waits = c.Flags().Changed("wait")
	dash := c.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("the argument NAME is missing")
	case x.waits && len(args) > 1:
		return fmt.Errorf("the argument %q is one too many: --wait starts no program", args[1])
	case !x.waits && len(args) == 1:
		return errors.New("the argument PROGRAM is missing")
	case !x.waits && dash != 1:
		return fmt.Errorf("the argument %q is one too many: expected -- before the program", args[1])
	}
	return nil
}

// program is the program in messages.
func (x *execution) program() string {
	if x.waits {
		return fmt.Sprintf("the program %d", x.id)
	}
	return x.args[0]
}

// again is how the program is taken up again.
func (x *execution) again() string { return fmt.Sprintf("seedbed vm exec %s --wait %d", x.name, x.id) }

func (x *execution) run(ctx context.Context) error {
	limited := ctx
	if x.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, x.timeout)
		defer cancel()
	}
	if !x.waits {
		if err := x.start(ctx, limited); err != nil {
			return err
		}
	}
	p, err := x.wait(limited)
	switch {
	case err == nil:
		return x.show(p)
	case ctx.Err() != nil:
		return cli.Exit(execInterrupted, fmt.Sprintf("%s goes on in the guest of %s: %s waits for its end", x.program(), x.name, x.again()))
	case limited.Err() != nil:
		return cli.TimedOutf("%s has not exited within %s: it goes on in the guest of %s, and %s waits for its end",
			x.program(), x.timeout, x.name, x.again())
	case errors.Is(err, seedbed.ErrUnavailable):
		return fmt.Errorf("%w: the program may go on, and %s waits for its end", err, x.again())
	}
	return fmt.Errorf("the end of %s, which has the ID %d: %w", x.program(), x.id, err)
}

// start starts the program. ctx ends before limited if the user interrupts the command.
func (x *execution) start(ctx, limited context.Context) error {
	ended := func(what string) error {
		if ctx.Err() != nil {
			return cli.Exit(execInterrupted, what)
		}
		return cli.TimedOutf("%s: --timeout %s has passed", what, x.timeout)
	}
	g := seedbed.GuestCommand{Path: x.args[0], Arguments: x.args[1:]}
	if x.input {
		type read struct {
			data []byte
			err  error
		}
		done := make(chan read, 1)
		// A read of a terminal cannot be interrupted, so this goroutine may end with the program.
		go func() {
			data, err := cli.ReadLimited(x.a.In, "the input", seedbed.MaxGuestInput)
			done <- read{data, err}
		}()
		select {
		case r := <-done:
			if r.err != nil {
				return r.err
			}
			g.Data = r.data
		case <-limited.Done():
			return ended(fmt.Sprintf("%s was not started, because its input has not ended", x.program()))
		}
	}
	p, err := x.api.GuestExec(limited, x.name, g)
	if err != nil && limited.Err() != nil {
		return ended(fmt.Sprintf("no answer came, so it is not known whether %s runs in the guest of %s", x.program(), x.name))
	}
	x.id = p.ID
	return err
}

// wait waits for the end of the program. It is patient with an API or an agent that does not answer.
func (x *execution) wait(ctx context.Context) (seedbed.GuestProcess, error) {
	var since time.Time // it does not answer
	for {
		p, err := x.api.GuestWait(ctx, x.name, x.id)
		switch {
		case err == nil && p.Exited:
			return p, nil
		case err == nil:
			since = time.Time{}
			continue
		case ctx.Err() != nil || !errors.Is(err, seedbed.ErrUnavailable):
			return p, err
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > waitAgain:
			return p, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

// show shows what the program has printed, and returns its exit code as an error unless it is 0.
func (x *execution) show(p seedbed.GuestProcess) error {
	if x.a.JSON() {
		if err := x.a.PrintJSON(p); err != nil {
			return err
		}
	} else {
		out, text := x.a.GuestOutputs(x.raw)
		if _, err := out.Write(p.Stdout); err != nil {
			return err
		}
		if _, err := text.Write(p.Stderr); err != nil {
			return err
		}
	}
	if p.Truncated {
		fmt.Fprintf(x.a.Err, "seedbed: %s has printed more than the guest agent keeps: the end is missing\n", cli.OneLine(x.program()))
	}
	switch {
	case p.Signal > 0 && p.Signal < execSignal:
		return cli.Exit(execSignal+int(p.Signal), fmt.Sprintf("%s was ended by signal %d", x.program(), p.Signal))
	case p.Signal != 0: // of Windows
		return cli.Exit(execFailed, fmt.Sprintf("%s was ended by exception %#x", x.program(), uint32(p.Signal)))
	case p.ExitCode != 0:
		return cli.Exit(p.ExitCode, "")
	}
	return nil
}
