package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// answer is a whole response. Its body is good until the slot's next request.
type answer struct {
	status int
	body   []byte
	// took is from before the connection was asked for, or the request was
	// written, until the last byte.
	took time.Duration
}

var (
	headEnd    = []byte("\r\n\r\n")
	lengthName = []byte("\r\nContent-Length: ")
	version    = []byte("HTTP/1.1 ")
)

// parseAnswer reads a response that has a Content-Length; whole is false while
// bytes are missing.
func parseAnswer(b []byte) (a answer, whole bool, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return a, false, nil
	}
	head := b[:end+2]
	at := bytes.Index(head, lengthName)
	if !bytes.HasPrefix(head, version) || len(head) < 12 || at < 0 {
		return a, false, fmt.Errorf("not an answer with a length: %.200q", head)
	}
	digits := head[at+len(lengthName):]
	digits = digits[:bytes.IndexByte(digits, '\r')]
	length, err := strconv.Atoi(string(digits))
	if err != nil || length < 0 {
		return a, false, fmt.Errorf("Content-Length %q", digits)
	}
	body := b[end+len(headEnd):]
	if len(body) < length {
		return a, false, nil
	}
	if len(body) > length {
		return a, false, fmt.Errorf("%d bytes behind an answer of %d", len(body)-length, length)
	}
	a.status, err = strconv.Atoi(string(head[9:12]))
	a.body = body
	return a, true, err
}
