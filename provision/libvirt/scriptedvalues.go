package libvirt

import (
	"encoding/xml"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// Limits of what a script's domain may have, each above what a guest has a use for. QEMU allocates
// for each, beside the memory of the guest.
const (
	maxIOThreads = 16
	maxVideoKiB  = 512 << 10 // of one kind of memory of one display
	maxHeads     = 16
)

// most is how many devices of a kind a script's domain may have.
var most = map[string]int{
	"controller": 64, "channel": 16, "input": 8, "graphics": 2, "video": 4, "hub": 4, "watchdog": 1, "rng": 4, "panic": 4,
}

// The values of elements that decide what happens on the host. Others, such as coredump-destroy, let
// the guest write files there.
var (
	onEnd           = []string{"", "destroy", "restart", "preserve"}
	watchdogActions = []string{"", "reset", "shutdown", "poweroff", "pause", "none", "inject-nmi"}
	videoModels     = []string{"", "vga", "cirrus", "bochs", "qxl", "virtio", "vmvga", "ramfb", "none"}
)

// timeZone is the name of a time zone, which the C library of QEMU makes a part of a path.
var timeZone = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)

// keymap is the name of a keyboard, which QEMU takes for a path to a file if it can be one.
var keymap = regexp.MustCompile(`^[a-z0-9-]{0,16}$`)

// values checks the values of elements that are kept as they are.
func (s *scripted) values(d *libvirtxml.Domain) error {
	for _, on := range []struct{ element, value string }{
		{"on_poweroff", d.OnPoweroff}, {"on_reboot", d.OnReboot}, {"on_crash", d.OnCrash},
	} {
		if !slices.Contains(onEnd, on.value) {
			return s.refuse("<%s> is %q: expected destroy, restart or preserve", on.element, seedbed.Clip(on.value))
		}
	}
	if d.IOThreads > maxIOThreads {
		return s.refuse("it has %d iothreads: expected at most %d", d.IOThreads, maxIOThreads)
	}
	if d.CPU != nil && d.CPU.Numa != nil { // libvirt takes the guest's memory from its cells
		return s.refuse("numa in <cpu> is not for scripts")
	}
	if d.Clock != nil && d.Clock.TimeZone != "" && !timeZone.MatchString(d.Clock.TimeZone) {
		return s.refuse("the timezone of <clock> is %q: expected a name such as Europe/Berlin", seedbed.Clip(d.Clock.TimeZone))
	}
	for _, w := range d.Devices.Watchdogs {
		if !slices.Contains(watchdogActions, w.Action) {
			return s.refuse("the action of <watchdog> is %q: expected one of %s", seedbed.Clip(w.Action), strings.Join(watchdogActions[1:], ", "))
		}
	}
	for _, v := range d.Devices.Videos {
		m := v.Model
		if !slices.Contains(videoModels, m.Type) {
			return s.refuse("<video> has the model %q: expected one of %s", seedbed.Clip(m.Type), strings.Join(videoModels[1:], ", "))
		}
		if max(m.Ram, m.VRam, m.VRam64, m.VGAMem) > maxVideoKiB || m.Heads > maxHeads {
			return s.refuse("<video> has %d heads and up to %d KiB of memory: expected at most %d and %d", m.Heads,
				max(m.Ram, m.VRam, m.VRam64, m.VGAMem), maxHeads, maxVideoKiB)
		}
	}
	for _, g := range d.Devices.Graphics {
		if g.VNC != nil && !keymap.MatchString(g.VNC.Keymap) {
			return s.refuse("the keymap of <graphics> is %q: expected a name such as de or en-us", seedbed.Clip(g.VNC.Keymap))
		}
	}
	return s.numbers(d.Devices)
}

// numbers refuses more devices than a machine has.
func (s *scripted) numbers(d *libvirtxml.DomainDeviceList) error {
	for kind, have := range map[string]int{
		"controller": len(d.Controllers), "channel": len(d.Channels), "input": len(d.Inputs), "graphics": len(d.Graphics),
		"video": len(d.Videos), "hub": len(d.Hubs), "watchdog": len(d.Watchdogs), "rng": len(d.RNGs), "panic": len(d.Panics),
	} {
		if have > most[kind] {
			return s.refuse("it has %d of <%s>: expected at most %d", have, kind, most[kind])
		}
	}
	return nil
}

// listens returns the address of a screen. A password is refused and not left out, because its script
// may rely on it.
func (s *scripted) listens(v *libvirtxml.DomainGraphicVNC) (string, error) {
	if v.Passwd != "" {
		return "", s.refuse("<graphics> has a passwd, which Seedbed does not keep: let it listen on 127.0.0.1, " +
			"and reach it through the host (ssh -L)")
	}
	listen := v.Listen
	for _, l := range v.Listeners {
		if l.Address == nil {
			return "", s.refuse("<graphics> does not listen on an address")
		}
		listen = l.Address.Address
	}
	if listen == "" {
		listen = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(listen)
	if err != nil || v.Socket != "" {
		return "", s.refuse("<graphics> listens on %q: expected an IP address", seedbed.Clip(listen+v.Socket))
	}
	switch {
	case addr.IsLoopback():
	case s.spec.Project != "" && s.spec.Project != seedbed.DefaultProject:
		s.note("the screen listens on 127.0.0.1 and not on %s, which is an address of the hosts", addr)
		return "127.0.0.1", nil
	default:
		s.note("the screen listens on %s without a password: every host that reaches this address can use it", addr)
	}
	return listen, nil
}

// replaced are the elements and attributes that Seedbed fills in or leaves out without a word, because
// each script's document has them and its manual says so. The vhostmd disk is read-only; for another
// disk that is kept.
var replaced = []string{
	"devices/disk/@type", "devices/disk/source", "devices/disk/auth", "devices/disk/readonly", "devices/interface/@type",
	"devices/interface/source", "devices/console",
}

// maxLeftOut is how many names a note has.
const maxLeftOut = 20

// noteLeftOut says which elements and attributes of the script's document are not in the one that is
// made from it. It does not say what is inside of such an element.
func (s *scripted) noteLeftOut(from, to string) {
	kept := map[string]bool{}
	named(to, func(name string) bool {
		kept[name] = true
		return true
	})
	var out []string
	named(from, func(name string) bool {
		switch {
		case slices.ContainsFunc(replaced, func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") }):
		case !kept[name] && len(out) <= maxLeftOut && !slices.Contains(out, seedbed.Clip(name)):
			out = append(out, seedbed.Clip(name))
		}
		return kept[name]
	})
	if len(out) == 0 {
		return
	}
	more := ""
	if len(out) > maxLeftOut {
		out, more = out[:maxLeftOut], " and more"
	}
	s.note("left out of the script's domain, because this host decides it or it is not for scripts: %s%s", strings.Join(out, ", "), more)
}

// named calls visit with each element in a domain's document, as devices/disk, and with each
// attribute, as devices/disk/@type. What is inside of an element is skipped if visit returns false for
// it.
func named(doc string, visit func(name string) bool) {
	var at []string // the names of the open elements
	skipped := 0    // how many of the open elements, from the innermost, are skipped
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		token, err := d.Token()
		if err != nil {
			return // the end: both documents have been read before
		}
		switch t := token.(type) {
		case xml.StartElement:
			name := t.Name.Local
			if len(at) > 1 {
				name = at[len(at)-1] + "/" + name
			}
			if skipped > 0 || len(at) > 0 && !visit(name) {
				skipped++
				continue
			}
			if at = append(at, name); len(at) == 1 {
				name = "domain"
			}
			for _, a := range t.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					visit(name + "/@" + a.Name.Local)
				}
			}
		case xml.EndElement:
			if skipped > 0 {
				skipped--
			} else {
				at = at[:len(at)-1]
			}
		}
	}
}
