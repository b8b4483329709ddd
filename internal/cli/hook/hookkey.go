package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// keyFlags are what a new key of a hook is, beside its secret.
type keyFlags struct{ id, notBefore, notAfter string }

func (k *keyFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&k.id, "key-id", "", "`name` of the key, to tell it from the hook's others (default: one is drawn)")
	f.StringVar(&k.notBefore, "not-before", "", "`time` from which the key counts, or +2h for one from now on (default: now)")
	f.StringVar(&k.notAfter, "not-after", "", "`time` until which the key counts (default: until it is removed)")
}

func (k *keyFlags) fill(key *client.HookKey, now time.Time) (err error) {
	key.ID = k.id
	if k.notBefore != "" {
		if key.NotBefore, err = cli.ParseMoment("not-before", k.notBefore, now); err != nil {
			return err
		}
	}
	if k.notAfter != "" {
		key.NotAfter, err = cli.ParseMoment("not-after", k.notAfter, now)
	}
	return err
}

func hookRotate(a *cli.App) *cobra.Command {
	var (
		k          keyFlags
		overlap    time.Duration
		secretFrom string
		noSave     bool
	)
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a hook another key; the one before counts for the overlap still",
		Long: `Give a hook another key. Until the overlap is over, webhooks signed with either
are accepted, so that nothing is lost while the sender changes. The overlap begins
when the new key does: with --not-before, the one before counts alone until then.`,
		Example: `  seedbed hook rotate ci --overlap 24h
  seedbed hook rotate forge --secret-file next.secret --key-id 2027 --not-before 2027-01-01T00:00:00Z`,
		Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			if err := seedbed.CheckName("hook", args[0]); err != nil {
				return err
			}
			var key client.HookKey
			if err := k.fill(&key, a.Now()); err != nil {
				return err
			}
			var err error
			if key.Secret, err = cli.GivenSecret(secretFrom); err != nil {
				return err
			}
			file := ""
			if !noSave && key.Secret == "" && !key.NotBefore.After(a.Now()) { // one that is to come would be used at once
				if file, err = secretFile(a, args[0]); err != nil {
					return fmt.Errorf("%w; --no-save only prints the secret", err)
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					return err
				}
			}
			api, err := a.Client()
			if err != nil {
				return err
			}
			made, err := api.RotateHook(ctx, args[0], key, overlap)
			if err != nil {
				return err
			}
			done := "has a new key, and the one before for " + cli.Span(overlap)
			if !key.NotBefore.IsZero() {
				done = "has a new key from " + a.Moment(key.NotBefore) + " on, and the one before for " + cli.Span(overlap) + " more"
			}
			return errors.Join(tellSecret(a, made, file, done), cli.SaveSecret(file, made.Secret))
		}),
	}
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how `long` the keys before count")
	c.Flags().StringVar(&secretFrom, "secret-file", "", "`file` with the sender's new secret (default: one is drawn)")
	c.Flags().BoolVar(&noSave, "no-save", false, "do not save the secret")
	k.add(c)
	return c
}

func hookKeyCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "key", Aliases: []string{"keys"}, Short: "The keys of a hook"})
	c.AddCommand(hookKeyList(a), hookKeyRemove(a))
	return c
}

func hookKeyList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "list HOOK", Aliases: []string{"ls"}, Short: "List the keys of a hook, and when each counts", Args: cobra.ExactArgs(1),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			read := func(c *client.Client, ctx context.Context) ([]seedbed.HookKey, error) {
				h, err := c.Hook(ctx, args[0])
				return h.Keys, err
			}
			return cli.List(ctx, a, read, "the hook has no key", []string{"key", "state", "not before", "not after"},
				func(k seedbed.HookKey) []string {
					return []string{k.ID, keyState(a, k), a.Moment(k.NotBefore), a.Moment(k.NotAfter)}
				})
		}),
	}
}

func keyState(a *cli.App, k seedbed.HookKey) string {
	switch now := a.Now(); {
	case k.Valid(now):
		return "counts"
	case now.Before(k.NotBefore):
		return "to come"
	}
	return "over"
}

func hookKeyRemove(a *cli.App) *cobra.Command {
	c := a.Confirmed("Take from hook %s its key %s", &cobra.Command{
		Use: "remove HOOK KEY", Aliases: []string{"rm"}, Short: "Remove a key: what is signed with it is refused from then on", Args: cobra.ExactArgs(2),
		RunE: a.Do(func(ctx context.Context, args []string) error {
			api, err := a.Client()
			if err != nil {
				return err
			}
			if err := api.RemoveHookKey(ctx, args[0], args[1]); err != nil {
				return err
			}
			a.Say("key %s of hook %s removed", args[1], args[0])
			return nil
		}),
	})
	c.ValidArgsFunction = a.Completion(cli.Hooks, hookKeys)
	return c
}

// hookKeys are the keys of the hook that the first argument names.
func hookKeys(ctx context.Context, api *client.Client, args []string, _ string) ([]string, error) {
	h, err := api.Hook(ctx, args[0])
	return cli.Each(h.Keys, func(k seedbed.HookKey) string { return k.ID }), err
}
