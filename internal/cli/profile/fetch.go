package profile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/cli"
)

const (
	fetchTimeout = 2 * time.Minute
	maxRedirects = 5
)

// isURI reports whether a name is a URI, including a file: URI.
func isURI(name string) bool {
	scheme, _, ok := strings.Cut(name, ":")
	return ok && len(scheme) > 1 && !strings.ContainsAny(scheme, "/. ")
}

// fetch reads a file, or the target of an https or file URI, of at most limit bytes.
func fetch(ctx context.Context, name string, limit seedbed.Bytes) ([]byte, error) {
	if !isURI(name) {
		return cli.ReadBounded(name, limit)
	}
	u, err := url.Parse(name)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%q is not a URI", name)
	}
	switch {
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && strings.HasPrefix(u.Path, "/"):
		return cli.ReadBounded(u.Path, limit)
	case u.Scheme == "https" && u.Host != "":
		return fetchHTTPS(ctx, u, limit)
	}
	return nil, seedbed.Errorf(seedbed.ErrInvalid, "%q: expected a file, or a URI such as https://host/path or file:///path", name)
}

// secure refuses a redirect to a URL without TLS, and too many redirects.
func secure(req *http.Request, via []*http.Request) error {
	if req.URL.Scheme != "https" {
		return errors.New("redirected to a URL without TLS")
	}
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	return nil
}

func fetchHTTPS(ctx context.Context, u *url.URL, limit seedbed.Bytes) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	c := http.Client{CheckRedirect: secure}
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", u.Redacted(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: the answer is %s", u.Redacted(), resp.Status)
	}
	return cli.ReadLimited(resp.Body, u.Redacted(), limit)
}
