package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *app) hookCmd() *cobra.Command {
	c := group(&cobra.Command{Use: "hook", Aliases: []string{"hooks"}, Short: "Receivers of signed webhooks"})
	c.AddCommand(a.hookAdd(), a.hookList(), a.hookRemove(), a.hookSend())
	return c
}

func (a *app) hookAdd() *cobra.Command {
	var (
		r      client.HookRequest
		noSave bool
	)
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a hook and print its secret, this once",
		Long: `Make a hook. Its signing secret is printed once and saved for "seedbed hook send"
in ~/.config/seedbed/hooks/NAME.secret, readable by this user alone.`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			r.Name = args[0]
			if err := seedbed.CheckName("hook", r.Name); err != nil {
				return err
			}
			file := ""
			if !noSave {
				var err error
				if file, err = a.secretFile(r.Name); err != nil {
					return fmt.Errorf("%w; --no-save only prints the secret", err)
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					return err
				}
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			made, err := api.AddHook(ctx, r)
			if err != nil {
				return err
			}
			return errors.Join(a.tellSecret(made, file), saveSecret(file, made.Secret))
		}),
	}
	f := c.Flags()
	f.StringSliceVar(&r.Profiles, "profile", nil, "`profile` that it may use (repeatable; default: any)")
	f.StringSliceVar(&r.Actions, "action", nil, "`action` that it may ask for, create or remove (repeatable; default: create)")
	f.DurationVar(&r.Tolerance, "tolerance", 5*time.Minute, "how `far` the time stamp of a webhook may be off")
	f.BoolVar(&noSave, "no-save", false, "do not save the secret")
	return c
}

func (a *app) tellSecret(made client.NewHook, file string) error {
	if a.json() {
		return a.printJSON(made)
	}
	fmt.Fprintln(a.out, made.Secret)
	if file != "" {
		a.say("hook %s added; its secret, above, is not told again and is saved in %s", made.Hook.Name, file)
	} else {
		a.say("hook %s added; its secret, above, is not told again", made.Hook.Name)
	}
	return nil
}

// secretFile is where the secret of a hook is saved. The name was checked.
func (a *app) secretFile(hook string) (string, error) {
	dir, err := a.userDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "hooks", hook+".secret"), nil
}

// saveSecret writes a secret; one that is there, from a hook of the same name
// elsewhere or before, is kept beside it with the ending ".old".
func saveSecret(file, secret string) error {
	if file == "" {
		return nil
	}
	if err := os.Rename(file, file+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Close())
}

func (a *app) hookList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List hooks", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return list(ctx, a, (*client.Client).Hooks, "no hooks yet: seedbed hook add NAME",
				[]string{"name", "profiles", "actions", "tolerance", "added"},
				func(h seedbed.Hook) []string {
					return []string{h.Name, orElse(h.Profiles, "any"), orElse(h.Actions, "create"), span(h.Tolerance), a.ago(h.Created)}
				})
		}),
	}
}

func orElse(list []string, empty string) string {
	if len(list) == 0 {
		return empty
	}
	return strings.Join(list, ", ")
}

func (a *app) hookRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a hook, and its saved secret", Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			name := args[0]
			if err := seedbed.CheckName("hook", name); err != nil {
				return err
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			if err := api.DeleteHook(ctx, name); err != nil {
				return err
			}
			if file, err := a.secretFile(name); err == nil {
				if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			a.say("hook %s removed", name)
			return nil
		}),
	}
}
