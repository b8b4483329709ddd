package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"seedbed/webhook/signature"
)

// client sends deliveries over one connection, which it opens again when the
// receiver has closed it.
type client struct {
	addr string
	// hooks are those that it sends to, in turns.
	hooks []string
	sent  int
	conn  net.Conn
	in    *bufio.Reader
}

// answered is what came back.
type answered struct {
	status int
	Job    string
}

// request is one signed delivery to a hook that asks for an instance of that name.
func request(hook, name string) []byte {
	body := []byte(`{"action":"create","name":"` + name + `","profile":"small","params":{"vcpus":2,"memory":"1GiB"}}`)
	now := time.Now()
	return fmt.Appendf(nil, "POST /hooks/%s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"webhook-id: %s\r\nwebhook-timestamp: %d\r\nwebhook-signature: %s\r\n\r\n%s",
		hook, len(body), name, now.Unix(), signature.Sign(hookKey, name, now, body), body)
}

func (c *client) send(name string) (a answered, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.addr, 30*time.Second); err != nil {
			return a, err
		}
		c.in = bufio.NewReaderSize(c.conn, 2<<10)
	}
	c.conn.SetDeadline(time.Now().Add(30 * time.Second))
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	hook := hookName
	if len(c.hooks) > 0 {
		hook = c.hooks[c.sent%len(c.hooks)]
		c.sent++
	}
	if _, err := c.conn.Write(request(hook, name)); err != nil {
		return a, err
	}
	return c.receive()
}

// receive reads one answer. It looks for no more than it needs, so that a sender
// leaves the processors to those who are measured.
func (c *client) receive() (a answered, err error) {
	length, last := 0, false
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(" "))
		switch {
		case first:
			a.status, err = strconv.Atoi(string(value[:min(3, len(value))]))
		case bytes.EqualFold(name, []byte("content-length:")):
			length, err = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("connection:")):
			last = bytes.EqualFold(value, []byte("close"))
		}
		if err != nil {
			return a, fmt.Errorf("answer %q: %w", line, err)
		}
	}
	body, err := c.in.Peek(length)
	if err != nil {
		return a, err
	}
	if a.status == http.StatusAccepted {
		_, after, _ := bytes.Cut(body, []byte(`"job":"`))
		job, _, ok := bytes.Cut(after, []byte(`"`))
		if !ok {
			return a, fmt.Errorf("the answer %q names no job", body)
		}
		a.Job = string(job)
	}
	if last {
		c.close()
		return a, nil
	}
	_, err = c.in.Discard(length)
	return a, err
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
