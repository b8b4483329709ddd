//go:build libvirt

package libvirt

import (
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// hostCacheTime is how long the host's capabilities are cached while libvirtd lives. libvirtd
// determines them on each request, which takes longer than all else that defining a domain needs.
const hostCacheTime = time.Minute

// cachedHost caches the host for which domains are defined, and the reason for its domain type.
type cachedHost struct {
	host   Host
	reason string
	at     time.Time // zero if nothing is cached
}

// host returns what the domain XML needs to know of the host behind conn, from the cache if it is
// recent.
func (d *Driver) host(conn *lv.Connect) (Host, error) {
	d.mu.Lock()
	c := d.cachedHost
	d.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < hostCacheTime {
		return c.host, nil
	}
	c, err := d.findHost(conn)
	return c.host, err
}

// findHost determines what the domain XML needs to know of the host behind conn, and why its domain
// type was chosen.
func (d *Driver) findHost(conn *lv.Connect) (cachedHost, error) {
	doc, err := conn.GetCapabilities()
	if err != nil {
		return cachedHost{}, explain("ask for libvirt's capabilities", err)
	}
	offer, err := ParseCapabilities(doc)
	if err != nil {
		return cachedHost{}, seedbed.Errorf(seedbed.ErrUnavailable, "libvirt at %s: %v: install qemu-system-x86 and restart libvirtd",
			d.cfg.URI, err)
	}
	choice, reason, err := ChooseDomainType(d.cfg.DomainType, ReadFacts(offer.Types))
	if err != nil {
		return cachedHost{}, err
	}
	c := cachedHost{
		Host{DomainType: choice, Arch: offer.Arch, Emulator: offer.Emulator, Machine: offer.Machine, ConsoleDir: d.cfg.ConsoleDir,
			CDROMDir: d.cfg.CDROMDir, Uplinks: d.cfg.Uplinks}, reason,
		time.Now(),
	}
	d.mu.Lock()
	d.cachedHost = c
	d.mu.Unlock()
	return c, nil
}

// forgetHost clears the cache: libvirtd is away, and may be another version when it is back.
func (d *Driver) forgetHost() {
	d.mu.Lock()
	d.cachedHost = cachedHost{}
	d.mu.Unlock()
}
