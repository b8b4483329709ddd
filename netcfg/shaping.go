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
	leastBucket             = 64 << 10 // of bytes: one packet as TCP hands it to the interface
)

// shape is how fast a guest's interface may be, on the interface of an index.
type shape struct {
	index   uint32
	in, out seedbed.BitRate
}

func shapedName(tap string) string { return shapedPrefix + strings.TrimPrefix(tap, "sb") }

// shapes returns the shapes of the ports that are there, by tap. Interfaces of other names than guests' have none.
func (p *plan) shapes(links map[string]link) map[string]shape {
	if !slices.ContainsFunc(p.networks, limited) {
		return nil
	}
	want := map[string]shape{}
	for i := range p.ports {
		t := &p.ports[i]
		n := &p.networks[t.network]
		if l, ok := links[t.name()]; ok && limited(*n) && strings.HasPrefix(l.name, "sb") {
			want[l.name] = shape{l.index, n.BandwidthIn, n.BandwidthOut}
		}
	}
	return want
}

func limited(n seedbed.Network) bool { return n.BandwidthIn != 0 || n.BandwidthOut != 0 }

// ensureShapes gives the interfaces of guests the rates of their networks, and takes those of others away.
func (m *Manager) ensureShapes(rt *route, p *plan, links map[string]link) error {
	want := p.shapes(links)
	if len(want) == 0 && m.shaped != nil && len(m.shaped) == 0 {
		return nil
	}
	c, err := tc.Open(nil)
	if err != nil {
		return fmt.Errorf("open traffic control: %w", err)
	}
	defer c.Close()
	s := shaper{c, rt, links}
	if m.shaped == nil {
		if m.shaped, err = s.found(); err != nil {
			return err
		}
	}
	var problems []error
	for _, tap := range slices.Sorted(maps.Keys(m.shaped)) {
		if _, ok := want[tap]; ok {
			continue
		}
		if err := s.clear(tap); err != nil {
			problems = append(problems, fmt.Errorf("take the rate of %s away: %w", tap, err))
			continue
		}
		delete(m.shaped, tap)
	}
	for _, tap := range slices.Sorted(maps.Keys(want)) {
		if m.shaped[tap] == want[tap] {
			continue
		}
		delete(m.shaped, tap)
		if err := s.set(tap, want[tap]); err != nil {
			problems = append(problems, fmt.Errorf("limit the rate of %s: %w", tap, err))
			m.shaped[tap] = shape{} // to be set again, or cleared
			continue
		}
		m.shaped[tap] = want[tap]
	}
	return errors.Join(problems...)
}

// reshape limits the rate of a guest's interface that has just come, or forgets one that went. What is not limited costs
// nothing. l has no index if it went; without a name, it may be any.
func (m *Manager) reshape(l link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied == nil || !slices.ContainsFunc(m.applied.networks, limited) {
		return
	}
	had, ok := m.shaped[l.name]
	if l.name != "" && (ok && had.index == l.index || !ok && (l.index == 0 || !m.applied.limits(l.name))) {
		return
	}
	rt, err := dialRoute()
	if err == nil {
		defer rt.Close()
		var links map[string]link
		if links, err = rt.links(); err == nil {
			err = m.ensureShapes(rt, m.applied, links)
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
	return ok && limited(p.networks[p.ports[i].network])
}

// sizeofTcMsg is the size of struct tcmsg of linux/rtnetlink.h: the family, the interface, the handle, the parent and more.
const sizeofTcMsg = 20

// shaper changes the traffic control of a node.
type shaper struct {
	tc    *tc.Tc
	rt    *route
	links map[string]link
}

// found returns the interfaces of guests that an earlier process limited, with unknown rates.
func (s shaper) found() (map[string]shape, error) {
	all := map[string]shape{}
	for name, l := range s.links {
		if l.ofShaper() {
			all["sb"+strings.TrimPrefix(name, shapedPrefix)] = shape{}
		}
	}
	names := map[uint32]string{}
	for name, l := range s.links {
		names[l.index] = name
	}
	msgs, err := s.rt.nl.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETQDISC, Flags: netlink.Request | netlink.Dump},
		Data: make([]byte, sizeofTcMsg)})
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	for _, m := range msgs {
		if len(m.Data) < sizeofTcMsg {
			continue
		}
		name, handle := names[binary.NativeEndian.Uint32(m.Data[4:])], binary.NativeEndian.Uint32(m.Data[8:])
		if handle == core.BuildHandle(shaperHandle, 0) && strings.HasPrefix(name, "sb") {
			all[name] = shape{}
		}
	}
	return all, nil
}

// ofShaper reports whether l is an ifb that Apply makes.
func (l link) ofShaper() bool {
	return l.kind == "ifb" && strings.HasPrefix(l.name, shapedPrefix) && l.alias == aliasPrefix+l.name
}

// clear takes the rate of a guest's interface away, which may be gone.
func (s shaper) clear(tap string) error {
	if l, ok := s.links[tap]; ok {
		for _, d := range []tc.Object{
			{Msg: rootOf(l), Attribute: tc.Attribute{Kind: "tbf", Tbf: &tc.Tbf{Parms: &tc.TbfQopt{}}}},
			{Msg: ingressOf(l), Attribute: tc.Attribute{Kind: "ingress"}},
		} {
			if err := s.tc.Qdisc().Delete(&d); err != nil && !absent(err) {
				return err
			}
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

// set gives a guest's interface its rates, in place of former ones.
func (s shaper) set(tap string, to shape) error {
	if err := s.clear(tap); err != nil {
		return err
	}
	l := s.links[tap]
	if to.in != 0 {
		if err := s.bucket(l, to.in); err != nil {
			return err
		}
	}
	if to.out == 0 {
		return nil
	}
	at, err := s.rt.createIFB(shapedName(tap))
	if err != nil {
		return fmt.Errorf("make %s: %w (the kernel needs the module ifb)", shapedName(tap), err)
	}
	s.links[at.name] = at
	if err := s.bucket(at, to.out); err != nil {
		return err
	}
	if err := s.rt.setUp(at); err != nil {
		return fmt.Errorf("bring %s up: %w", at.name, err)
	}
	ingress := tc.Object{Msg: ingressOf(l), Attribute: tc.Attribute{Kind: "ingress"}}
	if err := s.tc.Qdisc().Replace(&ingress); err != nil {
		return fmt.Errorf("add the discipline ingress: %w", err)
	}
	return s.divert(l, at)
}

// bucket makes the token bucket of a rate at an interface.
func (s shaper) bucket(l link, rate seedbed.BitRate) error {
	bytes := float64(rate) / 8
	burst := uint32(max(bytes*bucketTime, leastBucket))
	err := s.tc.Qdisc().Replace(&tc.Object{Msg: rootOf(l), Attribute: tc.Attribute{Kind: "tbf", Tbf: &tc.Tbf{
		Parms: &tc.TbfQopt{Rate: tc.RateSpec{Rate: uint32(bytes), Linklayer: 1}, Limit: uint32(bytes*shapedDelay) + burst, Buffer: burst},
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
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	ae.String(unix.IFLA_IFALIAS, aliasPrefix+name)
	ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.IFLA_INFO_KIND, "ifb")
		return nil
	})
	if _, err := r.link(unix.RTM_NEWLINK, netlink.Create|netlink.Excl|netlink.Acknowledge, link{}, 0, ae); err != nil {
		return link{}, err
	}
	ae = netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	msgs, err := r.link(unix.RTM_GETLINK, 0, link{}, 0, ae)
	if err != nil || len(msgs) == 0 {
		return link{}, errors.Join(err, errors.New("it vanished"))
	}
	l, err := parseLink(msgs[0].Data)
	if err == nil && l.alias != aliasPrefix+name {
		l.alias = aliasPrefix + name
		err = r.setAlias(l, l.alias)
	}
	return l, err
}
