//go:build libvirt

package libvirt

import (
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// chosenFor is how long domains are made for what the host was found to be while
// libvirtd lives: it finds out anew each time that it is asked, which takes longer than
// all else that it does for a domain's definition.
const chosenFor = time.Minute

// chosen is the host that domains are made for, and why its type is what it is.
type chosen struct {
	host   Host
	reason string
	at     time.Time // zero is nothing
}

// host is what the domain XML has to know of the host behind conn, as it was found
// not long ago.
func (d *Driver) host(conn *lv.Connect) (Host, error) {
	d.mu.Lock()
	c := d.chosen
	d.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < chosenFor {
		return c.host, nil
	}
	c, err := d.choose(conn)
	return c.host, err
}

// choose finds out what the domain XML has to know of the host behind conn, and why
// the domain type is what it is.
func (d *Driver) choose(conn *lv.Connect) (chosen, error) {
	doc, err := conn.GetCapabilities()
	if err != nil {
		return chosen{}, explain("ask for libvirt's capabilities", err)
	}
	offer, err := ParseCapabilities(doc)
	if err != nil {
		return chosen{}, seedbed.Errorf(seedbed.ErrUnavailable, "libvirt at %s: %v: install qemu-system-x86 and restart libvirtd", d.cfg.URI, err)
	}
	choice, reason, err := ChooseDomainType(d.cfg.DomainType, ReadFacts(offer.Types))
	if err != nil {
		return chosen{}, err
	}
	c := chosen{Host{DomainType: choice, Arch: offer.Arch, Emulator: offer.Emulator, Machine: offer.Machine, ConsoleDir: d.cfg.ConsoleDir}, reason, time.Now()}
	d.mu.Lock()
	d.chosen = c
	d.mu.Unlock()
	return c, nil
}

// unchoose has the host be looked at anew: libvirtd is away, and may be another when it is back.
func (d *Driver) unchoose() {
	d.mu.Lock()
	d.chosen = chosen{}
	d.mu.Unlock()
}
