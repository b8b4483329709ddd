//go:build ceph && libvirt

package main

import (
	"errors"
	"fmt"

	"github.com/ceph/go-ceph/rados"
	"github.com/ceph/go-ceph/rbd"
	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/libvirt"
)

// hand makes by hand what the engine makes: the same calls, and no more.
type hand struct {
	conn *rados.Conn
	io   *rados.IOContext
	virt *lv.Connect
	pool string
}

func openHand(c *lab.CephCluster, pool string) (*hand, error) {
	h := &hand{pool: pool}
	var err error
	if h.conn, err = rados.NewConnWithUser(lab.CephUser); err != nil {
		return nil, err
	}
	if err := errors.Join(h.conn.ReadConfigFile(c.Conf), h.conn.SetConfigOption("keyring", c.Keyring), h.conn.Connect()); err != nil {
		return nil, err
	}
	if h.io, err = h.conn.OpenIOContext(pool); err != nil {
		return nil, err
	}
	h.virt, err = lv.NewConnect(libvirt.DefaultURI)
	return h, err
}

func (h *hand) close() {
	h.virt.Close()
	h.io.Destroy()
	h.conn.Shutdown()
}

// The names that the worker gives images and volumes in the cluster, and its images' snapshot.
const (
	imagePrefix  = "seedbed-image."
	volumePrefix = "seedbed-volume."
	snapshot     = "seedbed"
)

// clone clones the image's snapshot, and grows the clone.
func (h *hand) clone(image, name string, size seedbed.Bytes) error {
	opts := rbd.NewRbdImageOptions()
	defer opts.Destroy()
	if err := opts.SetUint64(rbd.ImageOptionCloneFormat, 2); err != nil {
		return err
	}
	if err := rbd.CloneImage(h.io, imagePrefix+image, snapshot, h.io, name, opts); err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	img, err := rbd.OpenImage(h.io, name, rbd.NoSnapshot)
	if err != nil {
		return err
	}
	return errors.Join(img.Resize(uint64(size)), img.Close())
}

func (h *hand) remove(name string) error { return rbd.RemoveImage(h.io, name) }

// define defines a domain; the caller frees it.
func (h *hand) define(xml string) (*lv.Domain, error) { return h.virt.DomainDefineXML(xml) }

// document is the definition of the instance's domain.
func (h *hand) document(id seedbed.InstanceID) (string, error) {
	dom, err := h.virt.LookupDomainByUUIDString(string(id))
	if err != nil {
		return "", err
	}
	defer dom.Free()
	return dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
}
