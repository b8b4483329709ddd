package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/config"
)

// connection is an installation that the user has given a name.
type connection struct {
	Description string `yaml:"description"`
	URL         string `yaml:"url"`
	Socket      string `yaml:"socket"`
	// TokenFile names a file with the token; Token is the token itself.
	TokenFile string `yaml:"token_file"`
	Token     string `yaml:"token"`
	CA        string `yaml:"ca"`
}

// where is the connection's URL or socket.
func (c connection) where() string {
	if c.Socket != "" {
		return c.Socket
	}
	return c.URL
}

// options is how the connection is used.
func (c connection) options() (client.Options, error) {
	o := client.Options{URL: c.URL, Socket: c.Socket, Token: c.Token, CA: c.CA}
	if c.TokenFile == "" {
		return o, nil
	}
	token, err := readToken(c.TokenFile)
	o.Token = token
	return o, err
}

// settingsPath is the user's configuration file.
func (a *App) settingsPath() (string, error) {
	if a.flags.config != "" {
		return a.flags.config, nil
	}
	dir, err := a.userDir()
	return filepath.Join(dir, "config.yaml"), err
}

// checkSecret refuses a file with tokens in it that others may read.
func (s settings) checkSecret(path string) error {
	kept := false
	for _, c := range s.Connections {
		kept = kept || c.Token != ""
	}
	if st, err := os.Stat(path); kept && err == nil && st.Mode().Perm()&0o077 != 0 {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s holds tokens, and others may read it: chmod 600 %s", path, path)
	}
	return nil
}

// connectionNames are those of the file, in order.
func (s settings) connectionNames() []string {
	names := make([]string, 0, len(s.Connections))
	for name := range s.Connections {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// changeSettings changes the user's configuration file, which it makes if there
// is none, readable by the user alone. Comments stay.
func (a *App) changeSettings(change func(*settings) error) error {
	path, err := a.settingsPath()
	if err != nil {
		return err
	}
	var s settings
	comments := yaml.CommentMap{}
	text, err := readBounded(path, maxSettings)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := config.Decode(path, text, &s); err != nil {
			return err
		}
		var any settings
		if err := yaml.UnmarshalWithOptions(text, &any, yaml.CommentToMap(comments)); err != nil {
			return err
		}
	}
	if err := change(&s); err != nil {
		return err
	}
	if s.Connections == nil {
		s.Connections = map[string]connection{}
	}
	text, err = yaml.MarshalWithOptions(s, yaml.OmitEmpty(), yaml.WithComment(comments))
	if err != nil {
		return err
	}
	return replaceFile(path, text)
}

// replaceFile writes a file that only the user may read, whole or not at all.
func replaceFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is there no more when it was renamed
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// named is the connection that the flag, the environment or the file asks for;
// explicit tells that it was the flag, and nil that it is none.
func (a *App) named(s settings) (c *connection, explicit bool, err error) {
	name, from := a.flags.connection, "--connection"
	explicit = name != ""
	if explicit && (a.flags.url != "" || a.flags.socket != "") {
		return nil, true, usagef("--connection excludes --url and --socket: give one")
	}
	if name == "" && a.flags.url == "" && a.flags.socket == "" && a.Getenv("SEEDBED_URL") == "" && a.Getenv("SEEDBED_SOCKET") == "" {
		if name, from = a.Getenv("SEEDBED_CONNECTION"), "SEEDBED_CONNECTION"; name == "" {
			name, from = s.Connection, "connection of the configuration file"
		}
	}
	if name == "" {
		return nil, false, nil
	}
	found, ok := s.Connections[name]
	if !ok {
		return nil, explicit, seedbed.Errorf(seedbed.ErrNotFound, "%s: there is no connection %q: \"seedbed connection list\" shows those that there are, \"seedbed connection add\" makes one", from, name)
	}
	return &found, explicit, nil
}
