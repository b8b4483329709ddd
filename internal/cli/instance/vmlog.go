package instance

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

// followEvery is how often a console is looked at.
const followEvery = time.Second

func vmLog(a *cli.App) *cobra.Command {
	tail := 64 * seedbed.KiB
	var (
		lines       int
		follow, raw bool
	)
	c := &cobra.Command{
		Use: "log NAME", Aliases: []string{"console"}, Short: "Print the end of an instance's serial console", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			if lines < 0 || tail <= 0 {
				return cli.Usagef("--lines and --tail: want positive numbers")
			}
			api, err := a.Client()
			if err != nil {
				return err
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
	// A log has no JSON form: its -f is to follow, as that of tail.
	f.StringVar(&a.Flags.Format, "format", "", "has no effect here")
	_ = f.MarkHidden("format") // the flag exists: it was added above
	return c
}

// followText writes what comes after old until ctx ends.
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

// lastLines is the end of text with at most n lines; 0 means all.
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

// added is what now has after old, both being ends of one growing text: what
// follows the longest end of old that now starts with. It takes linear time
// whatever the guest wrote (Knuth, Morris, Pratt).
func added(old, now []byte) []byte {
	old = old[max(0, len(old)-len(now)):]
	border := make([]int, len(now)) // of each prefix of now: its longest proper end that is also its start
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
