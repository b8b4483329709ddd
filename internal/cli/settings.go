package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	Format    string `yaml:"format"`
	// Connection is the one of Connections that is used unless another is named.
	Connection  string                `yaml:"connection"`
	Connections map[string]connection `yaml:"connections"`
}

// userDir is the user's directory for Seedbed, ~/.config/seedbed.
func (a *App) userDir() (string, error) {
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
		return s, nil // no home, no file
	}
	text, err := readBounded(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) && a.flags.config == "" {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := config.Decode(path, text, &s); err != nil {
		return s, err
	}
	if s.Format != "" && !slices.Contains(formats, s.Format) {
		return s, seedbed.Errorf(seedbed.ErrInvalid, "%s: format: %q cannot be used: %s", path, s.Format, wantFormats)
	}
	for name, c := range s.Connections {
		if (c.URL == "") == (c.Socket == "") || c.Token != "" && c.TokenFile != "" {
			return s, seedbed.Errorf(seedbed.ErrInvalid, "%s: connection %q: want url or socket, and at most one of token and token_file", path, name)
		}
	}
	return s, s.checkSecret(path)
}

// settledFormat is the file's output format. A file that cannot be read is
// told by the command, if that needs it.
func (a *App) settledFormat() string {
	s, err := a.settings()
	if err != nil || s.Format == "" {
		return "pretty"
	}
	return s.Format
}

// client is the API's client, as flags, environment and file say.
func (a *App) client() (*client.Client, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	return client.New(o)
}

func (a *App) options() (client.Options, error) {
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
		o.CA = s.CA
	}
	if err != nil {
		return o, err
	}
	o.CA = cmp.Or(a.flags.ca, a.Getenv("SEEDBED_CA"), o.CA)
	if token := a.Getenv("SEEDBED_TOKEN"); token != "" && (!explicit || o.Token == "") {
		o.Token = token
	}
	file := a.flags.tokenFile
	if file == "" && o.Token == "" && named == nil {
		file = s.TokenFile
	}
	if file != "" {
		o.Token, err = readToken(file)
	}
	return o, err
}

// place is the first of flags, environment, file and default that says where
// the API is.
func (a *App) place(s settings) (client.Options, error) {
	for _, from := range []struct{ name, url, socket string }{
		{"the flags --url and --socket", a.flags.url, a.flags.socket},
		{"SEEDBED_URL and SEEDBED_SOCKET", a.Getenv("SEEDBED_URL"), a.Getenv("SEEDBED_SOCKET")},
		{"url and socket of the configuration file", s.URL, s.Socket},
	} {
		if from.url != "" && from.socket != "" {
			return client.Options{}, usagef("%s exclude each other: give one", from.name)
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

// isLocal tells whether the API is on this host.
func isLocal(o client.Options) bool {
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
	text, err := readBounded(path, 4*seedbed.KiB)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return checkToken(path, string(text))
}

// checkToken is a token without white space around it, or says that from holds none.
func checkToken(from, text string) (string, error) {
	token := strings.TrimSpace(text)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "%s does not hold a token: want one line of printable characters", from)
	}
	return token, nil
}

// readBounded reads a file that must not be larger than limit.
func readBounded(path string, limit seedbed.Bytes) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, path, limit)
}

func readLimited(r io.Reader, name string, limit seedbed.Bytes) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > int(limit) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is larger than %s", name, limit)
	}
	return text, nil
}
