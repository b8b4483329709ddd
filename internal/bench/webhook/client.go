package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"seedbed/webhook/signature"
)

// client sends deliveries over one connection, which it opens again when the
// receiver has closed it.
type client struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// answered is what came back.
type answered struct {
	status int
	Job    string `json:"job"`
}

// request is one signed delivery that asks for an instance of that name.
func request(name string) []byte {
	body := []byte(`{"action":"create","name":"` + name + `","profile":"small","params":{"vcpus":2,"memory":"1GiB"}}`)
	now := time.Now()
	return fmt.Appendf(nil, "POST /hooks/%s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"webhook-id: %s\r\nwebhook-timestamp: %d\r\nwebhook-signature: %s\r\n\r\n%s",
		hookName, len(body), name, now.Unix(), signature.Sign(hookKey, name, now, body), body)
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
	if _, err := c.conn.Write(request(name)); err != nil {
		return a, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return a, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	if res.Close {
		c.close()
	}
	a.status = res.StatusCode
	if a.status == http.StatusAccepted {
		err = json.Unmarshal(body, &a)
	}
	return a, err
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
