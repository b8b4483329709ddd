package profile

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// document is a named text in the catalogue: user-data or a script.
type document struct {
	wire.Stored
	Name, Text string
}

// documents makes the commands of one kind of document.
type documents[T any] struct {
	a *cli.App
	// label is the messages' word for one document, plural for several. suffix is that of files
	// with one.
	label, plural, suffix string
	add                   func(c *client.Client, ctx context.Context, name, text string) error
	// change replaces the text of a document. One that was read before is not changed if it was
	// changed since.
	change func(c *client.Client, ctx context.Context, t T, text string) error
	remove func(c *client.Client, ctx context.Context, name string) error
	one    func(c *client.Client, ctx context.Context, name string) (T, error)
	all    func(c *client.Client, ctx context.Context, in seedbed.Scope, pattern string) ([]T, error)
	of     func(T) document
	// forced adds --force, by which a document that no guest can use is saved.
	forced bool
	names  cli.NameLister
	// unread is a document of that name that was not read.
	unread func(name string) T
}

func (d *documents[T]) addTo(c *cobra.Command) {
	c.AddCommand(d.addCmd(), d.setCmd(), removal(d.a, d.label, d.remove, d.names), d.showCmd(), d.listCmd())
}

// read reads a document from a file, byte for byte.
func (d *documents[T]) read(file string) (string, error) {
	text, err := d.a.ReadArg(file, seedbed.MaxDocument)
	return string(text), err
}

// forceFlag adds --force, if documents of this kind have it.
func (d *documents[T]) forceFlag(c *cobra.Command, force *bool) {
	if d.forced {
		addForce(c, force)
	}
}

// addForce adds the flag by which user-data is saved that no guest can use.
func addForce(c *cobra.Command, force *bool) {
	c.Flags().BoolVar(force, "force", false, "save user-data as it is, even if cloud-init could not read it")
}

func (d *documents[T]) addCmd() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use: "add NAME FILE", Short: "Add a " + d.label + " from a file, or from standard input for -",
		RunE: d.a.Told(func(ctx context.Context, api *client.Client, args []string) (string, error) {
			text, err := d.read(args[1])
			if err != nil {
				return "", err
			}
			return cli.Done(d.add(api.WithForce(force), ctx, args[0], text), "Created %s %q.", d.label, args[0])
		}),
		ValidArgsFunction: d.a.Completion(cli.NoNames, cli.Files),
	}
	d.forceFlag(c, &force)
	return c
}

func (d *documents[T]) setCmd() *cobra.Command {
	var edit, force bool
	c := &cobra.Command{
		Use: "set NAME [FILE|-e]", Aliases: []string{"modify"}, Short: "Replace a " + d.label + " with a file, or edit it",
		Long: fmt.Sprintf(`Replace a %s with a file, or with standard input for -. With -e, edit it in the
editor that VISUAL or EDITOR names; it is sent if the text was changed. If the server
refuses the text, it is kept in a file whose name is printed.`, d.label),
		RunE: d.a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			api = api.WithForce(force)
			switch {
			case edit && len(args) == 2:
				return cli.Usagef("set %s: give a file or --editor, not both", args[0])
			case !edit && len(args) == 1:
				return cli.Usagef("set %s: give a file, or --editor (-e)", args[0])
			}
			if edit {
				return d.edit(ctx, api, args[0])
			}
			text, err := d.read(args[1])
			if err != nil {
				return err
			}
			return d.a.TellMessage(d.updated(d.change(api, ctx, d.unread(args[0]), text), args[0]))
		}),
		ValidArgsFunction: d.a.Completion(d.names, cli.Files),
	}
	c.Flags().BoolVarP(&edit, "editor", "e", false, "open it in an editor")
	d.forceFlag(c, &force)
	return c
}

// edit lets the user edit a document.
func (d *documents[T]) edit(ctx context.Context, api *client.Client, name string) error {
	t, err := d.one(api, ctx, name)
	if err != nil {
		return err
	}
	a := d.a
	draft, err := edit(ctx, a, d.of(t).Text, d.suffix)
	if err != nil {
		return err
	}
	if draft.text == d.of(t).Text {
		draft.discard()
		d.a.Say("nothing was changed")
		return nil
	}
	if err := d.change(api, ctx, t, draft.text); err != nil {
		return fmt.Errorf("%w (the text is kept in %s)", err, draft.path)
	}
	draft.discard()
	return d.a.TellMessage(d.updated(nil, name))
}

// updated is the message about a change, unless it failed.
func (d *documents[T]) updated(err error, name string) (string, error) {
	return cli.Done(err, "Updated %s %q.", d.label, name)
}

func (d *documents[T]) showCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Print a " + d.label,
		RunE: d.a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			t, err := d.one(api, ctx, args[0])
			if err != nil {
				return err
			}
			if d.a.JSON() {
				return d.a.PrintJSON(t)
			}
			text := d.of(t).Text
			if d.a.Terminal { // otherwise the bytes stay unchanged
				if text = cli.Printable(text); !strings.HasSuffix(text, "\n") {
					text += "\n"
				}
			}
			_, err = io.WriteString(d.a.Out, text)
			return err
		}),
		ValidArgsFunction: d.a.Completion(d.names),
	}
}

// shownLines is how many lines of a document a list shows, as in PVC's client.
const shownLines = 4

func (d *documents[T]) listCmd() *cobra.Command {
	var long bool
	c := cli.Resource[T]{
		Some:    cli.Matching(d.all),
		Project: func(t T) string { return seedbed.ProjectOf(d.of(t).Name) },
		None:    "no " + d.plural + " yet", Unmatched: "no " + d.plural + " with that name",
		Head: []string{"name", "id", "published", "document"},
		Row: func(t T) []string {
			doc := d.of(t)
			lines := strings.Split(strings.TrimRight(doc.Text, "\n"), "\n")
			if !long && len(lines) > shownLines {
				lines = append(lines[:shownLines], "...")
			}
			return []string{doc.Name, cli.Number(int(doc.ID)), cli.PublishedTo(doc.Published), strings.Join(lines, "\n")}
		},
	}.List(d.a, "list [LIMIT]", "List "+d.plural)
	c.Flags().BoolVarP(&long, "long", "l", false, "show all lines of each document, not only the first 4")
	return c
}
