package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"seedbed/internal/sleep"
)

// mostWaiting is how long a call waits in all while the server answers 429.
const mostWaiting = time.Minute

// patiently calls try, and again after the time that it returns: the answer was 429, and said when to try
// again. It returns the last error once it would have waited for longer than mostWaiting.
func (c *Client) patiently(ctx context.Context, try func() (again time.Duration, err error)) error {
	for left := mostWaiting; ; {
		again, err := try()
		if again == 0 || c.waiting == nil || again > left {
			return err
		}
		c.waiting(err, again)
		if !sleep.For(ctx, again) {
			return err
		}
		left -= again
	}
}

// retryAfter returns the time after which a refused request may be sent again, or zero.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
