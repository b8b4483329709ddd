package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// crawl is a script in which each guest boots once: the requests of cloud-init
// 22.4's DataSourceEc2 on an instance that it takes for Amazon's, in their
// order, each on a connection of its own (sources/DataSourceEc2.py,
// sources/helpers/ec2.py). Nothing is tried twice: one wrong answer fails the guest.
type crawl struct {
	to      unix.SockaddrInet4
	in      *installation
	sources []*source
	boots   []boot
	done    int
	asked   int
	bad     int
	flaw    string
}

// boot is how far a guest has come.
type boot struct {
	todo  []string // paths; the last is next
	at    string
	token string
	seen  map[string]bool // what it was given of the leaves that tell guests apart
	over  bool
}

const dated = "/2021-03-23"

func newCrawl(sources []*source, in *installation, to unix.SockaddrInet4) *crawl {
	c := &crawl{to: to, in: in, sources: sources, boots: make([]boot, len(sources))}
	for i := range c.boots {
		c.boots[i] = boot{seen: map[string]bool{}, todo: []string{
			dated + "/dynamic/instance-identity", dated + "/meta-data/", dated + "/user-data", dated + "/meta-data/instance-id", tokenPath,
		}}
	}
	return c
}

const (
	tokenPath = "/latest/api/token"
	agent     = "User-Agent: Cloud-Init/22.4.2\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n"
)

func (c *crawl) next(slot int) (request, bool) {
	b := &c.boots[slot]
	if b.over {
		return request{}, false
	}
	if len(b.todo) == 0 {
		b.over = true
		if len(b.seen) != len(telling) {
			c.failed(slot, fmt.Errorf("was never asked for some of %v", telling))
			return request{}, false
		}
		c.done++
		return request{}, false
	}
	b.at, b.todo = b.todo[len(b.todo)-1], b.todo[:len(b.todo)-1]
	c.asked++
	r := request{from: c.sources[slot], to: c.to, fresh: true}
	if b.at == tokenPath {
		r.data = []byte("PUT " + tokenPath + " HTTP/1.1\r\nHost: 169.254.169.254\r\n" + agent +
			"X-aws-ec2-metadata-token-ttl-seconds: 21600\r\nContent-Length: 0\r\n\r\n")
	} else {
		r.data = []byte("GET " + b.at + " HTTP/1.1\r\nHost: 169.254.169.254\r\n" + agent + "X-aws-ec2-metadata-token: " + b.token + "\r\n\r\n")
	}
	return r, true
}

func (c *crawl) answered(slot int, a answer) {
	b := &c.boots[slot]
	if a.status != 200 {
		c.failed(slot, fmt.Errorf("%s: status %d", b.at, a.status))
		return
	}
	switch {
	case b.at == tokenPath:
		b.token = string(a.body)
	case strings.HasSuffix(b.at, "/"):
		b.list(b.at, string(a.body))
	case strings.HasSuffix(b.at, "/dynamic/instance-identity"):
		b.list(b.at+"/", string(a.body))
	default:
		if err := c.check(slot, a.body); err != nil {
			c.failed(slot, err)
		}
	}
}

// list puts what a directory lists in front of what is to do: sub-directories
// first, each with all that is in it, then leaves.
func (b *boot) list(path, body string) {
	var dirs, leaves []string
	for line := range strings.SplitSeq(body, "\n") {
		index, _, key := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "security-credentials"):
		case strings.HasSuffix(line, "/"):
			dirs = append(dirs, path+line)
		case key && strings.Trim(index, "0123456789") == "":
			leaves = append(leaves, path+index+"/openssh-key")
		default:
			leaves = append(leaves, path+line)
		}
	}
	for _, all := range [][]string{leaves, dirs} {
		for i := range all {
			b.todo = append(b.todo, all[len(all)-1-i])
		}
	}
}

// telling are the leaves by which answers are known to be the guest's own.
var telling = []string{"instance-id", "local-hostname", "mac", "local-ipv4", "openssh-key", "user-data", "document"}

func (c *crawl) check(slot int, body []byte) error {
	b, g := &c.boots[slot], c.sources[slot].guest
	name := b.at[strings.LastIndexByte(b.at, '/')+1:]
	var want string
	switch name {
	case "instance-id":
		want = g.ServedID()
	case "local-hostname":
		want = g.Name
	case "mac":
		want = g.NICs[0].MAC.String()
	case "local-ipv4":
		want = g.NICs[0].Addr.String()
	case "openssh-key":
		want = g.SSHKeys[0]
	case "user-data":
		want = string(c.in.blobs[g.UserData.SHA256])
	case "document":
		var d struct{ InstanceID string }
		if err := json.Unmarshal(body, &d); err != nil {
			return fmt.Errorf("%s: %w", b.at, err)
		}
		body, want = []byte(d.InstanceID), g.ServedID()
	default:
		return nil
	}
	if !bytes.Equal(body, []byte(want)) {
		return fmt.Errorf("%s is %.80q, expected %.80q", b.at, body, want)
	}
	b.seen[name] = true
	return nil
}

func (c *crawl) failed(slot int, err error) {
	b := &c.boots[slot]
	b.over, b.todo = true, nil
	c.bad++
	if c.flaw == "" {
		c.flaw = fmt.Sprintf("guest %s: %v", c.sources[slot].guest.Name, err)
	}
}

// storm is the boot of all guests at once.
type storm struct {
	wall                 time.Duration
	guests, asked, wrong int
	flaw                 string
}

// runStorm boots all sources at the same moment, from one thread per processor.
func runStorm(ctx context.Context, sources []*source, in *installation, to unix.SockaddrInet4) (storm, error) {
	threads := runtime.NumCPU()
	crawls := make([]*crawl, threads)
	errs := make([]error, threads)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i := range crawls {
		crawls[i] = newCrawl(sources[i*len(sources)/threads:(i+1)*len(sources)/threads], in, to)
	}
	began := time.Now()
	var wait sync.WaitGroup
	for i, c := range crawls {
		wait.Go(func() { _, errs[i] = play(ctx, c, len(c.sources)) })
	}
	wait.Wait()
	s := storm{wall: time.Since(began)}
	for i, c := range crawls {
		if errs[i] != nil {
			return s, errs[i]
		}
		s.guests, s.asked, s.wrong = s.guests+c.done, s.asked+c.asked, s.wrong+c.bad
		if s.flaw == "" {
			s.flaw = c.flaw
		}
	}
	if s.guests != len(sources) && s.flaw == "" {
		s.flaw = fmt.Sprintf("%d of %d guests did not finish", len(sources)-s.guests, len(sources))
	}
	return s, nil
}
