package cli

import (
	"cmp"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/api/client"
)

// SignIn returns a client of the installation that flags, environment and file choose, without a token and
// in no project, and a function that keeps the secret of a session for it. An empty secret is one that is
// not kept any more.
func (a *App) SignIn() (*client.Client, func(secret string) error, error) {
	s, err := a.settings()
	if err != nil {
		return nil, nil, err
	}
	o, name, err := a.signInAt(s)
	if err != nil {
		return nil, nil, err
	}
	api, err := client.New(o)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(o.URL, "http:") && !IsLocal(o) {
		fmt.Fprintln(a.Err, "seedbed: without TLS, anyone on the network path can read the session: use an https URL (docs/how-to/access.md)")
	}
	return api, func(secret string) error {
		return a.changeSettings(func(s *settings) error { return s.keepSession(name, o.URL, secret) })
	}, nil
}

// signInAt returns where a person signs in: the options of the client, and the name of the connection, or
// an empty one.
func (a *App) signInAt(s settings) (o client.Options, name string, err error) {
	named, _, err := a.named(s)
	if err != nil {
		return o, "", err
	}
	if named != nil {
		o = client.Options{URL: named.URL, Socket: named.Socket, CA: named.CA}
		if name, _, err = a.connectionName(s); err != nil {
			return o, "", err
		}
	} else {
		if o, err = a.place(s); err != nil {
			return o, "", err
		}
		o.CA = s.CA
	}
	if o.Socket != "" {
		return o, "", seedbed.Errorf(seedbed.ErrInvalid, "the control socket needs no sign-in: choose a URL with --url or a connection with -c")
	}
	o.CA = cmp.Or(a.Flags.CA, a.Getenv("SEEDBED_CA"), o.CA)
	return o, name, nil
}

// keepSession keeps the secret of a session for a connection or, without a name, for a URL.
func (s *settings) keepSession(name, url, secret string) error {
	if name != "" {
		c, there := s.Connections[name]
		c.Session = secret
		if there {
			s.Connections[name] = c
		}
		return orMissing(there, name)
	}
	if s.Sessions == nil {
		s.Sessions = map[string]string{}
	}
	if s.Sessions[url] = secret; secret == "" {
		delete(s.Sessions, url)
	}
	return nil
}

// KeptSession returns the secret of the session that is kept for the installation that flags, environment
// and file choose. It returns ErrNotFound if there is none.
func (a *App) KeptSession() (string, error) {
	s, err := a.settings()
	if err != nil {
		return "", err
	}
	o, name, err := a.signInAt(s)
	if err != nil {
		return "", err
	}
	secret := s.Sessions[o.URL]
	if name != "" {
		secret = s.Connections[name].Session
	}
	if secret == "" {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "nobody is signed in at %s: seedbed login", o.URL)
	}
	return secret, nil
}
