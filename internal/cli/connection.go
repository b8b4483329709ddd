package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// ConnectionCommand returns the command connection with its subcommands.
func (a *App) ConnectionCommand() *cobra.Command {
	c := Group(&cobra.Command{Use: "connection", Aliases: []string{"connections"}, Short: "Manage named installations"})
	c.Long = `Manage named installations. They are kept in ~/.config/seedbed/config.yaml, which only
you can read. Choose one with -c NAME, SEEDBED_CONNECTION or "connection use".`
	c.AddCommand(a.connectionAdd(), a.connectionList(), a.connectionUse(), a.connectionRemove(), a.connectionImport())
	return c
}

func (a *App) connectionAdd() *cobra.Command {
	var made connection
	var token, use, replace bool
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a named installation",
		Long: `Add a named installation. Its token is read from a file at each use (--token-file), or
once from standard input (--token) and then stored. With --project, its commands act in
that project by default.`,
		Example: "  seedbed connection add prod --url https://seedbed.example:7370 --ca ca.pem --token --use < token",
		RunE: a.Do(func(_ context.Context, args []string) error {
			name := args[0]
			if err := seedbed.CheckName("connection", name); err != nil {
				return err
			}
			// The command's own flags, which the root also has, hold the address.
			made.URL, made.Socket, made.TokenFile = a.Flags.URL, a.Flags.Socket, a.Flags.TokenFile
			made.CA, made.Project = a.Flags.CA, a.Flags.Project
			if (made.URL == "") == (made.Socket == "") {
				return Usagef("the place of the installation is missing: give --url or --socket")
			}
			if token && made.TokenFile != "" {
				return Usagef("--token and --token-file are mutually exclusive: give one")
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
				fmt.Fprintln(a.Err, "seedbed: without TLS, anyone on the network path can read the token: use an https URL (docs/how-to/access.md)")
			}
			err = a.changeSettings(func(s *settings) error { return s.add(name, made, replace, use) })
			return a.Report(err, "connection %s added; use it with: seedbed -c %s …", name, name)
		}),
	}
	f := c.Flags()
	f.BoolVar(&token, "token", false, "read the token from standard input and store it")
	f.StringVar(&made.Description, "description", "", "description as `TEXT`")
	f.BoolVar(&use, "use", false, "make it the default connection")
	f.BoolVar(&replace, "replace", false, "replace a connection of that name")
	return c
}

// settle makes the paths of a connection absolute.
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
		return seedbed.Errorf(seedbed.ErrExists, "connection %q already exists: add --replace to replace it", name)
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

// connectionRow is a connection as a list shows it, without its token.
type connectionRow struct {
	Name        string `json:"name"`
	Where       string `json:"where"`
	Token       string `json:"token"`
	CA          string `json:"ca"`
	Project     string `json:"project"`
	Current     bool   `json:"current"`
	Description string `json:"description"`
}

func (a *App) connectionList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the named installations",
		RunE: a.Do(func(context.Context, []string) error {
			s, err := a.settings()
			if err != nil {
				return err
			}
			all := []connectionRow{}
			for _, name := range slices.Sorted(maps.Keys(s.Connections)) {
				c := s.Connections[name]
				row := connectionRow{
					Name: name, Where: c.where(), Token: c.TokenFile, CA: c.CA, Project: c.Project, Current: name == s.Connection,
					Description: c.Description,
				}
				if c.Token != "" {
					row.Token = "kept"
				}
				all = append(all, row)
			}
			head := []string{"name", "in use", "where", "token", "ca", "project", "description"}
			return PrintList(a, all, "no connections yet: seedbed connection add", head, func(r connectionRow) []string {
				return []string{r.Name, YesOnly(r.Current), r.Where, r.Token, r.CA, r.Project, r.Description}
			})
		}),
	}
}

func (a *App) connectionUse() *cobra.Command {
	var none bool
	c := &cobra.Command{
		Use: "use [NAME]", Short: "Set the default connection", ValidArgsFunction: a.connectionCompletion,
		RunE: a.Do(func(_ context.Context, args []string) error {
			if none == (len(args) == 1) {
				return Usagef("the connection is missing: give a NAME, or --none")
			}
			name := strings.Join(args, "")
			err := a.changeSettings(func(s *settings) error {
				s.Connection = name
				_, there := s.Connections[name]
				return orMissing(none || there, name)
			})
			if none {
				return a.Report(err, "there is no default connection now")
			}
			return a.Report(err, "connection %s is now the default", name)
		}),
	}
	c.Flags().BoolVar(&none, "none", false, "have no default connection")
	return c
}

// orMissing returns the error for a connection that does not exist.
func orMissing(there bool, name string) error {
	if there {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrNotFound, "connection %q does not exist: \"seedbed connection list\" shows the existing ones", name)
}

func (a *App) connectionRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a connection and its stored token", ValidArgsFunction: a.connectionCompletion,
		RunE: a.Do(func(_ context.Context, args []string) error {
			err := a.changeSettings(func(s *settings) error {
				_, there := s.Connections[args[0]]
				delete(s.Connections, args[0])
				if s.Connection == args[0] {
					s.Connection = ""
				}
				return orMissing(there, args[0])
			})
			return a.Report(err, "connection %s removed", args[0])
		}),
	}
}
