// Package hook has the commands for webhooks: hooks and their deliveries, and endpoints.
package hook

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
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// Command returns the command hook with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "hook", Aliases: []string{"hooks"}, Short: "Manage hooks, which receive signed webhooks"})
	r := hooks(a)
	c.AddCommand(hookAdd(a), hookSet(a), r.Show(a, "show NAME", "Show a hook"), r.List(a, "list", "List hooks"), hookRotate(a), hookKeyCmd(a),
		hookTest(a), hookRemove(a), hookSendCommand(a))
	return c
}

func hookAdd(a *cli.App) *cobra.Command {
	r := wire.HookRequest{HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeStandard}, Tolerance: defaultTolerance}
	var noSave bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a hook and print its secret, which is shown only once",
		Long: `Add a hook. Its signing secret is printed once and saved for "seedbed hook send" in
~/.config/seedbed/hooks/NAME.secret, readable only by you. If the sender generates the
secret (stripe, slack, standard-v1a), give it with --secret-file.`,
		Example: `  seedbed hook add ci --profile web
  seedbed hook add forge --scheme github --action create,remove --when 'headers["x-github-event"] == "push"' --mapping @push.cel`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			if err := checkName(r.Name); err != nil {
				return err
			}
			save := !noSave && r.Secret == "" && r.Scheme != seedbed.SchemeNone
			if err := canSave(a, save); err != nil {
				return err
			}
			made, err := api.AddHook(ctx, r)
			if err != nil {
				return err
			}
			return tellSecret(a, made, save, "added")
		}),
	}
	a.Fill(c, &r, append(append(hookFlags(), keyFlags("`FILE` with the sender's secret (default: generated)")...),
		cli.Flag{Field: "scheme", Usage: "signature `SCHEME` of the sender: " + schemes()},
		cli.Flag{Field: "insecure", Usage: "allow the scheme none; then only this host, or holders of a client certificate, may send"},
	)...)
	c.Flags().BoolVar(&noSave, "no-save", false, "do not save the secret")
	return c
}

// defaultTolerance is how far the time stamp of a webhook may be off.
const defaultTolerance = 5 * time.Minute

func schemes() string {
	return strings.Join(cli.Each(seedbed.Schemes(), func(s seedbed.Scheme) string { return string(s) }), ", ")
}

// checkName returns ErrInvalid unless name can be that of a hook, with its project or without.
func checkName(name string) error {
	return seedbed.CheckQualified("hook", seedbed.ProjectOf(name), name)
}

// tellSecret prints a hook's new secret, and saves it if it is to be saved.
func tellSecret(a *cli.App, made wire.NewHook, save bool, done string) error {
	file, err := newSecretFile(a, made.Hook.Name, save)
	switch {
	case a.JSON():
		err = errors.Join(err, a.PrintJSON(made))
	case made.Secret == "":
		a.Say("hook %s %s", made.Hook.Name, done)
	default:
		fmt.Fprintln(a.Out, made.Secret)
		a.Say("hook %s %s; the secret above is shown only once%s", made.Hook.Name, done, cli.When(file != "", "; it is saved in "+file))
	}
	return errors.Join(err, cli.SaveSecret(file, made.Secret))
}

// canSave makes the directory of the saved secrets if one is to be saved. It returns an error if it
// cannot.
func canSave(a *cli.App, save bool) error {
	_, err := newSecretFile(a, "any", save)
	return err
}

// newSecretFile returns the path at which to save a hook's secret, and makes its directory. The path
// is empty if the secret is not to be saved.
func newSecretFile(a *cli.App, hook string, save bool) (string, error) {
	if !save {
		return "", nil
	}
	file, err := secretFile(a, hook)
	if err != nil {
		return "", fmt.Errorf("%w; --no-save only prints the secret", err)
	}
	return file, os.MkdirAll(filepath.Dir(file), 0o700)
}

// secretFile returns the path of the saved secret of the hook with a qualified name. The caller has
// checked the name.
func secretFile(a *cli.App, hook string) (string, error) {
	dir, err := a.UserDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "hooks", hook+".secret"), nil
}

func hooks(a *cli.App) cli.Resource[seedbed.Hook] {
	return cli.Resource[seedbed.Hook]{
		Some:    cli.Selected((*client.Client).ListHooks),
		Filters: []cli.Filter{cli.NameFilter(), {Name: "scheme", Usage: "only with this signature `SCHEME`"}},
		None:    "no hooks yet: seedbed hook add NAME", Unmatched: "no matching hooks",
		Project: func(h seedbed.Hook) string { return h.Project },
		Head:    []string{"name", "scheme", "profiles", "actions", "tolerance", "added"},
		Row: func(h seedbed.Hook) []string {
			profiles, actions := cli.OrElse(h.Profiles, "any"), cli.OrElse(h.Actions, "create")
			return []string{h.Name, string(h.Scheme), profiles, actions, cli.Span(h.Tolerance), a.Ago(h.Created)}
		},
		One: cli.Named((*client.Client).Hook), Pairs: hookPairs,
	}
}

func hookRemove(a *cli.App) *cobra.Command {
	return a.RemoveCommand("remove NAME", "Remove a hook and its saved secret", "Remove hook %s", "hook %s removed",
		func(api *client.Client, ctx context.Context, name string) error {
			if err := checkName(name); err != nil {
				return err
			}
			h, err := api.Hook(ctx, name)
			if err != nil {
				return err
			}
			if err := api.DeleteHook(ctx, h.Name); err != nil {
				return err
			}
			file, err := secretFile(a, h.Name)
			if err != nil {
				return nil // without a home directory no secret was saved
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
}
