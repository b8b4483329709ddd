//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cgate"
)

// OpenScreen implements worker.Terminal. QEMU gets one end of a pair of sockets from libvirt, so no port is used, and it asks
// for no password.
func (d *Driver) OpenScreen(ctx context.Context, id seedbed.InstanceID) (net.Conn, error) {
	what := "open the screen of domain " + string(id)
	return call(ctx, d, what, id, func(ctx context.Context, conn *lv.Connect) (net.Conn, error) {
		dom, _, err := findVisible(conn, id)
		if err != nil {
			return nil, err
		}
		defer free(dom)
		doc, err := running(dom, id)
		if err != nil {
			return nil, err
		}
		index := slices.IndexFunc(doc.Devices.Graphics, func(g libvirtxml.DomainGraphic) bool { return g.VNC != nil })
		if index < 0 {
			return nil, noScreen(id)
		}
		f, err := dom.OpenGraphicsFD(uint(index), lv.DOMAIN_OPEN_GRAPHICS_SKIPAUTH)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		screen, err := net.FileConn(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if ctx.Err() != nil { // the caller has left
			screen.Close()
			return nil, cgate.GaveUp("libvirt", what, ctx.Err())
		}
		return screen, nil
	})
}

func noScreen(id seedbed.InstanceID) error {
	return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no screen: its system template asks for none "+
		"(seedbed provisioner template system modify NAME --vnc, before it is made or rebuilt)", id)
}

// Screenshot implements worker.Inspector.
func (d *Driver) Screenshot(ctx context.Context, id seedbed.InstanceID) ([]byte, error) {
	picture, err := call(ctx, d, "screenshot of domain "+string(id), id, func(ctx context.Context, conn *lv.Connect) ([]byte, error) {
		dom, _, err := findVisible(conn, id)
		if err != nil {
			return nil, err
		}
		defer free(dom)
		doc, err := running(dom, id)
		if err != nil {
			return nil, err
		}
		if len(doc.Devices.Videos) == 0 {
			return nil, noScreen(id)
		}
		return screenshot(ctx, conn, dom)
	})
	if err != nil {
		return nil, err
	}
	return toPNG(picture)
}

// screenshot returns the picture that libvirt sends.
func screenshot(ctx context.Context, conn *lv.Connect, dom *lv.Domain) ([]byte, error) {
	stream, err := conn.NewStream(0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Free() }()
	if _, err := dom.Screenshot(stream, 0, 0); err != nil {
		return nil, err
	}
	var picture []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := stream.Recv(buf)
		if errors.Is(err, io.EOF) {
			return picture, stream.Finish()
		}
		if err == nil && ctx.Err() != nil {
			err = cgate.GaveUp("libvirt", "take a screenshot", ctx.Err())
		}
		if err == nil && len(picture)+n > maxPicture {
			err = tooLargePicture()
		}
		if err != nil {
			_ = stream.Abort() // the error is the one before
			return nil, err
		}
		picture = append(picture, buf[:n]...)
	}
}
