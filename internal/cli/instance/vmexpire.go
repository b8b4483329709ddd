package instance

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// vmExpire returns the command that says when instances expire.
func vmExpire(a *cli.App) *cobra.Command {
	var (
		at, action string
		never      bool
		sel        selection
	)
	c := &cobra.Command{
		Use: "expire NAME...", Short: "Say when instances expire",
		Long: `Say when instances expire: they are then stopped or removed by the first cleanup afterwards.
The guest sees that at events/maintenance/scheduled. A protected instance is stopped, and
not removed. seedbed vm extend has them expire later.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if never == (at != "") {
				return cli.Usagef("give --at TIME or --never")
			}
			if never && action != "" {
				return cli.Usagef("--action is only given with --at")
			}
			return sel.each(ctx, a, api, args, wire.InstanceChange{Expires: &at, AtExpiry: action})
		}),
	}
	c.Flags().StringVar(&at, "at", "", "`TIME` when they expire, such as 2026-01-02T15:04:05Z, or a duration from now on such as 2h or 30d")
	cli.AddChoice(a, c, &action, "action", "", "what is done then (default: as before, or stop)", seedbed.ExpiryStop, seedbed.ExpiryRemove)
	c.Flags().BoolVar(&never, "never", false, "they do not expire")
	sel.add(a, c)
	return c
}

// vmExtend returns the command by which instances expire later.
func vmExtend(a *cli.App) *cobra.Command {
	var (
		by  string
		sel selection
	)
	c := &cobra.Command{
		Use: "extend NAME...", Short: "Have instances expire later",
		Long: `Have instances expire later by some time: counted from when each would expire or, if it has
expired, from now on. An instance that was stopped can then be started again.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if d, err := seedbed.ParseDuration(by); err != nil || d <= 0 {
				return cli.Usagef("--by %q: expected a duration such as 2h or 7d", by)
			}
			return sel.each(ctx, a, api, args, wire.InstanceChange{Extend: by})
		}),
	}
	c.Flags().StringVar(&by, "by", "", "`DURATION` such as 2h or 7d")
	sel.add(a, c)
	return c
}

// each makes a change of each instance, and says when it expires then.
func (s *selection) each(ctx context.Context, a *cli.App, api *client.Client, args []string, change wire.InstanceChange) error {
	names, err := s.names(ctx, a, api, args)
	if err != nil {
		return err
	}
	return cli.ForEach(names, func(name string) error {
		i, err := api.ChangeInstance(ctx, name, change)
		return a.Tell(err, i, "%s %s", i.Name, expiryLine(a, i.Expiry, "does not expire", "expires "))
	})
}

// expiryLine returns an expiry on one line, after a word, or what stands for none.
func expiryLine(a *cli.App, e *seedbed.Expiry, none, word string) string {
	if e == nil {
		return none
	}
	done := "and is stopped"
	if e.Action == seedbed.ExpiryRemove {
		done = "and is removed"
	}
	return word + a.Moment(e.Time) + ", " + done
}

// vmNotes returns the command for the notes of an instance.
func vmNotes(a *cli.App) *cobra.Command {
	var (
		file  string
		clear bool
	)
	c := &cobra.Command{
		Use: "notes VM [TEXT]", Short: "Show or change the notes of an instance",
		Long: `Show the notes of an instance or, with a text or --file, replace them. Notes are for people:
guests do not see them. They have at most 4096 bytes, in as many lines as you like.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			var change wire.InstanceChange
			given := len(args) > 1
			switch {
			case given && (file != "" || clear) || file != "" && clear:
				return cli.Usagef("give one of TEXT, --file and --clear")
			case given:
				change.Notes = &args[1]
			case file != "":
				text, err := a.ReadArg(file, seedbed.MaxNotes+1)
				if err != nil {
					return err
				}
				notes := strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
				change.Notes = &notes
			case clear:
				change.Notes = new(string)
			}
			i, err := changed(ctx, api, args[0], change.Notes != nil, change)
			if err != nil {
				return err
			}
			if i.Notes == "" && !a.JSON() {
				a.Say("%s has no notes", i.Name)
				return nil
			}
			return a.ShowPairs(nil, map[string]string{"notes": i.Notes}, [][2]string{{"notes", i.Notes}})
		}),
		ValidArgsFunction: a.Completion(cli.Instances),
	}
	c.Flags().StringVar(&file, "file", "", "`FILE` with the notes, or - for standard input")
	c.Flags().BoolVar(&clear, "clear", false, "remove the notes")
	return c
}
