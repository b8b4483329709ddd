//go:build integration && libvirt

package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// What libvirt's remote protocol calls its messages and the definition of a domain
// (src/remote/remote_protocol.x, src/rpc/virnetprotocol.x).
const (
	rpcCall, rpcReply  = 0, 1
	rpcDomainDefineXML = 11
	rpcHeader          = 4 + 6*4 // the length, then program, version, procedure, type, serial and status
)

// eavesdropper stands between a worker and its libvirtd, and knows when a domain is defined.
type eavesdropper struct {
	path, libvirt string
	// strike is called once, in place of passing on a definition (rpcCall), or the answer to one (rpcReply).
	strike atomic.Pointer[func()]
	at     atomic.Uint32
}

// eavesdrop serves until the test is over.
func eavesdrop(t *testing.T, h *lab.Host) *eavesdropper {
	t.Helper()
	p := &eavesdropper{path: filepath.Join(h.Dir, "libvirt-sock"), libvirt: h.Path("/run/libvirt/libvirt-sock")}
	ln, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go p.join(client)
		}
	}()
	return p
}

func (p *eavesdropper) uri() string {
	return "qemu+unix:///system?socket=" + url.QueryEscape(p.path)
}

// on has strike called at the next definition.
func (p *eavesdropper) on(message uint32, strike func()) {
	p.at.Store(message)
	p.strike.Store(&strike)
}

func (p *eavesdropper) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.libvirt)
	if err != nil {
		return
	}
	defer server.Close()
	go p.pass(client, server)
	p.pass(server, client)
}

// pass passes messages on until one end closes, or it strikes.
func (p *eavesdropper) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	header := make([]byte, rpcHeader)
	for {
		if _, err := io.ReadFull(from, header); err != nil {
			return
		}
		word := func(n int) uint32 { return binary.BigEndian.Uint32(header[4*n:]) }
		if word(3) == rpcDomainDefineXML && word(4) == p.at.Load() {
			if strike := p.strike.Swap(nil); strike != nil {
				(*strike)()
				return
			}
		}
		if _, err := to.Write(header); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(word(0))-rpcHeader); err != nil {
			return
		}
	}
}

// lasting is section jobs of a stack whose seedbedd is not killed: its lease does not end on a busy
// computer, so that a job stays in its first epoch.
const lasting = "{lease: 1m, poll: 50ms}"

// TestLibvirtdDies kills libvirtd while it is asked to define a domain, once
// before it has heard of it and once when it has done it and nobody knows: the
// job waits for another libvirtd and goes on from what is there, and events come again.
func TestLibvirtdDies(t *testing.T) {
	beside(t)
	h := lab.NewHost(t)
	libvirtd := h.Libvirt()
	ear := eavesdrop(t, h)
	s := lab.NewStack(t, lab.StackOptions{Host: h, URI: ear.uri(), Jobs: lasting})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted})
	for _, c := range []struct {
		name    string
		message uint32
		defined bool
	}{{"before", rpcCall, false}, {"after", rpcReply, true}} {
		t.Run(c.name, func(t *testing.T) {
			died := make(chan struct{})
			ear.on(c.message, func() { libvirtd.Kill(); close(died) })
			receipt, err := s.API.CreateInstance(t.Context(), seedbed.Request{Name: c.name, Profile: "small"})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-died:
			case <-time.After(lab.Patience):
				t.Fatal("no domain was defined")
			}
			if _, err := s.Try("test", "-e", "/etc/libvirt/qemu/"+c.name+".xml"); (err == nil) != c.defined {
				t.Fatalf("libvirtd had defined the domain: %v, want %v", err == nil, c.defined)
			}
			awaitHistory(t, s, string(receipt.Job), "trying again")
			libvirtd = h.Libvirt()
			job := waitJob(t, s, string(receipt.Job))
			if job.State != seedbed.JobSucceeded || job.Epoch != 1 {
				t.Fatalf("%s in epoch %d: %s", job.State, job.Epoch, job.Error)
			}
			vm, err := s.API.Instance(t.Context(), c.name)
			if err != nil {
				t.Fatal(err)
			}
			if d := s.Domains(); len(d) != 1 || s.Virsh("domuuid", c.name) != string(vm.ID) || len(volumes(t, s)) != 1 {
				t.Errorf("domains %v and volumes %v, want those of %s", d, volumes(t, s), vm.ID)
			}
			s.Virsh("destroy", c.name)
			lab.Await(t, 45*time.Second, "an event tells that the domain is off, before the inventory of each minute", func() bool {
				vm, err := s.API.Instance(t.Context(), c.name)
				return err == nil && vm.State == seedbed.InstanceStopped
			})
			removeInstance(t, s, c.name)
			nothingLeft(t, s, c.name)
		})
	}
}
