package rest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/signin"
	"seedbed/api/wire"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

const (
	// signInCookie holds a browser's sign-in while it is under way.
	signInCookie = "seedbed_signin"
	// signInTime is how long a person has for it, and codeTime how long the command line has to fetch
	// its session after that.
	signInTime = 10 * time.Minute
	codeTime   = time.Minute
	// maxConfirm bounds the form of the confirmation.
	maxConfirm = 4 << 10
)

// underWay is a sign-in as the browser's cookie holds it, sealed.
type underWay struct {
	signin.Flow
	Until time.Time
	CLI   listening
}

// listening is the command line that waits for the end of a sign-in. It is zero for one of the browser
// itself.
type listening struct {
	// Redirect is a URL on the person's own computer. Challenge is the digest of a secret of the command
	// line (RFC 7636), and State comes back to it.
	Redirect, Challenge, State string
}

// agreed is what a person has proved, and for whom, until the command line has its session.
type agreed struct {
	Person seedbed.Person
	CLI    listening
}

// signInReady returns an error unless people sign in on this listener.
func (r *router) signInReady() error {
	if r.SignIn == nil || !r.Guarded() {
		return seedbed.Errorf(seedbed.ErrNotFound,
			"people do not sign in here: the configuration has no provider (oidc), or this is the control socket")
	}
	return nil
}

// signInProvider answers where people sign in.
func (r *router) signInProvider(_ context.Context, c *fiber.Ctx) error {
	if err := r.signInReady(); err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, wire.SignIn{URL: r.SignIn.URL(), Issuer: r.SignIn.Provider.Issuer()})
}

// beginSignIn sends a browser to the provider. Nothing is stored until it comes back.
func (r *router) beginSignIn(ctx context.Context, c *fiber.Ctx) error {
	if err := r.signInReady(); err != nil {
		return r.failedPage(c, err)
	}
	cli, err := listeningOf(c)
	if err != nil {
		return r.failedPage(c, err)
	}
	now := underWay{signin.Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}, time.Now().Add(signInTime), cli}
	to, err := r.SignIn.Provider.URL(ctx, now.Flow)
	if err != nil {
		return r.failedPage(c, err)
	}
	sealed, err := r.SignIn.Seal(signInCookie, now)
	if err != nil {
		return err
	}
	r.signInCookie(c, sealed, now.Until)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.Redirect(to, fiber.StatusFound)
}

// signInCookie sets the cookie of a sign-in, or removes it if the value is empty.
func (r *router) signInCookie(c *fiber.Ctx, value string, until time.Time) {
	path, secure := server.Prefix+server.SignInPath, false
	if u, err := url.Parse(r.SignIn.URL()); err == nil {
		path, secure = u.Path, u.Scheme == "https"
	}
	if value == "" {
		until = time.Unix(1, 0)
	}
	c.Cookie(&fiber.Cookie{Name: signInCookie, Value: value, Path: path, Expires: until, Secure: secure, HTTPOnly: true,
		SameSite: fiber.CookieSameSiteLaxMode})
}

var (
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	cliStateForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)
)

// listeningOf returns the command line that a query describes. It returns ErrInvalid unless that listens
// on the browser's own computer.
func listeningOf(c *fiber.Ctx) (listening, error) {
	l := listening{strings.Clone(c.Query("cli_redirect")), strings.Clone(c.Query("challenge")), strings.Clone(c.Query("state"))}
	if l == (listening{}) {
		return l, nil
	}
	u, err := url.Parse(l.Redirect)
	if err != nil || u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || len(l.Redirect) > 200 {
		return l, server.Invalid("cli_redirect %q: expected a URL such as http://127.0.0.1:43210/", seedbed.Clip(l.Redirect))
	}
	if at, err := netip.ParseAddrPort(u.Host); err != nil || !at.Addr().IsLoopback() || at.Port() == 0 {
		return l, server.Invalid("cli_redirect %q is not on your own computer: expected the address 127.0.0.1 or [::1], and a port",
			seedbed.Clip(l.Redirect))
	}
	if !challengeForm.MatchString(l.Challenge) {
		return l, server.Invalid("challenge: expected the SHA-256 digest of a secret, in base64url")
	}
	if !cliStateForm.MatchString(l.State) {
		return l, server.Invalid("state: expected 16 to 128 letters, digits, hyphens and underscores")
	}
	return l, nil
}

// endSignIn takes a browser that the provider has sent back. It begins a session in the browser, or asks
// the person whether the command line may have one.
func (r *router) endSignIn(ctx context.Context, c *fiber.Ctx) error {
	if err := r.signInReady(); err != nil {
		return r.failedPage(c, err)
	}
	who, cli, err := r.signedIn(ctx, c)
	if err != nil {
		return r.failedPage(c, r.slowed(c, err))
	}
	if cli == (listening{}) {
		s, secret, err := r.BeginSession(ctx, c, who)
		if err != nil {
			return r.failedPage(c, err)
		}
		r.KeepCookie(c, secret, s.Expires)
		return r.page(c, fiber.StatusOK, page{Title: "You are signed in", Person: who.Name, Grants: r.SignIn.GrantsOf(who),
			Until: s.Expires.UTC().Format("2006-01-02 15:04 MST")})
	}
	data, err := json.Marshal(agreed{who, cli})
	if err != nil {
		return err
	}
	// The form's half is in the page, which other pages cannot read, and the browser's half in its cookie.
	ticket, half, until := rand.Text(), rand.Text(), time.Now().Add(signInTime)
	if err := r.Store.KeepSignIn(ctx, stepID("confirm", ticket, half), data, until); err != nil {
		return r.failedPage(c, err)
	}
	r.signInCookie(c, half, until)
	return r.page(c, fiber.StatusOK, page{Title: "Let seedbed act for you?", Person: who.Name, Grants: r.SignIn.GrantsOf(who),
		Ticket: ticket, Action: r.SignIn.URL() + "/confirm", To: cli.Redirect})
}

// signedIn returns who has signed in, and for which command line. Each sign-in ends once.
func (r *router) signedIn(ctx context.Context, c *fiber.Ctx) (seedbed.Person, listening, error) {
	var none seedbed.Person
	var begun underWay
	there := r.SignIn.Open(signInCookie, c.Cookies(signInCookie), &begun)
	r.signInCookie(c, "", time.Time{})
	if !there || !time.Now().Before(begun.Until) {
		return none, begun.CLI, seedbed.Errorf(seedbed.ErrUnauthenticated,
			"this browser has not begun to sign in, or took longer than %s: begin again", signInTime)
	}
	if state := c.Query("state"); subtle.ConstantTimeCompare([]byte(state), []byte(begun.State)) != 1 {
		return none, begun.CLI, seedbed.Errorf(seedbed.ErrUnauthenticated,
			"this is the answer to another sign-in than the last one of this browser: begin again")
	}
	if err := r.Store.KeepSignIn(ctx, stepID("state", begun.State), nil, begun.Until); err != nil {
		return none, begun.CLI, err
	}
	if why := c.Query("error"); why != "" {
		return none, begun.CLI, seedbed.Errorf(seedbed.ErrUnauthenticated, "the provider %s did not sign you in: %s %s",
			r.SignIn.Provider.Issuer(), seedbed.Clip(why), seedbed.Clip(c.Query("error_description")))
	}
	brought := signin.Answer{Code: strings.Clone(c.Query("code")), Issuer: strings.Clone(c.Query("iss"))}
	who, err := r.SignIn.Provider.Person(ctx, begun.Flow, brought)
	if err == nil && len(r.SignIn.GrantsOf(who)) == 0 {
		err = server.NoGrant(who)
	}
	return who, begun.CLI, err
}

// confirmSignIn sends the browser to the command line that waits on the person's computer, with a code.
func (r *router) confirmSignIn(ctx context.Context, c *fiber.Ctx) error {
	if err := r.signInReady(); err != nil {
		return r.failedPage(c, err)
	}
	body, err := httpserve.ReadBody(c.Context(), maxConfirm)
	if err != nil {
		return r.failedPage(c, err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || r.ForeignPage(c) {
		return r.failedPage(c, seedbed.Errorf(seedbed.ErrForbidden, "a page of another origin sent this"))
	}
	data, err := r.Store.TakeSignIn(ctx, stepID("confirm", form.Get("ticket"), c.Cookies(signInCookie)))
	r.signInCookie(c, "", time.Time{})
	if err != nil {
		return r.failedPage(c, r.slowed(c, wrongStep(err)))
	}
	var a agreed
	if err := json.Unmarshal(data, &a); err != nil {
		return err
	}
	code := rand.Text()
	if err := r.Store.KeepSignIn(ctx, stepID("code", code), data, time.Now().Add(codeTime)); err != nil {
		return r.failedPage(c, err)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.Redirect(a.CLI.Redirect+"?"+url.Values{"code": {code}, "state": {a.CLI.State}}.Encode(), fiber.StatusSeeOther)
}

// takeSession exchanges a code, with the secret whose digest the sign-in began with, for a session.
func (r *router) takeSession(ctx context.Context, c *fiber.Ctx) error {
	if err := r.signInReady(); err != nil {
		return err
	}
	var req wire.SessionRequest
	if err := server.ReceiveUpTo(c, &req, maxConfirm); err != nil {
		return err
	}
	data, err := r.Store.TakeSignIn(ctx, stepID("code", req.Code))
	if err != nil {
		return r.slowed(c, wrongStep(err))
	}
	var a agreed
	if err := json.Unmarshal(data, &a); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(req.Verifier))
	if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(a.CLI.Challenge)) != 1 {
		return r.slowed(c, seedbed.Errorf(seedbed.ErrUnauthenticated, "the verifier is not the one of this sign-in: begin again"))
	}
	s, secret, err := r.BeginSession(ctx, c, a.Person)
	if err != nil {
		return err
	}
	return server.Created(c, "/sessions/"+s.ID, wire.NewSession{Session: r.shownSession(s, s.ID), Secret: secret})
}

// stepID returns the digest by which a step of a sign-in is kept.
func stepID(step string, secrets ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte("seedbed " + step + "\x00" + strings.Join(secrets, "\x00")))
}

// wrongStep returns the error for a step that does not exist, as that of a caller who did not sign in.
func wrongStep(err error) error {
	if errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrUnauthenticated, "%s: begin again", err)
	}
	return err
}

// slowed returns the error of a sign-in that was refused, after the time that a wrong guess costs.
func (r *router) slowed(c *fiber.Ctx, err error) error {
	if !errors.Is(err, seedbed.ErrUnauthenticated) && !errors.Is(err, seedbed.ErrForbidden) && !errors.Is(err, seedbed.ErrConflict) {
		return err
	}
	r.Log.Warn("a sign-in was refused", "peer", c.Context().RemoteIP().String(), "err", err)
	if !r.SlowGuess() {
		return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unauthenticated",
			Detail: "too many sign-ins were refused: try again later"}
	}
	return err
}
