package hook

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// keyFlags are the flags for a new key of a hook. secret describes the one for the file with its
// secret.
func keyFlags(secret string) []cli.Flag {
	return []cli.Flag{
		{Field: "key_id", Usage: "`NAME` of the key, unique in the hook (default: generated)"},
		{Field: "not_before", Usage: "`TIME` from which the key is valid, such as +2h (default: now)"},
		{Field: "not_after", Usage: "`TIME` until which the key is valid (default: until it is removed)"},
		{Field: "secret", Name: "secret-file", Usage: secret, Parse: func(file string) (any, error) { return cli.GivenSecret(file) }},
	}
}

func hookRotate(a *cli.App) *cobra.Command {
	r := wire.HookRotation{Overlap: 24 * time.Hour}
	var noSave bool
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a hook's key; the old key stays valid during the overlap",
		Long: `Replace a hook's key. During the overlap, webhooks signed with the old or the new key
are accepted, so that none is lost while the sender changes. The overlap begins when the
new key becomes valid: with --not-before, only the old key is valid until then.`,
		Example: `  seedbed hook rotate ci --overlap 24h
  seedbed hook rotate forge --secret-file next.secret --key-id 2027 --not-before 2027-01-01T00:00:00Z`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			valid := !r.NotBefore.After(a.Now()) // a saved key that is not valid yet would be used at once
			save := !noSave && r.Secret == "" && valid
			if err := canSave(a, save); err != nil {
				return err
			}
			made, err := api.RotateHook(ctx, args[0], r.HookKey, r.Overlap)
			if err != nil {
				return err
			}
			done := "has a new key; the old key stays valid for " + cli.Span(r.Overlap)
			if !r.NotBefore.IsZero() {
				done = "has a new key, valid from " + a.Moment(r.NotBefore) + "; the old key stays valid for " + cli.Span(r.Overlap) + " more"
			}
			return tellSecret(a, made, save, done)
		}),
	}
	a.Fill(c, &r, append(keyFlags("`FILE` with the sender's new secret (default: generated)"),
		cli.Flag{Field: "overlap", Usage: "how long the old keys stay valid, as `DURATION`"})...)
	c.Flags().BoolVar(&noSave, "no-save", false, "do not save the secret")
	return c
}

func hookKeyCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "key", Aliases: []string{"keys"}, Short: "Manage the keys of a hook"})
	c.AddCommand(hookKeyList(a), hookKeyRemove(a))
	return c
}

func hookKeyList(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.HookKey]{
		All: func(c *client.Client, ctx context.Context, args []string) ([]seedbed.HookKey, error) {
			h, err := c.Hook(ctx, args[0])
			return h.Keys, err
		},
		None: "the hook has no key",
		Head: []string{"key", "state", "not before", "not after"},
		Row: func(k seedbed.HookKey) []string {
			return []string{k.ID, keyState(a, k), a.Moment(k.NotBefore), a.Moment(k.NotAfter)}
		},
	}.List(a, "list HOOK", "List the keys of a hook and when each is valid")
}

func keyState(a *cli.App, k seedbed.HookKey) string {
	switch now := a.Now(); {
	case k.Valid(now):
		return "valid"
	case now.Before(k.NotBefore):
		return "future"
	}
	return "expired"
}

func hookKeyRemove(a *cli.App) *cobra.Command {
	c := a.Confirmed("Remove key %[2]s of hook %[1]s", &cobra.Command{
		Use: "remove HOOK KEY", Short: "Remove a key; webhooks signed with it are then refused",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			return a.Report(api.RemoveHookKey(ctx, args[0], args[1]), "key %s of hook %s removed", args[1], args[0])
		}),
	})
	c.ValidArgsFunction = a.Completion(cli.Hooks, hookKeys)
	return c
}

// hookKeys lists the keys of the hook that the first argument names.
func hookKeys(ctx context.Context, api *client.Client, args []string, _ string) ([]string, error) {
	h, err := api.Hook(ctx, args[0])
	return cli.Each(h.Keys, func(k seedbed.HookKey) string { return k.ID }), err
}
