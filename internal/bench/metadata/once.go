package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// get is a request as HTTP/1.1 has it; with last, the server closes behind the answer.
func get(path, token string, last bool) []byte {
	r := "GET " + path + " HTTP/1.1\r\nHost: 169.254.169.254\r\n"
	if token != "" {
		r += "X-aws-ec2-metadata-token: " + token + "\r\n"
	}
	if last {
		r += "Connection: close\r\n"
	}
	return []byte(r + "\r\n")
}

const putToken = "PUT /latest/api/token HTTP/1.1\r\nHost: 169.254.169.254\r\n" +
	"X-aws-ec2-metadata-token-ttl-seconds: 21600\r\nContent-Length: 0\r\n\r\n"

// once is a script in which each source asks one thing.
type once struct {
	sources []*source
	to      unix.SockaddrInet4
	request []byte
	asked   []bool
	bodies  []string
	flaw    error
}

// askAll sends one request from each source and returns the bodies. A source
// without a good answer is an error.
func askAll(ctx context.Context, sources []*source, to unix.SockaddrInet4, data []byte) ([]string, error) {
	s := &once{sources: sources, to: to, request: data, asked: make([]bool, len(sources)), bodies: make([]string, len(sources))}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := play(ctx, s, len(sources)); err != nil {
		return nil, err
	}
	for i, b := range s.bodies {
		if b == "" && s.flaw == nil {
			s.flaw = fmt.Errorf("guest %s got no answer", sources[i].guest.Name)
		}
	}
	return s.bodies, s.flaw
}

func (o *once) next(slot int) (request, bool) {
	if o.asked[slot] {
		return request{}, false
	}
	o.asked[slot] = true
	return request{from: o.sources[slot], to: o.to, data: o.request, fresh: true}, true
}

func (o *once) answered(slot int, a answer) {
	if a.status != 200 {
		o.failed(slot, fmt.Errorf("status %d", a.status))
		return
	}
	o.bodies[slot] = string(a.body)
}

func (o *once) failed(slot int, err error) {
	if o.flaw == nil {
		o.flaw = fmt.Errorf("guest %s: %w", o.sources[slot].guest.Name, err)
	}
}
