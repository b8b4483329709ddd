//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// virtlogdSocket is where the system's virtlogd listens.
const virtlogdSocket = "/run/libvirt/virtlogd-sock"

// Health checks the connection, the domain type, the KVM device and the consoles.
func (d *Driver) Health(ctx context.Context) []seedbed.Check {
	return []seedbed.Check{d.checkConnection(ctx), d.checkType(ctx), checkKVMDevice(kvmDevice), d.checkConsole()}
}

func (d *Driver) checkConnection(ctx context.Context) seedbed.Check {
	c := seedbed.Check{Name: "libvirt"}
	v, err := call(ctx, d, "ask libvirt for its version", "", func(_ context.Context, conn *lv.Connect) (string, error) {
		return version(conn)
	})
	if err != nil {
		c.Detail, c.Hint = err.Error(), startHint(systemdDir)
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("%s at %s", v, d.cfg.URI)
	if n := d.gate.Stuck(); n > 0 {
		c.OK = false
		c.Detail += fmt.Sprintf("; %d calls have not come back", n)
		c.Hint = "look at libvirtd's log, or restart it"
	}
	return c
}

func (d *Driver) checkType(ctx context.Context) seedbed.Check {
	c := seedbed.Check{Name: "domain type"}
	detail, err := call(ctx, d, "choose the domain type", "", func(_ context.Context, conn *lv.Connect) (string, error) {
		c, err := d.findHost(conn)
		return c.host.DomainType + ": " + c.reason, err
	})
	if err != nil {
		c.Detail, c.Hint = err.Error(), startHint(systemdDir)
		return c
	}
	c.OK, c.Detail = true, detail
	return c
}

func (d *Driver) checkConsole() seedbed.Check {
	c := seedbed.Check{Name: "consoles", Detail: d.cfg.ConsoleDir}
	if info, err := os.Stat(d.cfg.ConsoleDir); err != nil || !info.IsDir() {
		c.Detail = fmt.Sprintf("%s is not a usable directory", d.cfg.ConsoleDir)
		c.Hint = "make it, owned by root with mode 0711, or set libvirt.console_dir"
		return c
	}
	if d.cfg.URI == DefaultURI {
		if _, err := os.Stat(virtlogdSocket); errors.Is(err, os.ErrNotExist) {
			c.Detail = "virtlogd, which writes the console logs, is not running: " + virtlogdSocket
			c.Hint = startHint(systemdDir)
			return c
		}
	}
	c.OK = true
	return c
}
