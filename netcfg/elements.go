package netcfg

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/nftables"
)

// digest identifies the elements of all sets of all tables. The kernel stores it in the comment of
// a rule that is written in the same batch, so listing that one rule shows whether the elements are
// as desired.
func (p *plan) digest() string {
	if p.sum != "" {
		return p.sum
	}
	h := sha256.New()
	for _, n := range p.networks {
		fmt.Fprintf(h, "network %s %s %v %s %t %t %s %v %v %d %s %s %v %v\n", n.Bridge, n.MAC, n.Allow, n.Kind, n.NAT, n.DHCP, n.Prefix, n.DNS,
			n.NTP, n.VNI, n.Prefix6, n.Name, n.Peers, n.Reserved6())
	}
	for _, b := range p.closed {
		fmt.Fprintf(h, "closed %s\n", b)
	}
	for _, b := range slices.Sorted(maps.Keys(p.uplinks)) {
		fmt.Fprintf(h, "uplink %s %s %s\n", b, p.uplinks[b].port, p.uplinks[b].made)
	}
	fmt.Fprintf(h, "nodes %s %v\n", p.receives, p.nodes)
	for _, f := range p.forwards {
		fmt.Fprintf(h, "forward %s %d %d %s %s %d %s\n", f.addr, f.protocol, f.port, f.bridge, f.to, f.toPort, f.tap)
	}
	fmt.Fprint(h, p.groups.digest())
	var b []byte
	for i := range p.ports {
		t := &p.ports[i]
		b = append(append(append(b[:0], t.tap[:]...), t.mac[:]...), t.addr[:]...)
		b = binary.LittleEndian.AppendUint32(b, t.mark)
		b = binary.LittleEndian.AppendUint32(b, uint32(t.network))
		b = binary.LittleEndian.AppendUint32(b, t.class)
		h.Write(b)
	}
	for _, s := range p.secondaries {
		fmt.Fprintf(h, "secondary %s %d %s\n", s.tap, s.network, s.addr)
	}
	for _, q := range p.peers {
		fmt.Fprintf(h, "peer %s %d %s %s\n", q.mac, q.class, q.bridge, q.addr)
	}
	p.sum = hex.EncodeToString(h.Sum(nil)[:12])
	return p.sum
}

// each calls fn with every element of the set: those of ports by tap, then those of further addresses, then those of peers by
// MAC. Only the rules fill a set with a size.
func (s *set) each(p *plan, fn func(key, value string)) {
	if s.fixed != nil {
		s.fixed(p, fn)
	}
	eachOf(p, p.ports, s.of, fn)
	eachOf(p, p.secondaries, s.secondary, fn)
	eachOf(p, p.peers, s.peer, fn)
}

func eachOf[T any](p *plan, all []T, of func(*plan, *T) (key, value string, ok bool), fn func(key, value string)) {
	if of == nil {
		return
	}
	for i := range all {
		if key, value, ok := of(p, &all[i]); ok {
			fn(key, value)
		}
	}
}

// change is what to remove from a set and then what to add to it. A key whose value changes is in
// both.
type change struct {
	of          *set
	gone, added []nftables.SetElement
}

func (c *change) take(key, value string) { c.gone = append(c.gone, c.of.element(key, value)) }
func (c *change) add(key, value string)  { c.added = append(c.added, c.of.element(key, value)) }

// keep leaves in the set what the plan still has from another port or peer.
func (c *change) keep(p *plan) {
	still := map[string]bool{}
	for _, e := range c.gone {
		still[string(e.Key)] = false
	}
	c.of.each(p, func(key, _ string) {
		if _, ok := still[key]; ok {
			still[key] = true
		}
	})
	c.gone = slices.DeleteFunc(c.gone, func(e nftables.SetElement) bool { return still[string(e.Key)] })
}

func (s *set) element(key, value string) nftables.SetElement {
	if s.interval {
		return nftables.SetElement{Key: []byte(key), KeyEnd: []byte(value)}
	}
	return nftables.SetElement{Key: []byte(key), Val: []byte(value)}
}

// valueOf is the opposite of element.
func (s *set) valueOf(e nftables.SetElement) string {
	if s.interval {
		return string(e.KeyEnd)
	}
	return string(e.Val)
}

// between returns the difference between the elements of a set in two plans. It does not query the
// kernel.
func (s *set) between(before, after *plan) change {
	c := change{of: s}
	alike := reflect.DeepEqual(before.networks, after.networks) && maps.Equal(before.groups.numbers, after.groups.numbers) &&
		slices.Equal(before.nodes, after.nodes)
	if s.fixed != nil {
		if alike && before.groups.digest() == after.groups.digest() && slices.Equal(before.closed, after.closed) &&
			maps.Equal(before.uplinks, after.uplinks) && slices.Equal(before.receives, after.receives) &&
			slices.Equal(before.forwards, after.forwards) {
			return c
		}
		have := map[string]string{}
		s.each(before, func(k, v string) { have[k] = v })
		return s.against(after, have)
	}
	differ(&c, both[port]{before, after, before.ports, after.ports, alike}, byTap, s.of)
	differ(&c, both[secondary]{before, after, before.secondaries, after.secondaries, alike}, bySecondary, s.secondary)
	differ(&c, both[peer]{before, after, before.peers, after.peers, alike && maps.Equal(before.uplinks, after.uplinks)}, byMAC, s.peer)
	if s.shared && len(c.gone) > 0 {
		c.keep(after)
	}
	return c
}

// both are the ports or peers of two plans.
type both[T comparable] struct {
	before, after *plan
	a, b          []T
	// alike is whether equal ones have equal elements.
	alike bool
}

// differ adds the difference between the elements of two sorted lists.
func differ[T comparable](c *change, p both[T], by func(a, b T) int, of func(*plan, *T) (key, value string, ok bool)) {
	if of == nil {
		return
	}
	a, b := p.a, p.b
	for len(a) > 0 || len(b) > 0 {
		if p.alike && len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
			continue
		}
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = by(a[0], b[0])
		}
		var oldKey, oldValue, newKey, newValue string
		var had, has bool
		if order <= 0 {
			oldKey, oldValue, had = of(p.before, &a[0])
			a = a[1:]
		}
		if order >= 0 {
			newKey, newValue, has = of(p.after, &b[0])
			b = b[1:]
		}
		if had && has && oldKey == newKey && oldValue == newValue {
			continue
		}
		if had {
			c.take(oldKey, oldValue)
		}
		if has {
			c.add(newKey, newValue)
		}
	}
}

// against returns the difference between the elements in the kernel and those of the plan.
func (s *set) against(p *plan, have map[string]string) change {
	c := change{of: s}
	kept := 0
	s.each(p, func(key, value string) {
		v, ok := have[key]
		if ok && v == value {
			kept++
			return
		}
		c.add(key, value)
	})
	if kept == len(have) {
		return c
	}
	want := make(map[string]string, len(have))
	s.each(p, func(key, value string) { want[key] = value })
	for key, value := range have {
		if w, ok := want[key]; !ok || w != value {
			c.take(key, value)
		}
	}
	return c
}
