package outbox

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"seedbed"
	"seedbed/internal/build"
	"seedbed/webhook/signature"
)

// The bounds of one attempt.
const (
	connectTimeout = 5 * time.Second
	tlsTimeout     = 5 * time.Second
	headerTimeout  = 15 * time.Second
	totalTimeout   = 20 * time.Second
	bodyTimeout    = 2 * time.Second // for the body of an answer, which is not used
	maxAnswer      = 16 << 10        // of an answer's header, and of its body
)

// sender makes single attempts over the network.
type sender struct {
	resolver *net.Resolver
	tls      *tls.Config
	total    time.Duration
	header   time.Duration
	body     time.Duration
}

func newSender() *sender {
	return &sender{resolver: net.DefaultResolver, tls: &tls.Config{MinVersion: tls.VersionTLS12}, total: totalTimeout,
		header: headerTimeout, body: bodyTimeout}
}

// send makes one attempt. It does not follow redirects, use proxies, keep connections, or connect
// to an address that the endpoint may not have.
func (s *sender) send(ctx context.Context, e seedbed.Endpoint, o seedbed.Outgoing) result {
	r := result{at: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, s.total)
	defer cancel()
	req, err := request(ctx, e, o, r.at)
	if err != nil {
		r.err = err.Error()
		return r
	}
	transport := s.transport(e, req.URL.Scheme == "http")
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.took = time.Since(r.at)
		r.err, r.timeout = explain(err)
		return r
	}
	defer resp.Body.Close()
	// Only the status matters. The body is read so that the receiver can finish writing, but only
	// up to a bound, because an endless body would occupy a worker.
	defer time.AfterFunc(s.body, cancel).Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	r.took, r.status = time.Since(r.at), resp.StatusCode
	r.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	// The reason phrase comes from the receiver and may contain anything, so use the standard one.
	said := strings.TrimSpace("it answered " + strconv.Itoa(r.status) + " " + http.StatusText(r.status))
	switch {
	case r.status >= 300 && r.status < 400:
		r.err = said + ": redirects are not followed"
	case r.status < 200 || r.status > 299:
		r.err = said
	}
	return r
}

// request returns the signed request of one attempt.
func request(ctx context.Context, e seedbed.Endpoint, o seedbed.Outgoing, at time.Time) (*http.Request, error) {
	b, contentType, err := body(e, o)
	if err != nil {
		return nil, err
	}
	if len(e.Keys) == 0 {
		return nil, errors.New("the endpoint has no key that signs")
	}
	signatures := make([]string, len(e.Keys))
	for i, k := range e.Keys {
		if k.Version == seedbed.SignV1a {
			signatures[i] = signature.SignV1a(ed25519.NewKeyFromSeed(k.Key), o.ID, at, b)
			continue
		}
		signatures[i] = signature.Sign(k.Key, o.ID, at, b)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "Seedbed/"+build.Version())
	req.Header.Set(signature.HeaderID, o.ID)
	req.Header.Set(signature.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(signature.HeaderSignature, strings.Join(signatures, " "))
	return req, nil
}

// transport returns a transport that connects only to addresses that the endpoint may have. plain
// means that the URL is plain HTTP, which may reach public addresses only with Insecure.
func (s *sender) transport(e seedbed.Endpoint, plain bool) *http.Transport {
	dialer := &net.Dialer{
		Timeout: connectTimeout, Resolver: s.resolver,
		// Control runs for each address that is tried, after the name was resolved and before
		// anything is sent.
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if err := checkAddress(at.Addr(), e.AllowPrivate); err != nil {
				return err
			}
			if plain && !e.Insecure && isPublic(at.Addr()) {
				return seedbed.Errorf(seedbed.ErrForbidden, "address %s is a public one, where plain http is not sent: expected https", at.Addr())
			}
			return nil
		},
	}
	return &http.Transport{
		Proxy:                  nil, // not even one from the environment
		DialContext:            dialer.DialContext,
		TLSClientConfig:        s.tls,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  s.header,
		MaxResponseHeaderBytes: maxAnswer,
		DisableKeepAlives:      true, // the address is checked when connecting
		DisableCompression:     true,
	}
}

// explain returns why there was no answer, and whether it was a timeout.
func explain(err error) (text string, timeout bool) {
	if e, ok := errors.AsType[*url.Error](err); ok {
		timeout, err = e.Timeout(), e.Err // the URL is known
	}
	if e, ok := errors.AsType[*seedbed.Error](err); ok {
		return e.Msg, false
	}
	if timeout {
		return "no answer in time: " + plain(err.Error()), true
	}
	return plain(err.Error()), false
}

// plain bounds and cleans a text that the receiver may have influenced, for example by the names in
// its certificate, because an operator's terminal will show it.
func plain(text string) string {
	const most = 500
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// retryAfter parses the header of RFC 9110 10.2.3: seconds or a date. It returns 0 for any other
// value and for a date in the past.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
