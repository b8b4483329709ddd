package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// route is a pair of rtnetlink sockets. Links are read and written here rather than with the
// rtnetlink package, which cannot set an alias and refuses statistics of a length it does not know.
type route struct {
	nl *netlink.Conn
	rt *rtnetlink.Conn
	// known is what entries returned at its first call.
	known func() (map[uint32][]entry, error)
	// daemon is whether entries leaves out those of another program.
	daemon bool
}

func dialRoute() (*route, error) {
	nl, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	rt, err := rtnetlink.Dial(nil)
	if err != nil {
		nl.Close()
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	r := &route{nl: nl, rt: rt}
	r.known = sync.OnceValues(r.entries)
	return r, nil
}

func (r *route) Close() {
	r.nl.Close()
	r.rt.Close()
}

// link is what this package needs to know about a network interface.
type link struct {
	index  uint32
	name   string
	alias  string
	kind   string // "bridge", "veth", "tun", …; empty for hardware
	mac    seedbed.MAC
	master uint32 // index of the bridge or bond that it is a port of; 0 for none
	up     bool
	mtu    int
	parent uint32 // index of the interface that a VLAN or a macvlan is on; 0 if that is in another namespace
	vlan   int    // the tag of a VLAN
	// learnsPast is whether a bridge learns the senders of frames to link-local group addresses, which
	// reach the node past the bridge table.
	learnsPast bool
	vxlan      vxlan
	port       quietPort // of a bridge
	// conf4 and conf6 are the sysctls of a bridge: the elements of net/ipv4/conf and net/ipv6/conf.
	conf4, conf6 devConf
}

// links returns the interfaces of the namespace by name.
func (r *route) links() (map[string]link, error) { return r.linksOf("") }

// linksOf returns the interfaces of a kind, by name; all for none.
func (r *route) linksOf(kind string) (map[string]link, error) {
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.IFLA_EXT_MASK, rtextFilterSkipStats)
	if kind != "" {
		ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.IFLA_INFO_KIND, kind)
			return nil
		})
	}
	msgs, err := r.link(unix.RTM_GETLINK, netlink.Dump, link{}, 0, ae)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make(map[string]link, len(msgs))
	for _, m := range msgs {
		l, err := parseLink(m.Data)
		if err != nil {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
		out[l.name] = l
	}
	return out, nil
}

// rtextFilterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h.
const rtextFilterSkipStats = 1 << 3

// createBridge creates a bridge that is down and does not run the spanning tree protocol. It names it at once: without its
// alias, nothing tells whose it is.
func (r *route) createBridge(name string, mac seedbed.MAC, alias string) error {
	err := r.create(name, "bridge", bridgeData, func(ae *netlink.AttributeEncoder) { ae.Bytes(unix.IFLA_ADDRESS, mac[:]) })
	if err != nil {
		return err
	}
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name) // its index is not known yet
	ae.String(unix.IFLA_IFALIAS, alias)
	return r.set(link{}, 0, ae)
}

// linkNamed returns an interface that was just made.
func (r *route) linkNamed(name string) (link, error) {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	return r.oneLink(link{}, ae)
}

// linkAt returns the interface with an index.
func (r *route) linkAt(index uint32) (link, error) { return r.oneLink(link{index: index}, nil) }

func (r *route) oneLink(l link, ae *netlink.AttributeEncoder) (link, error) {
	msgs, err := r.link(unix.RTM_GETLINK, 0, l, 0, ae)
	if err != nil || len(msgs) == 0 {
		return link{}, errors.Join(err, errors.New("it vanished"))
	}
	return parseLink(msgs[0].Data)
}

// create makes a link of a kind, with what is particular to the kind and other attributes; either may be nil.
func (r *route) create(
	name, kind string, data func(*netlink.AttributeEncoder) error, others func(*netlink.AttributeEncoder),
) error {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	if others != nil {
		others(ae)
	}
	ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.IFLA_INFO_KIND, kind)
		if data != nil {
			ae.Nested(unix.IFLA_INFO_DATA, data)
		}
		return nil
	})
	_, err := r.link(unix.RTM_NEWLINK, netlink.Create|netlink.Excl|netlink.Acknowledge, link{}, 0, ae)
	return err
}

func bridgeData(ae *netlink.AttributeEncoder) error {
	ae.Uint32(unix.IFLA_BR_STP_STATE, 0)
	ae.Uint32(unix.IFLA_BR_FORWARD_DELAY, 0)
	return learnNothingPast(ae)
}

// noLinkLocalLearn is BR_BOOLOPT_NO_LL_LEARN of linux/if_bridge.h, as a bit.
const noLinkLocalLearn = 1 << 0

// learnNothingPast adds the option no_linklocal_learn: struct br_boolopt_multi with value and mask.
func learnNothingPast(ae *netlink.AttributeEncoder) error {
	b := binary.NativeEndian.AppendUint32(nil, noLinkLocalLearn)
	ae.Bytes(unix.IFLA_BR_MULTI_BOOLOPT, binary.NativeEndian.AppendUint32(b, noLinkLocalLearn))
	return nil
}

func (r *route) setLearnNothingPast(l link) error {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
		ae.String(unix.IFLA_INFO_KIND, "bridge")
		ae.Nested(unix.IFLA_INFO_DATA, learnNothingPast)
		return nil
	})
	return r.set(l, 0, ae)
}

func (r *route) setAlias(l link, alias string) error {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFALIAS, alias)
	return r.set(l, 0, ae)
}

func (r *route) setMTU(l link, mtu int) error {
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.IFLA_MTU, uint32(mtu))
	return r.set(l, 0, ae)
}

func (r *route) setUp(l link) error { return r.set(l, unix.IFF_UP, nil) }

func (r *route) setMaster(l link, master uint32) error {
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.IFLA_MASTER, master)
	return r.set(l, 0, ae)
}

func (r *route) set(l link, flags uint32, ae *netlink.AttributeEncoder) error {
	_, err := r.link(unix.RTM_NEWLINK, netlink.Acknowledge, l, flags, ae)
	return err
}

func (r *route) deleteLink(l link) error {
	_, err := r.link(unix.RTM_DELLINK, netlink.Acknowledge, l, 0, nil)
	return err
}

// link sends one link message; flags are the interface flags to set.
func (r *route) link(typ netlink.HeaderType, hf netlink.HeaderFlags, l link, flags uint32,
	ae *netlink.AttributeEncoder) ([]netlink.Message, error) {
	b := make([]byte, unix.SizeofIfInfomsg) // struct ifinfomsg
	binary.NativeEndian.PutUint32(b[4:], l.index)
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], flags)
	if ae != nil {
		attrs, err := ae.Encode()
		if err != nil {
			return nil, err
		}
		b = append(b, attrs...)
	}
	return r.nl.Execute(netlink.Message{Header: netlink.Header{Type: typ, Flags: netlink.Request | hf}, Data: b})
}

func parseLink(b []byte) (link, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return link{}, fmt.Errorf("link message of %d bytes is too short", len(b))
	}
	l := link{index: binary.NativeEndian.Uint32(b[4:]), up: binary.NativeEndian.Uint32(b[8:])&unix.IFF_UP != 0}
	ad, err := netlink.NewAttributeDecoder(b[unix.SizeofIfInfomsg:])
	if err != nil {
		return link{}, err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			l.name = ad.String()
		case unix.IFLA_IFALIAS:
			l.alias = ad.String()
		case unix.IFLA_ADDRESS:
			if a := ad.Bytes(); len(a) == len(l.mac) {
				l.mac = seedbed.MAC(a)
			}
		case unix.IFLA_MTU:
			l.mtu = int(ad.Uint32())
		case unix.IFLA_LINK:
			l.parent = ad.Uint32()
		case unix.IFLA_LINK_NETNSID: // it comes later
			l.parent = 0
		case unix.IFLA_MASTER:
			l.master = ad.Uint32()
		case unix.IFLA_LINKINFO:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					switch {
					case ad.Type() == unix.IFLA_INFO_KIND:
						l.kind = ad.String()
					case ad.Type() == unix.IFLA_INFO_DATA && l.kind == "bridge": // the kind comes first
						ad.Nested(l.parseBridge)
					case ad.Type() == unix.IFLA_INFO_DATA && l.kind == madeVLAN:
						ad.Nested(l.parseVLAN)
					case ad.Type() == unix.IFLA_INFO_DATA && l.kind == madeVXLAN:
						ad.Nested(l.parseVXLAN)
					case ad.Type() == unix.IFLA_INFO_SLAVE_DATA && l.kind == madeVXLAN:
						ad.Nested(l.parsePort)
					}
				}
				return nil
			})
		case unix.IFLA_AF_SPEC:
			if l.kind == "bridge" { // the kind comes first
				ad.Nested(l.parseFamilies)
			}
		}
	}
	return l, ad.Err()
}

func (l *link) parseFamilies(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case unix.AF_INET:
			ad.Nested(parseConf(unix.IFLA_INET_CONF, &l.conf4))
		case unix.AF_INET6:
			ad.Nested(parseConf(unix.IFLA_INET6_CONF, &l.conf6))
		}
	}
	return nil
}

func parseConf(typ uint16, into *devConf) func(*netlink.AttributeDecoder) error {
	return func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == typ {
				*into = ad.Bytes()
			}
		}
		return nil
	}
}

func (l *link) parseBridge(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		if b := ad.Bytes(); ad.Type() == unix.IFLA_BR_MULTI_BOOLOPT && len(b) == 8 {
			l.learnsPast = binary.NativeEndian.Uint32(b)&noLinkLocalLearn == 0
		}
	}
	return nil
}

// quietPort is how a bridge uses a port: whether it learns from it, sends it the frames for MACs that it does not know, and
// asks it for no address that it knows itself.
type quietPort struct{ learns, floods, suppresses bool }

var quiet = quietPort{suppresses: true}

func (l *link) parsePort(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch b := ad.Bytes(); {
		case ad.Type() == unix.IFLA_BRPORT_LEARNING && len(b) == 1:
			l.port.learns = b[0] != 0
		case ad.Type() == unix.IFLA_BRPORT_UNICAST_FLOOD && len(b) == 1:
			l.port.floods = b[0] != 0
		case ad.Type() == unix.IFLA_BRPORT_NEIGH_SUPPRESS && len(b) == 1:
			l.port.suppresses = b[0] != 0
		}
	}
	return nil
}
