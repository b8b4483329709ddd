package drivertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"

	"seedbed"
)

// The parts of VNC's handshake (RFC 6143, 7.1 to 7.3).
var (
	rfb        = []byte("RFB 003.008\n")
	noSecurity = []byte{1, 1} // one type, which is none
	accepted   = []byte{0, 0, 0, 0}
)

// notVNC is a type of messages that there is not, for which a server ends a session.
const notVNC = 0xff

// updateRequest is the type of messages that ask for pixels, and updateLength how long they are (RFC 6143, 7.5.3).
const (
	updateRequest = 3
	updateLength  = 10
)

// The size of the screens of domains in memory, in pixels.
const (
	screenWidth  = 640
	screenHeight = 480
)

// OpenScreen implements worker.Terminal. The screen of a domain in memory is black, and reads what is sent to it.
func (h *Hypervisor) OpenScreen(ctx context.Context, id seedbed.InstanceID) (screen net.Conn, err error) {
	err = h.effect(ctx, "OpenScreen", func() error {
		d, err := h.screenOf(ctx, id)
		if err != nil {
			return err
		}
		var server net.Conn
		screen, server = net.Pipe()
		d.screens = append(d.screens, server)
		go func() {
			defer server.Close()
			if serveScreen(server, d.spec.Name) != nil {
				return
			}
			for b := make([]byte, 1<<10); ; {
				n, err := server.Read(b)
				if err != nil || b[0] == notVNC {
					return
				}
				for ; b[0] == updateRequest && n >= updateLength; n -= updateLength {
					if _, err := server.Write(blackScreen()); err != nil {
						return
					}
				}
			}
		}()
		return nil
	})
	return screen, err
}

// screenOf finds a domain that has a screen. The lock is held.
func (h *Hypervisor) screenOf(ctx context.Context, id seedbed.InstanceID) (*domain, error) {
	d, err := h.look(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused:
		return nil, seedbed.Errorf(seedbed.ErrConflict, "domain %s is off", d.spec.Name)
	case d.spec.System == nil || !d.spec.System.VNC:
		return nil, seedbed.Errorf(seedbed.ErrConflict, "domain %s has no screen", d.spec.Name)
	}
	return d, nil
}

// serveScreen is the server's part of the handshake.
func serveScreen(c io.ReadWriter, name string) error {
	if err := exchange(c, rfb, len(rfb)); err != nil {
		return err
	}
	if err := exchange(c, noSecurity, 1); err != nil {
		return err
	}
	if err := exchange(c, accepted, 1); err != nil {
		return err
	}
	size := binary.BigEndian.AppendUint16(nil, screenWidth)
	size = binary.BigEndian.AppendUint16(size, screenHeight)
	size = append(size, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0) // the format of pixels
	size = binary.BigEndian.AppendUint32(size, uint32(len(name)))
	_, err := c.Write(append(size, name...))
	return err
}

// blackScreen is an update of a whole screen (RFC 6143, 7.6.1).
func blackScreen() []byte {
	b := []byte{0, 0, 0, 1, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, screenWidth)
	b = binary.BigEndian.AppendUint16(b, screenHeight)
	return append(b, make([]byte, 4+4*screenWidth*screenHeight)...) // its encoding, which is raw, and the pixels
}

// Ask asks for all pixels of a screen, which a viewer then reads.
func Ask(c io.Writer) error {
	b := []byte{updateRequest, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, screenWidth)
	b = binary.BigEndian.AppendUint16(b, screenHeight)
	_, err := c.Write(b)
	return err
}

// exchange sends something, and reads an answer of n bytes.
func exchange(c io.ReadWriter, what []byte, n int) error {
	if _, err := c.Write(what); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, n))
	return err
}

// View begins to view a screen, as one of several viewers. It returns the name of the screen.
func View(c io.ReadWriter) (string, error) {
	var head [12]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	if !bytes.HasPrefix(head[:], []byte("RFB 003.")) {
		return "", fmt.Errorf("the screen begins with %q", head)
	}
	if err := exchange(c, rfb, len(noSecurity)); err != nil {
		return "", err
	}
	if err := exchange(c, []byte{1}, len(accepted)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte{1}); err != nil { // shared
		return "", err
	}
	var begin [24]byte
	if _, err := io.ReadFull(c, begin[:]); err != nil {
		return "", err
	}
	name := make([]byte, min(binary.BigEndian.Uint32(begin[20:]), 1<<10))
	_, err := io.ReadFull(c, name)
	return string(name), err
}

// Screenshot implements worker.Inspector: a screen that is blue.
func (h *Hypervisor) Screenshot(ctx context.Context, id seedbed.InstanceID) (picture []byte, err error) {
	err = h.effect(ctx, "Screenshot", func() error {
		if _, err := h.screenOf(ctx, id); err != nil {
			return err
		}
		m := image.NewPaletted(image.Rect(0, 0, screenWidth, screenHeight), color.Palette{color.RGBA{B: 255, A: 255}})
		var out bytes.Buffer
		err := png.Encode(&out, m)
		picture = out.Bytes()
		return err
	})
	return picture, err
}
