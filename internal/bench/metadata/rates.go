package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"seedbed/internal/bench"
)

func sockaddr(a netip.AddrPort) unix.SockaddrInet4 {
	return unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// pair is one thing that is asked of both servers.
type pair struct {
	name           string
	ours, constant target
}

// pairs are the loads.
func (l *lab) pairs() []pair {
	constantData := document(0)
	make2 := func(name, path string, token, fresh bool) pair {
		p := pair{name: name}
		p.ours.to, p.constant.to = sockaddr(metadataTCP), sockaddr(constantTCP)
		p.ours.fresh, p.constant.fresh = fresh, fresh
		for i, s := range l.many.sources {
			t := ""
			if token {
				t = l.tokens[i]
			}
			request := get(path, t, fresh) // the very same for both
			body, constant := []byte(s.guest.ServedID()), []byte(constantID)
			if path == userDataPath {
				body, constant = l.many.in.blobs[s.guest.UserData.SHA256], constantData
			}
			p.ours.requests, p.ours.bodies = append(p.ours.requests, request), append(p.ours.bodies, body)
			p.constant.requests, p.constant.bodies = append(p.constant.requests, request), append(p.constant.bodies, constant)
		}
		return p
	}
	return []pair{
		make2("keepalive", idPath, false, false),
		make2("token", idPath, true, false),
		make2("newconn", idPath, false, true),
		make2("userdata", userDataPath, false, false),
	}
}

// rates measures what is a ratio to the constant server.
func (l *lab) rates(ctx context.Context, note *table) ([]bench.Figure, error) {
	marks := map[string]float64{"keepalive": 0.85, "token": 0.80, "newconn": 0.92, "userdata": 0.9}
	var all []bench.Figure
	from := &loader{sources: l.many.sources}
	for _, p := range l.pairs() {
		figure := bench.Figure{Name: p.name + "_ratio", Unit: "x", Mark: bench.AtLeast(marks[p.name]),
			How: "requests/s to those of the constant server"}
		tail := bench.Figure{Name: "p99_ratio", Unit: "x", Mark: bench.AtMost(1.25),
			How: "99th percentile to the constant server's, one connection per request"}
		for run := range l.runs + 1 {
			t, err := l.turns(ctx, from, p, run)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if run == 0 {
				continue // both are warm now
			}
			figure.Runs = append(figure.Runs, t.ratio((*outcome).rate))
			tail.Runs = append(tail.Runs, t.ratio(func(o *outcome) float64 { return float64(o.quantile(0.99)) }))
			figure.Flaw = cmp.Or(figure.Flaw, t.flaw())
			note.add(p.name, "seedbed-metadata", t.ours)
			note.add(p.name, "constant", t.others)
		}
		say("%s is measured", p.name)
		all = append(all, figure)
		if p.name == "newconn" {
			tail.Flaw = figure.Flaw
			all = append(all, tail)
		}
	}
	return all, nil
}

// turns makes one run of a pair, or, as the run 0, so much of it that both are warm.
func (l *lab) turns(ctx context.Context, from *loader, p pair, run int) (turns, error) {
	return l.alternate(ctx, run, rounds, func(our bool) (outcome, error) {
		at, server := &p.ours, l.many.daemon
		if !our {
			at, server = &p.constant, l.constant
		}
		before, err := bench.CPU(server.pid())
		if err != nil {
			return outcome{}, err
		}
		o, err := from.round(ctx, at, 0, roundLength)
		if err != nil {
			return o, err
		}
		after, err := bench.CPU(server.pid())
		o.cpu = after - before
		return o, err
	})
}
