package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *App) ConnectionCommand() *cobra.Command {
	c := Group(&cobra.Command{Use: "connection", Aliases: []string{"connections"}, Short: "Installations by name"})
	c.Long = `Installations by name. They are kept in ~/.config/seedbed/config.yaml, which only you
can read; -c NAME, SEEDBED_CONNECTION or "connection use" choose one.`
	c.AddCommand(a.connectionAdd(), a.connectionList(), a.connectionUse(), a.connectionRemove(), a.connectionImport())
	return c
}

func (a *App) connectionAdd() *cobra.Command {
	var made connection
	var token, use, replace bool
	c := &cobra.Command{
		Use: "add NAME", Short: "Give an installation a name", Args: cobra.ExactArgs(1),
		Long: `Give an installation a name. Its token is read from a file each time (--token-file),
or once from the standard input (--token), and is then kept.`,
		Example: "  seedbed connection add prod --url https://seedbed.example:7370 --ca ca.pem --token <token --use",
		RunE: a.Do(func(_ context.Context, args []string) error {
			name := args[0]
			if err := seedbed.CheckName("connection", name); err != nil {
				return err
			}
			// The command's own flags, which the root has too, say where it is.
			made.URL, made.Socket, made.TokenFile, made.CA = a.Flags.URL, a.Flags.Socket, a.Flags.TokenFile, a.Flags.CA
			if (made.URL == "") == (made.Socket == "") {
				return Usagef("where is it? Give --url or --socket")
			}
			if token && made.TokenFile != "" {
				return Usagef("--token and --token-file exclude each other: give one")
			}
			if err := made.settle(); err != nil {
				return err
			}
			if token {
				text, err := ReadLimited(a.In, "the standard input", 4*seedbed.KiB)
				if err != nil {
					return err
				}
				if made.Token, err = checkToken("the standard input", string(text)); err != nil {
					return err
				}
			}
			o, err := made.options()
			if err != nil {
				return err
			}
			if _, err := client.New(o); err != nil {
				return err
			}
			if strings.HasPrefix(o.URL, "http:") && o.Token != "" && !IsLocal(o) {
				fmt.Fprintln(a.Err, "seedbed: whoever is on the way there can read the token: an https URL keeps it to itself (docs/how-to/access.md)")
			}
			err = a.changeSettings(func(s *settings) error { return s.add(name, made, replace, use) })
			if err != nil {
				return err
			}
			a.Say("connection %s added; use it with: seedbed -c %s …", name, name)
			return nil
		}),
	}
	f := c.Flags()
	f.BoolVar(&token, "token", false, "read the token from the standard input, and keep it")
	f.StringVar(&made.Description, "description", "", "what it `is`")
	f.BoolVar(&use, "use", false, "use it from now on where no other is named")
	f.BoolVar(&replace, "replace", false, "put it in place of one of that name")
	return c
}

// settle makes the paths of a connection such that they hold from anywhere.
func (c *connection) settle() (err error) {
	for _, path := range []*string{&c.Socket, &c.TokenFile, &c.CA} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a connection to the file.
func (s *settings) add(name string, c connection, replace, use bool) error {
	if _, taken := s.Connections[name]; taken && !replace {
		return seedbed.Errorf(seedbed.ErrExists, "connection %q exists already: give --replace to put this one in its place", name)
	}
	if s.Connections == nil {
		s.Connections = map[string]connection{}
	}
	s.Connections[name] = c
	if use {
		s.Connection = name
	}
	return nil
}

// connectionRow is a connection as a list shows it: without its token.
type connectionRow struct {
	Name        string `json:"name"`
	Where       string `json:"where"`
	Token       string `json:"token"`
	CA          string `json:"ca"`
	Current     bool   `json:"current"`
	Description string `json:"description"`
}

func (a *App) connectionList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the installations that have a name", Args: cobra.NoArgs,
		RunE: a.Do(func(context.Context, []string) error {
			s, err := a.settings()
			if err != nil {
				return err
			}
			all := []connectionRow{}
			for _, name := range s.connectionNames() {
				c := s.Connections[name]
				row := connectionRow{Name: name, Where: c.where(), Token: c.TokenFile, CA: c.CA, Current: name == s.Connection, Description: c.Description}
				if c.Token != "" {
					row.Token = "kept"
				}
				all = append(all, row)
			}
			return PrintList(a, all, "no connections yet: seedbed connection add", []string{"name", "in use", "where", "token", "ca", "description"}, func(r connectionRow) []string {
				current := ""
				if r.Current {
					current = "yes"
				}
				return []string{r.Name, current, r.Where, r.Token, r.CA, r.Description}
			})
		}),
	}
}

func (a *App) connectionUse() *cobra.Command {
	var none bool
	c := &cobra.Command{
		Use: "use NAME", Short: "Use one where no other is named", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.connectionCompletion,
		RunE: a.Do(func(_ context.Context, args []string) error {
			if none == (len(args) == 1) {
				return Usagef("which? Give a NAME, or --none")
			}
			name := strings.Join(args, "")
			err := a.changeSettings(func(s *settings) error {
				s.Connection = name
				_, there := s.Connections[name]
				return orMissing(none || there, name)
			})
			if err != nil {
				return err
			}
			if none {
				a.Say("no connection is used unless it is named")
				return nil
			}
			a.Say("connection %s is used where no other is named", name)
			return nil
		}),
	}
	c.Flags().BoolVar(&none, "none", false, "use none")
	return c
}

// orMissing is the error of a connection that is not there.
func orMissing(there bool, name string) error {
	if there {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrNotFound, "there is no connection %q: \"seedbed connection list\" shows those that there are", name)
}

func (a *App) connectionRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Forget one, and the token that is kept of it", Args: cobra.ExactArgs(1), ValidArgsFunction: a.connectionCompletion,
		RunE: a.Do(func(_ context.Context, args []string) error {
			err := a.changeSettings(func(s *settings) error {
				_, there := s.Connections[args[0]]
				delete(s.Connections, args[0])
				if s.Connection == args[0] {
					s.Connection = ""
				}
				return orMissing(there, args[0])
			})
			if err != nil {
				return err
			}
			a.Say("connection %s removed", args[0])
			return nil
		}),
	}
}
