package instance

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// followEvery is the interval at which a console is read.
const followEvery = time.Second

func vmLog(a *cli.App) *cobra.Command {
	tail := 64 * seedbed.KiB
	var (
		lines       int
		follow, raw bool
	)
	c := &cobra.Command{
		Use: "log NAME", Short: "Print the end of an instance's serial console",
		Long: `Print the end of what a guest has written to its serial console, and with -f what it
writes from then on. It takes no input: log in with ssh, or use seedbed vm console.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if lines < 0 || tail <= 0 {
				return cli.Usagef("--lines and --tail must be positive")
			}
			var w io.Writer = a.Out
			if a.Terminal && !raw {
				w = cli.NewSafeWriter(a.Out)
			}
			text, err := api.Console(ctx, args[0], tail)
			if err != nil {
				return err
			}
			if _, err := w.Write(lastLines(text, lines)); err != nil {
				return err
			}
			if !follow {
				return nil
			}
			look := func(ctx context.Context) ([]byte, error) { return api.Console(ctx, args[0], tail) }
			return followText(ctx, look, followEvery, text, w)
		}),
	}
	f := c.Flags()
	f.IntVarP(&lines, "lines", "n", 0, "print at most `N` lines (default: all of --tail)")
	f.Var(cli.NewSize(&tail), "tail", "how much of the end to read")
	f.BoolVar(&raw, "raw", false, "pass the guest's control characters to the terminal")
	f.BoolVarP(&follow, "follow", "f", false, "follow the output until interrupted")
	// Its -f means follow, as in tail.
	a.OwnOutput(c)
	return c
}

// followText writes the text that is added after old, until ctx ends.
func followText(ctx context.Context, look func(context.Context) ([]byte, error), every time.Duration, old []byte, w io.Writer) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // the user has seen enough
		case <-tick.C:
		}
		now, err := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(added(old, now)); err != nil {
			return err
		}
		old = now
	}
}

// lastLines returns the last n lines of text, or all lines if n is 0.
func lastLines(text []byte, n int) []byte {
	if n == 0 {
		return text
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:]
}

// added returns what now has after old. Both are ends of one growing text, so the result follows
// the longest end of old with which now starts. It takes linear time, whatever the guest wrote
// (Knuth, Morris, Pratt).
func added(old, now []byte) []byte {
	old = old[max(0, len(old)-len(now)):]
	border := make([]int, len(now)) // for each prefix of now, the length of its longest proper suffix that is also a prefix
	extend := func(k int, c byte) int {
		for k > 0 && (k == len(now) || now[k] != c) {
			k = border[k-1]
		}
		if k < len(now) && now[k] == c {
			k++
		}
		return k
	}
	for i := 1; i < len(now); i++ {
		border[i] = extend(border[i-1], now[i])
	}
	same := 0
	for _, c := range old {
		same = extend(same, c)
	}
	return now[same:]
}
