package libvirt

import (
	"regexp"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// devices returns the devices of a script's document, each rebuilt from its guest-visible part.
func (s *scripted) devices(d *libvirtxml.DomainDeviceList) (*libvirtxml.DomainDeviceList, error) {
	list := &libvirtxml.DomainDeviceList{
		Emulator: s.host.Emulator,
		Hubs:     d.Hubs, Watchdogs: d.Watchdogs, Panics: d.Panics,
	}
	if len(d.Serials)+len(d.Consoles) > 0 { // one, whose log we keep: the guest sees no difference
		list.Serials = []libvirtxml.DomainSerial{serial(s.spec.ID, s.host)}
	}
	if d.MemBalloon != nil {
		list.MemBalloon = &libvirtxml.DomainMemBalloon{Model: d.MemBalloon.Model, Address: d.MemBalloon.Address}
	}
	for _, c := range d.Controllers {
		c.Driver, c.Alias, c.XenBus, c.NVME = nil, nil, nil, nil
		list.Controllers = append(list.Controllers, c)
	}
	for _, make := range []func(*libvirtxml.DomainDeviceList, *libvirtxml.DomainDeviceList) error{
		s.scriptedDisks, s.scriptedNICs, s.channels, s.screens, s.inputs, s.rngs,
	} {
		if err := make(d, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// channelName is what a channel may be called. libvirtd, which is root, makes the name a part of its
// socket's path on the host, and first removes what is there.
var channelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// channels keeps the channels between guest and libvirt, whose sockets libvirt names.
func (s *scripted) channels(from, to *libvirtxml.DomainDeviceList) error {
	for _, c := range from.Channels {
		if c.Source == nil || c.Source.UNIX == nil || c.Target == nil || c.Target.VirtIO == nil {
			return s.refuse("a <channel> is not of type unix with a virtio target")
		}
		if name := c.Target.VirtIO.Name; !channelName.MatchString(name) {
			return s.refuse("a <channel> has the name %q: expected one like org.qemu.guest_agent.0, "+
				"at most 64 letters, digits, '.', '_' and '-' that begin with a letter or digit", seedbed.Clip(name))
		}
		to.Channels = append(to.Channels, libvirtxml.DomainChannel{
			Source:  &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
			Target:  &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: c.Target.VirtIO.Name}},
			Address: c.Address,
		})
	}
	return nil
}

// screens keeps VNC servers that listen on addresses, and their displays.
func (s *scripted) screens(from, to *libvirtxml.DomainDeviceList) error {
	for _, g := range from.Graphics {
		v := g.VNC
		if v == nil {
			return s.refuse("<graphics> is not of type vnc")
		}
		listen, err := s.listens(v)
		if err != nil {
			return err
		}
		to.Graphics = append(to.Graphics, libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{
			Port: v.Port, AutoPort: v.AutoPort, Keymap: v.Keymap, Listen: listen,
			Listeners: []libvirtxml.DomainGraphicListener{{Address: &libvirtxml.DomainGraphicListenerAddress{Address: listen}}},
		}})
	}
	for _, v := range from.Videos {
		m := v.Model
		to.Videos = append(to.Videos, libvirtxml.DomainVideo{
			Model:   libvirtxml.DomainVideoModel{Type: m.Type, Heads: m.Heads, Ram: m.Ram, VRam: m.VRam, VGAMem: m.VGAMem, Primary: m.Primary},
			Address: v.Address,
		})
	}
	return nil
}

func (s *scripted) inputs(from, to *libvirtxml.DomainDeviceList) error {
	for _, i := range from.Inputs {
		if !slices.Contains([]string{"mouse", "tablet", "keyboard"}, i.Type) || i.Source != nil {
			return s.refuse("<input> is a %q: expected a mouse, tablet or keyboard", seedbed.Clip(i.Type))
		}
		to.Inputs = append(to.Inputs, libvirtxml.DomainInput{Type: i.Type, Bus: i.Bus, Address: i.Address})
	}
	return nil
}

func (s *scripted) rngs(from, to *libvirtxml.DomainDeviceList) error {
	for _, r := range from.RNGs {
		device := ""
		if r.Backend != nil && r.Backend.Random != nil {
			device = r.Backend.Random.Device
		}
		if r.Backend == nil || r.Backend.EGD != nil || !slices.Contains([]string{"", "/dev/random", "/dev/urandom"}, strings.TrimSpace(device)) {
			return s.refuse("<rng> reads from %q: expected /dev/urandom", seedbed.Clip(device))
		}
		to.RNGs = append(to.RNGs, libvirtxml.DomainRNG{
			Model: r.Model, Rate: r.Rate, Address: r.Address,
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		})
	}
	return nil
}
