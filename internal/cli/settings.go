package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/config"
)

const (
	defaultSocket = "/run/seedbed/control.sock"
	defaultURL    = "http://127.0.0.1:7370"
)

// settings is the user's configuration file.
type settings struct {
	URL       string `yaml:"url"`
	Socket    string `yaml:"socket"`
	TokenFile string `yaml:"token_file"`
	CA        string `yaml:"ca"`
	Project   string `yaml:"project"`
	Format    string `yaml:"format"`
	// Connection names the entry of Connections that is used by default.
	Connection  string                `yaml:"connection"`
	Connections map[string]connection `yaml:"connections"`
	// Sessions are the secrets of sessions with installations that have no name, by URL.
	Sessions map[string]string `yaml:"sessions"`
}

// UserDir returns the user's directory for Seedbed, ~/.config/seedbed by default.
func (a *App) UserDir() (string, error) {
	if dir := a.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "seedbed"), nil
	}
	home := a.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("HOME is not set, so there is no ~/.config/seedbed")
	}
	return filepath.Join(home, ".config", "seedbed"), nil
}

// maxSettings bounds the file.
const maxSettings = 256 * seedbed.KiB

func (a *App) settings() (settings, error) {
	var s settings
	path, err := a.settingsPath()
	if err != nil {
		return s, nil // without a home directory there is no file
	}
	text, err := ReadBounded(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) && a.Flags.Config == "" {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := config.Decode(path, text, &s); err != nil {
		return s, err
	}
	if s.Format != "" && !slices.Contains(formats, s.Format) {
		return s, seedbed.Errorf(seedbed.ErrInvalid, "%s: format: %q cannot be used: %s", path, s.Format, expectedFormats)
	}
	for name, c := range s.Connections {
		if (c.URL == "") == (c.Socket == "") || c.Token != "" && c.TokenFile != "" {
			return s, seedbed.Errorf(seedbed.ErrInvalid,
				"%s: connection %q: expected url or socket, and at most one of token and token_file", path, name)
		}
	}
	return s, s.checkSecret(path)
}

// settledFormat returns the file's output format. It ignores a file that cannot be read: a command
// that needs the file reports the error.
func (a *App) settledFormat() string {
	s, err := a.settings()
	if err != nil || s.Format == "" {
		return "pretty"
	}
	return s.Format
}

// Client returns the API's client, as configured by flags, environment and file.
func (a *App) Client() (*client.Client, error) {
	o, err := a.Options()
	if err != nil {
		return nil, err
	}
	o.Waiting = func(err error, wait time.Duration) {
		fmt.Fprintf(a.Err, "seedbed: %s (trying again in %s)\n", OneLine(err.Error()), wait)
	}
	c, err := client.New(o)
	if err != nil {
		return nil, err
	}
	return c.WithJob(a.job), nil
}

// Options returns the client's options from flags, environment and configuration file.
func (a *App) Options() (client.Options, error) {
	s, err := a.settings()
	if err != nil {
		return client.Options{}, err
	}
	named, explicit, err := a.named(s)
	if err != nil {
		return client.Options{}, err
	}
	var o client.Options
	if named != nil {
		o, err = named.options()
	} else {
		o, err = a.place(s)
		o.CA, o.Project = s.CA, s.Project
		o.Token = s.Sessions[o.URL]
	}
	if err != nil {
		return o, err
	}
	if o.Project = cmp.Or(a.Flags.Project, a.Getenv("SEEDBED_PROJECT"), o.Project); o.Project != "" {
		if err := seedbed.CheckProjectName(o.Project); err != nil {
			return o, err
		}
	}
	o.CA = cmp.Or(a.Flags.CA, a.Getenv("SEEDBED_CA"), o.CA)
	if token := a.Getenv("SEEDBED_TOKEN"); token != "" && (!explicit || o.Token == "") {
		o.Token = token
	}
	file := a.Flags.TokenFile
	if file == "" && o.Token == "" && named == nil {
		file = s.TokenFile
	}
	if file != "" {
		o.Token, err = readToken(file)
	}
	return o, err
}

// place returns the API's address from the first source that has one: flags, environment, file, or
// default.
func (a *App) place(s settings) (client.Options, error) {
	for _, from := range []struct{ name, url, socket string }{
		{"the flags --url and --socket", a.Flags.URL, a.Flags.Socket},
		{"SEEDBED_URL and SEEDBED_SOCKET", a.Getenv("SEEDBED_URL"), a.Getenv("SEEDBED_SOCKET")},
		{"url and socket of the configuration file", s.URL, s.Socket},
	} {
		if from.url != "" && from.socket != "" {
			return client.Options{}, Usagef("%s are mutually exclusive: give one", from.name)
		}
		if from.url != "" || from.socket != "" {
			return client.Options{URL: from.url, Socket: from.socket}, nil
		}
	}
	if st, err := os.Stat(defaultSocket); err == nil && st.Mode().Type() == fs.ModeSocket {
		return client.Options{Socket: defaultSocket}, nil
	}
	return client.Options{URL: defaultURL}, nil
}

// IsLocal reports whether the API is on this host.
func IsLocal(o client.Options) bool {
	if o.Socket != "" {
		return true
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

func readToken(path string) (string, error) {
	text, err := ReadBounded(path, 4*seedbed.KiB)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return checkToken(path, string(text))
}

// checkToken returns a token without surrounding white space, or an error that says that from holds
// none.
func checkToken(from, text string) (string, error) {
	token := strings.TrimSpace(text)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "%s does not hold a token: expected one line of printable characters", from)
	}
	return token, nil
}

// connection is an installation to which the user has given a name.
type connection struct {
	Description string `yaml:"description"`
	URL         string `yaml:"url"`
	Socket      string `yaml:"socket"`
	// TokenFile is the path of a file with the token. Token is the token itself.
	TokenFile string `yaml:"token_file"`
	Token     string `yaml:"token"`
	CA        string `yaml:"ca"`
	// Project is the project that commands act in by default.
	Project string `yaml:"project"`
	// Session is the secret of a session, which is used instead of the token.
	Session string `yaml:"session"`
}

// where returns the connection's URL or socket.
func (c connection) where() string {
	if c.Socket != "" {
		return c.Socket
	}
	return c.URL
}

// options returns the client's options for the connection.
func (c connection) options() (client.Options, error) {
	o := client.Options{URL: c.URL, Socket: c.Socket, Token: c.Token, CA: c.CA, Project: c.Project}
	if c.Session != "" {
		o.Token = c.Session
	}
	if c.TokenFile == "" || c.Session != "" {
		return o, nil
	}
	token, err := readToken(c.TokenFile)
	o.Token = token
	return o, err
}

// settingsPath returns the path of the user's configuration file.
func (a *App) settingsPath() (string, error) {
	if a.Flags.Config != "" {
		return a.Flags.Config, nil
	}
	dir, err := a.UserDir()
	return filepath.Join(dir, "config.yaml"), err
}

// checkSecret refuses a file with tokens that other users may read.
func (s settings) checkSecret(path string) error {
	kept := len(s.Sessions) > 0
	for _, c := range s.Connections {
		kept = kept || c.Token != "" || c.Session != ""
	}
	if st, err := os.Stat(path); kept && err == nil && st.Mode().Perm()&0o077 != 0 {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s holds tokens and other users can read it: chmod 600 %s", path, path)
	}
	return nil
}

// changeSettings changes the user's configuration file, and keeps its comments. A missing file is
// created, readable only by the user.
func (a *App) changeSettings(change func(*settings) error) error {
	path, err := a.settingsPath()
	if err != nil {
		return err
	}
	var s settings
	comments := yaml.CommentMap{}
	text, err := ReadBounded(path, maxSettings)
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
	return ReplaceFile(path, text)
}

// named returns the connection that the flag, the environment or the file names, or nil if none is
// named. explicit reports whether the flag named it.
func (a *App) named(s settings) (c *connection, explicit bool, err error) {
	name, from, err := a.connectionName(s)
	if name == "" || err != nil {
		return nil, false, err
	}
	explicit = a.Flags.Connection != ""
	found, ok := s.Connections[name]
	if !ok {
		return nil, explicit, seedbed.Errorf(seedbed.ErrNotFound,
			`%s: connection %q does not exist: "seedbed connection list" shows the existing ones, "seedbed connection add" adds one`, from, name)
	}
	return &found, explicit, nil
}

// connectionName returns the name of the connection that is used, or an empty string, and what names it.
func (a *App) connectionName(s settings) (name, from string, err error) {
	name, from = a.Flags.Connection, "--connection"
	if name != "" && (a.Flags.URL != "" || a.Flags.Socket != "") {
		return "", "", Usagef("--connection cannot be used with --url or --socket: give one")
	}
	if name == "" && a.Flags.URL == "" && a.Flags.Socket == "" && a.Getenv("SEEDBED_URL") == "" && a.Getenv("SEEDBED_SOCKET") == "" {
		if name, from = a.Getenv("SEEDBED_CONNECTION"), "SEEDBED_CONNECTION"; name == "" {
			name, from = s.Connection, "connection of the configuration file"
		}
	}
	return name, from, nil
}
