// Package session has the commands of people who sign in: login, logout and session.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
	"seedbed/internal/command"
)

// signInTime is how long a person has to sign in.
const signInTime = 10 * time.Minute

// LoginCommand returns the command login.
func LoginCommand(a *cli.App) *cobra.Command {
	var noBrowser bool
	c := &cobra.Command{
		Use: "login", Short: "Sign in with a browser",
		Long: `Sign in with a browser, at the provider that the installation names. The session that
you get is kept in ~/.config/seedbed/config.yaml, which only you can read, and used
instead of a token until it ends or until "seedbed logout".

The browser must run on this host, because it brings the session here: it opens a port of
127.0.0.1. If it runs on another one, give a port with --port and forward it, with
"ssh -L PORT:127.0.0.1:PORT THIS-HOST", before you open the URL there.`,
	}
	var port uint16
	c.RunE = a.Do(func(ctx context.Context, _ []string) error {
		api, save, err := a.SignIn()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, signInTime)
		defer cancel()
		made, err := signIn(ctx, a, api, port, noBrowser)
		if errors.Is(err, context.DeadlineExceeded) {
			return cli.TimedOutf("nobody has signed in within %s", signInTime)
		}
		if err != nil {
			return err
		}
		if err := save(made.Secret); err != nil {
			return errors.Join(err, api.WithToken(made.Secret).EndSession(context.WithoutCancel(ctx), "current"))
		}
		made.Secret = ""
		return a.Tell(nil, made.Session, "signed in as %s until %s: %s", made.Session.Name,
			made.Session.Expires.Local().Format(time.DateTime), seedbed.GrantLine(made.Session.Grants))
	})
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the URL to open")
	c.Flags().Uint16Var(&port, "port", 0, "wait for the browser at `PORT` of 127.0.0.1; 0: any")
	return c
}

// signIn signs in with a browser, and returns the session.
func signIn(ctx context.Context, a *cli.App, api *client.Client, port uint16, noBrowser bool) (wire.NewSession, error) {
	at, err := api.SignIn(ctx)
	if err != nil {
		return wire.NewSession{}, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return wire.NewSession{}, err
	}
	wait := newWaiting()
	begin, err := wait.url(at.URL, ln.Addr().String())
	if err != nil {
		ln.Close()
		return wire.NewSession{}, err
	}
	fmt.Fprintf(a.Err, "Open this URL in a browser of this host to sign in at %s:\n%s\n", cli.OneLine(at.Issuer), begin)
	if !noBrowser && (a.Getenv("DISPLAY") != "" || a.Getenv("WAYLAND_DISPLAY") != "") {
		go openBrowser(context.WithoutCancel(ctx), a, begin) // not waited for: the browser may stay open
	}
	code, err := wait.code(ctx, ln)
	if err != nil {
		return wire.NewSession{}, err
	}
	return api.TakeSession(ctx, wire.SessionRequest{Code: code, Verifier: wait.verifier})
}

// openBrowser opens a URL in the browser of the person's desktop. The person can still do so if that
// fails.
func openBrowser(ctx context.Context, a *cli.App, to string) {
	env := []string{"PATH=" + a.Getenv("PATH")}
	for _, name := range []string{"HOME", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		"XDG_CURRENT_DESKTOP", "BROWSER"} {
		if v := a.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	_, _ = command.Run(ctx, command.Command{Name: "xdg-open", Args: []string{to}, Timeout: signInTime, Env: env})
}

// waiting is the command line while a person signs in.
type waiting struct {
	// verifier proves that the code is for this process, and state that the browser is that of this
	// sign-in.
	verifier, state string
	codes           chan string
}

func newWaiting() *waiting {
	return &waiting{verifier: rand.Text() + rand.Text(), state: rand.Text(), codes: make(chan string, 1)}
}

// callback is the path to which the browser is sent.
const callback = "/signed-in"

// url returns the URL at which a browser begins.
func (w *waiting) url(begin, addr string) (string, error) {
	u, err := url.Parse(begin)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "the API answers with %q, where people cannot sign in", cli.OneLine(begin))
	}
	sum := sha256.Sum256([]byte(w.verifier))
	u.RawQuery = url.Values{"cli_redirect": {"http://" + addr + callback}, "state": {w.state},
		"challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}.Encode()
	return u.String(), nil
}

// code serves the browser on ln until it brings the code, and returns that.
func (w *waiting) code(ctx context.Context, ln net.Listener) (string, error) {
	server := &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	var code string
	var err error
	select {
	case code = <-w.codes:
	case <-ctx.Done():
		err = ctx.Err()
	case err := <-done:
		return "", err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(end) != nil { // a connection that sends nothing
		server.Close()
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return code, err
}

// ServeHTTP takes the code from the browser.
func (w *waiting) ServeHTTP(res http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	res.Header().Set("Content-Type", "text/html; charset=utf-8")
	res.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	res.Header().Set("X-Content-Type-Options", "nosniff")
	res.Header().Set("Referrer-Policy", "no-referrer")
	res.Header().Set("Cache-Control", "no-store")
	if req.Method != http.MethodGet || req.URL.Path != callback || q.Get("code") == "" ||
		subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(w.state)) != 1 {
		res.WriteHeader(http.StatusNotFound)
		_, _ = res.Write([]byte(page("This is not the sign-in that seedbed waits for", "Open the URL that it has printed.")))
		return
	}
	select {
	case w.codes <- q.Get("code"):
	default: // it has one
	}
	_, _ = res.Write([]byte(page("You are signed in", "Go back to the command line. You can close this page.")))
}

// page returns a page for the browser.
func page(title, text string) string {
	return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
		`<meta name="color-scheme" content="light dark"><title>` + title + ` - Seedbed</title></head>` +
		`<body><main><h1>` + title + `</h1><p>` + text + `</p></main></body></html>`
}
