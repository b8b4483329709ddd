package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/florianl/go-tc"
	"github.com/florianl/go-tc/core"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// The rates of NICs are kept by token buckets (tc-tbf(8)). What a guest receives waits at its interface, and what it sends at
// an interface of the kind ifb, to which all that comes from the guest's is sent first. Packets wait up to a bound, and
// are dropped above it, so that TCP finds the rate.

// shapedPrefix begins the name of the ifb of a guest's interface; the digits of that follow.
const shapedPrefix = "sl"

// shaperHandle is the handle of the token buckets, by which they are known as Seedbed's.
const shaperHandle = 0x5eed

const (
	// shapedDelay is how long packets wait at most, and bucketTime how long a burst lasts at the full rate, in seconds.
	shapedDelay, bucketTime = 0.05, 0.01
	leastBucket             = 16 << 10 // of bytes: more than a packet of the largest MTU
)

// shape is how fast a guest's interface of an index may be, in bytes a second; 0 means no limit. shaper is the index of its ifb.
type shape struct {
	index, shaper uint32
	in, out       uint32
}

func shapedName(tap string) string { return shapedPrefix + strings.TrimPrefix(tap, "sb") }

// shapes returns the shapes of the ports that are there, by tap, without their ifb.
func (p *plan) shapes(links map[string]link) map[string]shape {
	want := map[string]shape{}
	for i := range p.ports {
		t := &p.ports[i]
		if !t.limited() {
			continue
		}
		if l, ok := links[t.name()]; ok && guestLink(l.name) {
			want[l.name] = shape{index: l.index, in: t.in, out: t.out}
		}
	}
	return want
}

func (t port) limited() bool { return t.in != 0 || t.out != 0 }

// least returns the lower of two rates, of which 0 is none, in bytes a second.
func least(a, b seedbed.BitRate) uint32 {
	if a == 0 || b != 0 && b < a {
		a = b
	}
	return uint32(a / 8)
}

func guestLink(name string) bool {
	_, ok := seedbed.NICOfTap(name)
	return ok
}

// kept reports whether an interface has a shape as far as its ifb shows, which may have gone or be down.
func (s shape) kept(want shape, ifb link) bool {
	want.shaper = s.shaper
	return s == want && (s.out == 0 || ifb.index == s.shaper && ifb.up)
}

// ensureShapes gives the interfaces of guests their rates, and takes those of others away, also those of other
// installations if all is set.
func (m *Manager) ensureShapes(rt *route, p *plan, links map[string]link, all bool) error {
	want := p.shapes(links)
	if len(want) == 0 && m.shaped != nil && len(m.shaped) == 0 {
		return nil
	}
	c, err := tc.Open(nil)
	if err != nil {
		return fmt.Errorf("open traffic control: %w", err)
	}
	defer c.Close()
	s := shaper{c, rt, links, p.installation}
	if m.shaped == nil {
		if m.shaped, err = s.found(all); err != nil {
			return err
		}
	}
	var problems []error
	for _, tap := range slices.Sorted(maps.Keys(m.shaped)) {
		if _, ok := want[tap]; ok {
			continue
		}
		if left, err := s.set(tap, m.shaped[tap], shape{index: links[tap].index}); err != nil {
			m.shaped[tap] = left
			problems = append(problems, fmt.Errorf("take the rate of %s away: %w", tap, err))
			continue
		}
		delete(m.shaped, tap)
	}
	for _, tap := range slices.Sorted(maps.Keys(want)) {
		if had, ok := m.shaped[tap]; ok && had.kept(want[tap], links[shapedName(tap)]) {
			continue
		}
		made, err := s.set(tap, m.shaped[tap], want[tap])
		if err != nil {
			problems = append(problems, fmt.Errorf("limit the rate of %s: %w", tap, err))
		}
		m.shaped[tap] = made
	}
	return errors.Join(problems...)
}

// reshape limits the rate of a guest's interface that has just come, or forgets one that went. What is not limited costs
// nothing. l has no index if it went; without a name, it may be any.
func (m *Manager) reshape(l link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied == nil || l.name == "" && len(m.shaped) == 0 {
		return
	}
	// One that failed is tried again by Restore.
	had, ok := m.shaped[l.name]
	if l.name != "" && (ok && had.index == l.index || !ok && (l.index == 0 || !m.applied.limits(l.name))) {
		return
	}
	rt, err := dialRoute()
	if err == nil {
		defer rt.Close()
		var links map[string]link
		if links, err = rt.links(); err == nil {
			err = m.ensureShapes(rt, m.applied, links, false)
		}
	}
	m.noteShapes(err)
}

// noteShapes keeps why rates could not be limited, for Check. The network is applied nevertheless: it is tried again.
func (m *Manager) noteShapes(err error) {
	if err != nil {
		m.once(err.Error(), "rates of guests' interfaces could not be limited; trying again", "err", err)
	}
	m.unshaped = err
}

// limits reports whether an interface is that of a port whose rate is limited.
func (p *plan) limits(name string) bool {
	i, ok := slices.BinarySearchFunc(p.ports, port{tap: [16]byte(ifname(name))}, byTap)
	return ok && p.ports[i].limited()
}

// sizeofTcMsg is the size of struct tcmsg of linux/rtnetlink.h: the family, the interface, the handle, the parent and more.
const sizeofTcMsg = 20

// shaper changes the traffic control of a node.
type shaper struct {
	tc           *tc.Tc
	rt           *route
	links        map[string]link
	installation string
}

// found returns the shapes that the interfaces of guests have, by name, which an earlier process may have made: those of this
// installation, or all.
func (s shaper) found(all bool) (map[string]shape, error) {
	msgs, err := s.rt.nl.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETQDISC, Flags: netlink.Request | netlink.Dump},
		Data: make([]byte, sizeofTcMsg)})
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	rates := map[uint32]uint32{} // of token buckets of ours, by interface
	for _, m := range msgs {
		if len(m.Data) >= sizeofTcMsg && binary.NativeEndian.Uint32(m.Data[8:]) == core.BuildHandle(shaperHandle, 0) {
			rates[binary.NativeEndian.Uint32(m.Data[4:])] = bucketRate(m.Data[sizeofTcMsg:])
		}
	}
	shapes := map[string]shape{}
	for name, l := range s.links {
		switch tap := "sb" + strings.TrimPrefix(name, shapedPrefix); {
		case l.ofShaper() && (all || l.alias == "" || l.alias == s.alias(name)):
			had := shapes[tap]
			had.index, had.shaper = s.links[tap].index, l.index
			if l.alias != "" { // it was finished
				had.out = rates[l.index]
			}
			shapes[tap] = had
		case guestLink(name) && rates[l.index] != 0:
			had := shapes[name]
			had.index, had.in = l.index, rates[l.index]
			shapes[name] = had
		}
	}
	return shapes, nil
}

// bucketRate returns the rate of a token bucket in bytes a second, from its attributes.
func bucketRate(attrs []byte) (rate uint32) {
	const options, parms, at = 2, 1, 8 // TCA_OPTIONS, TCA_TBF_PARMS, and the rate in struct tc_tbf_qopt of linux/pkt_sched.h
	ad, err := netlink.NewAttributeDecoder(attrs)
	if err != nil {
		return 0
	}
	for ad.Next() {
		if ad.Type() == options {
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					if b := ad.Bytes(); ad.Type() == parms && len(b) >= at+4 {
						rate = binary.NativeEndian.Uint32(b[at:])
					}
				}
				return nil
			})
		}
	}
	return rate
}

// ofShaper reports whether l is an ifb that Apply makes. One without an alias is not finished.
func (l link) ofShaper() bool {
	return l.kind == "ifb" && strings.HasPrefix(l.name, shapedPrefix) && guestLink("sb"+strings.TrimPrefix(l.name, shapedPrefix)) &&
		(l.alias == "" || strings.HasPrefix(l.alias, aliasPrefix))
}

func (s shaper) alias(name string) string { return aliasPrefix + name + markBefore + s.installation }

// absent reports whether an error says that there is nothing to delete: no such discipline, or the kernel's own.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV)
}

func rootOf(l link) tc.Msg {
	return tc.Msg{Family: unix.AF_UNSPEC, Ifindex: l.index, Handle: core.BuildHandle(shaperHandle, 0), Parent: tc.HandleRoot}
}

func ingressOf(l link) tc.Msg {
	return tc.Msg{Family: unix.AF_UNSPEC, Ifindex: l.index, Handle: core.BuildHandle(0xffff, 0), Parent: tc.HandleIngress}
}

// set gives a guest's interface, which may be gone, another shape than it has, and returns the one that it then has.
func (s shaper) set(tap string, has, to shape) (shape, error) {
	l, there := s.links[tap]
	if has.index != to.index { // it is another one, without limits
		has.index, has.in = to.index, 0
	}
	if there && has.in != to.in {
		if err := s.limit(l, to.in); err != nil {
			return has, err
		}
	}
	has.in = to.in
	at, made := s.links[shapedName(tap)]
	if made && at.ofShaper() && at.up && at.index == has.shaper && there && has.out != 0 && to.out != 0 {
		if has.out != to.out {
			if err := s.limit(at, to.out); err != nil {
				return has, err
			}
		}
		has.out = to.out
		return has, nil
	}
	if has.shaper != 0 || made {
		if err := s.collect(tap); err != nil {
			return has, err
		}
		has.shaper, has.out = 0, 0
	}
	if to.out == 0 || !there {
		return has, nil
	}
	at, err := s.divertTo(l, shapedName(tap), to.out)
	if err != nil {
		return has, err
	}
	has.shaper, has.out = at.index, to.out
	return has, nil
}

// collect removes the ifb of a guest's interface, and what diverts to it.
func (s shaper) collect(tap string) error {
	// Without its alias it is not finished, so that a process that ends here does not leave one that looks as if it kept a rate.
	if l, ok := s.links[shapedName(tap)]; ok && l.ofShaper() && l.alias != "" {
		if err := s.rt.setAlias(l, ""); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	if l, ok := s.links[tap]; ok {
		err := s.tc.Qdisc().Delete(&tc.Object{Msg: ingressOf(l), Attribute: tc.Attribute{Kind: "ingress"}})
		if err != nil && !absent(err) {
			return err
		}
	}
	l, ok := s.links[shapedName(tap)]
	if !ok || !l.ofShaper() {
		return nil
	}
	if err := s.rt.deleteLink(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	delete(s.links, l.name)
	return nil
}

// divertTo makes an ifb of a rate, and sends what comes in by an interface through it. The alias of the ifb says that all is
// done.
func (s shaper) divertTo(l link, name string, rate uint32) (link, error) {
	at, err := s.rt.createIFB(name)
	if errors.Is(err, unix.EEXIST) {
		return at, seedbed.Errorf(seedbed.ErrConflict, "interface %s exists and was not made by Seedbed: remove it", name)
	}
	if err != nil {
		return at, fmt.Errorf("make %s: %w (the kernel needs the module ifb)", name, err)
	}
	s.links[name] = at
	if err := s.limit(at, rate); err != nil {
		return at, err
	}
	if err := s.rt.setUp(at); err != nil {
		return at, fmt.Errorf("bring %s up: %w", name, err)
	}
	err = s.tc.Qdisc().Add(&tc.Object{Msg: ingressOf(l), Attribute: tc.Attribute{Kind: "ingress"}})
	if err != nil {
		return at, fmt.Errorf("add the discipline ingress: %w (there may be another's)", err)
	}
	if err := s.divert(l, at); err != nil {
		return at, err
	}
	if at.alias = s.alias(name); s.rt.setAlias(at, at.alias) != nil {
		return at, fmt.Errorf("set the alias of %s", name)
	}
	at.up = true
	s.links[name] = at
	return at, nil
}

// limit gives an interface a token bucket of a rate, in place of another, or none.
func (s shaper) limit(l link, rate uint32) error {
	if rate != 0 {
		return s.bucket(l, rate)
	}
	err := s.tc.Qdisc().Delete(&tc.Object{Msg: rootOf(l), Attribute: tc.Attribute{Kind: "tbf", Tbf: &tc.Tbf{Parms: &tc.TbfQopt{}}}})
	if err != nil && !absent(err) {
		return fmt.Errorf("remove the discipline tbf: %w", err)
	}
	return nil
}

// bucket makes the token bucket of a rate at an interface.
func (s shaper) bucket(l link, rate uint32) error {
	burst := uint32(max(float64(rate)*bucketTime, leastBucket))
	queue := uint32(max(float64(rate)*shapedDelay, float64(2*burst)))
	err := s.tc.Qdisc().Replace(&tc.Object{Msg: rootOf(l), Attribute: tc.Attribute{Kind: "tbf", Tbf: &tc.Tbf{
		Parms: &tc.TbfQopt{Rate: tc.RateSpec{Rate: rate, Linklayer: 1}, Limit: queue, Buffer: burst},
		Burst: &burst,
	}}})
	if err != nil {
		return fmt.Errorf("add the discipline tbf to %s: %w (the kernel needs the module sch_tbf)", l.name, err)
	}
	return nil
}

// divert sends what comes in by an interface through another first: a filter that matches every packet.
func (s shaper) divert(from, through link) error {
	const stolen, redirect, terminal = 4, 1, 1 // TC_ACT_STOLEN, TCA_EGRESS_REDIR and TC_U32_TERMINAL of linux/pkt_cls.h
	anyProtocols := uint32(binary.NativeEndian.Uint16(be16(unix.ETH_P_ALL)))
	msg := tc.Msg{Family: unix.AF_UNSPEC, Ifindex: from.index, Parent: core.BuildHandle(0xffff, 0), Info: 1<<16 | anyProtocols}
	err := s.tc.Filter().Add(&tc.Object{Msg: msg, Attribute: tc.Attribute{Kind: "u32", U32: &tc.U32{
		Sel: &tc.U32Sel{Flags: terminal, NKeys: 1, Keys: []tc.U32Key{{}}},
		Actions: &[]*tc.Action{{Kind: "mirred", Mirred: &tc.Mirred{
			Parms: &tc.MirredParam{Action: stolen, Eaction: redirect, IfIndex: through.index}}}},
	}}})
	if err != nil {
		return fmt.Errorf("divert what comes by %s: %w (the kernel needs the modules cls_u32 and act_mirred)", from.name, err)
	}
	return nil
}

// createIFB makes an interface that passes on to the node what is sent to it, as if it came where it did.
func (r *route) createIFB(name string) (link, error) {
	if err := r.create(name, "ifb", nil, nil); err != nil {
		return link{}, err
	}
	return r.linkNamed(name)
}
