package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestTooManyRequests checks how often a call is sent that the server answers with 429 at first.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after   string // the header Retry-After of the refusals
		refused int
		sent    int
		fails   bool
	}{
		"admitted":         {"1", 0, 1, false},
		"once":             {"0", 1, 1, true}, // 0 is no time to wait
		"later":            {"1", 1, 2, false},
		"much later":       {"61", 1, 1, true},
		"without a time":   {"", 1, 1, true},
		"with a bad time":  {"soon", 1, 1, true},
		"with a long time": {"99999999999", 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, keys := 0, map[string]bool{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent++
				keys[r.Header.Get("Idempotency-Key")] = true
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"name":"s"}` {
					t.Errorf("attempt %d has the body %q, %v", sent, body, err)
				}
				if sent <= test.refused {
					w.Header().Set("Retry-After", test.after)
					w.WriteHeader(http.StatusTooManyRequests)
					fmt.Fprint(w, `{"kind":"unavailable","detail":"too fast"}`)
					return
				}
				fmt.Fprint(w, `{}`)
			}))
			t.Cleanup(s.Close)
			var told []string
			c, err := client.New(client.Options{URL: s.URL, Waiting: func(err error, wait time.Duration) {
				told = append(told, fmt.Sprint(err, wait))
			}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.TakeSnapshot(t.Context(), "v", wire.SnapshotRequest{Name: "s"})
			if (err != nil) != test.fails || err != nil && !errors.Is(err, seedbed.ErrUnavailable) {
				t.Errorf("error %v: want one: %t", err, test.fails)
			}
			if sent != test.sent || len(keys) != 1 || len(told) != test.sent-1 {
				t.Errorf("%d attempts with the keys %v, told %q: want %d with one key", sent, keys, told, test.sent)
			}
		})
	}
}
