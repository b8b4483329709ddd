package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"seedbed/internal/bench"
)

// client asks over one connection, which it opens again when the server has
// closed it.
type client struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// do sends a request without a body, which acts in a project unless that is empty.
func (c *client) do(method, project, path string) (status int, body []byte, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.addr, 30*time.Second); err != nil {
			return 0, nil, err
		}
		c.in = bufio.NewReaderSize(c.conn, 16<<10)
	}
	c.conn.SetDeadline(time.Now().Add(30 * time.Second))
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	in := ""
	if project != "" {
		in = "Seedbed-Project: " + project + "\r\n"
	}
	if _, err := fmt.Fprintf(c.conn, "%s /api/v1%s HTTP/1.1\r\nHost: bench\r\nX-Api-Key: %s\r\n%sContent-Length: 0\r\n\r\n", method,
		path, secret, in); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	if body, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, err
	}
	if res.Close {
		c.close()
	}
	return res.StatusCode, body, nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// starts is how often the command-line client is started in a run.
const starts = 40

// ofClient are the figures of the command-line client.
func ofClient(ctx context.Context, s setup) ([]bench.Figure, error) {
	file, err := os.Stat(s.cli)
	if err != nil {
		return nil, err
	}
	var runs []float64
	for range s.runs {
		began := time.Now()
		for range starts {
			if out, err := exec.CommandContext(ctx, s.cli, "version").CombinedOutput(); err != nil {
				return nil, fmt.Errorf("%s version: %w\n%s", s.cli, err, out)
			}
		}
		runs = append(runs, float64(time.Since(began).Microseconds())/1000/starts)
	}
	return []bench.Figure{
		{Name: "cli_start_ms", Unit: "ms", Mark: bench.AtMost(30), Runs: runs, How: "seedbed version, from its start to its end"},
		{Name: "cli_mb", Unit: "MB", Mark: bench.AtMost(12), Runs: []float64{float64(file.Size()) / 1e6}, How: "the program as it is installed"},
	}, nil
}
