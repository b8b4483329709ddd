package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"

	"seedbed"
	"seedbed/provision/effects"
)

// ReceiveUpload sends the worker a file from body: see worker.Spooler. It may take as long as body
// does. An error of body, which is returned unchanged, or the end of ctx interrupts the upload, and
// the worker keeps nothing of it. body is not read after the return.
func (c *Client) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (up seedbed.Upload, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return up, c.broken(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { abort(conn) })
	defer stop()
	answered := make(chan outcome, 1)
	go func() { answered <- c.uploadAnswer(ctx, conn) }()
	o, err := c.upload(conn, spec, body, answered)
	conn.Close() // ends the goroutine if it still runs
	switch {
	case ctx.Err() != nil:
		return up, fmt.Errorf("%s: %w", effects.ReceiveUpload, context.Cause(ctx))
	case err != nil:
		return up, err
	case o.err != nil:
		return up, o.err
	}
	if err := json.Unmarshal(o.result, &up); err != nil {
		return up, fmt.Errorf("the worker's answer to %s: %w", effects.ReceiveUpload, err)
	}
	return up, nil
}

// uploadBlock is how much of an upload is sent at once.
const uploadBlock = 256 << 10

// upload sends the request and waits for its answer. If the answer comes before everything is sent,
// the worker has refused the file.
func (c *Client) upload(conn net.Conn, spec seedbed.UploadSpec, body io.Reader, answered <-chan outcome) (outcome, error) {
	head, err := json.Marshal(spec)
	if err != nil {
		return outcome{}, err
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/%s HTTP/1.1\r\nHost: worker\r\nTransfer-Encoding: chunked\r\n\r\n",
		effects.ReceiveUpload); err != nil {
		return <-answered, nil
	}
	chunks := httputil.NewChunkedWriter(conn)
	if _, err := chunks.Write(append(head, '\n')); err != nil {
		return <-answered, nil
	}
	file, buf := effects.NewFrames(chunks), make([]byte, uploadBlock)
	for {
		n, readErr := body.Read(buf)
		select {
		case o := <-answered:
			return o, nil
		default:
		}
		if n > 0 {
			if _, err := file.Write(buf[:n]); err != nil {
				return <-answered, nil // the worker has closed the connection, and said why
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return outcome{}, readErr
		}
	}
	if errors.Join(file.End(), chunks.Close()) == nil {
		_, _ = io.WriteString(conn, "\r\n") // the reader finds any error of the connection
	}
	return <-answered, nil
}

// uploadAnswer reads the answer, or an error if the connection broke.
func (c *Client) uploadAnswer(ctx context.Context, conn net.Conn) outcome {
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, effects.MaxLine)), nil)
	if err != nil {
		return outcome{err: c.broken(ctx, err)}
	}
	defer resp.Body.Close()
	var l effects.Line
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil {
		return outcome{err: c.broken(ctx, err)}
	}
	if l.Error != nil {
		return outcome{err: seedbed.KindError(l.Error.Kind, l.Error.Message)}
	}
	return outcome{result: l.Result}
}
