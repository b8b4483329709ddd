package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

const (
	mimeEvents = "text/event-stream"
	// silence is how long a stream may be silent. The server sends a sign of life every 15 s.
	silence = 45 * time.Second
	// maxEvent bounds one event.
	maxEvent = 4 << 20
)

// message is one event of a stream (HTML standard, 9.2.6).
type message struct {
	id, kind, data string
}

// errStop ends the reading of a stream without an error.
var errStop = errors.New("stop")

// readEvents reads a stream to its end and passes each event to on. An error of on ends the
// reading. A line longer than maxEvent is an error.
func readEvents(r io.Reader, on func(message) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	m, size := message{}, 0
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if m.data != "" {
				m.data = strings.TrimSuffix(m.data, "\n")
				if err := on(m); err != nil {
					return err
				}
			}
			m, size = message{}, 0
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.kind = value
		case "data":
			if size += len(value); size > maxEvent {
				return fmt.Errorf("an event is larger than %s", seedbed.Bytes(maxEvent))
			}
			m.data += value + "\n"
		}
	}
	return lines.Err()
}

// events reads one stream from after the event with that ID; 0 means the beginning. ended reports
// whether the stream is complete.
func (c *Client) events(ctx context.Context, path string, last int64, on func(message) error) (ended bool, err error) {
	err = c.patiently(ctx, func() (again time.Duration, err error) {
		ended, again, err = c.stream(ctx, path, last, on)
		return again, err
	})
	return ended, err
}

// stream is events without further attempts. again is when to try again, if the server said so.
func (c *Client) stream(
	ctx context.Context, path string, last int64, on func(message) error,
) (ended bool, again time.Duration, err error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(limited, call{method: http.MethodGet, path: path})
	if err != nil {
		return false, 0, err
	}
	req.Header.Set("Accept", mimeEvents)
	if last > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(last, 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, 0, c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return true, 0, nil
	case resp.StatusCode != http.StatusOK:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return false, 0, c.unanswered(ctx, err)
		}
		return false, retryAfter(resp), c.problem(resp, body)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), mimeEvents):
		return false, 0, fmt.Errorf("GET %s: the answer is not a stream of events (is %s Seedbed's API?)", path, c.where)
	}
	idle := time.AfterFunc(silence, cancel)
	defer idle.Stop()
	var told error
	err = readEvents(&touching{resp.Body, func() { idle.Reset(silence) }}, func(m message) error {
		told = on(m)
		return told
	})
	switch {
	case errors.Is(told, errStop):
		return true, 0, nil
	case told != nil:
		return false, 0, told
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return false, 0, seedbed.Errorf(seedbed.ErrUnavailable, "the API on %s has sent nothing for %s", c.where, silence)
	case err != nil:
		return false, 0, c.unanswered(ctx, err)
	}
	return false, 0, seedbed.Errorf(seedbed.ErrUnavailable, "the API on %s ended the stream", c.where)
}

// touching is a reader that reports each read of data.
type touching struct {
	io.Reader
	touch func()
}

// Read implements io.Reader.
func (t *touching) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.touch()
	}
	return n, err
}

// again reads a stream, and reconnects when it breaks, until the API has been away for longer than
// patience. last returns the ID after which to go on.
func (c *Client) again(ctx context.Context, path string, last func() int64, on func(message) error) error {
	answered := time.Now()
	for {
		ended, err := c.events(ctx, path, last(), func(m message) error {
			answered = time.Now()
			return on(m)
		})
		if ended || err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, seedbed.ErrUnavailable) || time.Since(answered) >= patience {
			return err
		}
		if !sleep.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
