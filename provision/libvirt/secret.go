//go:build libvirt

package libvirt

import (
	"fmt"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"
)

// define sets the secret in libvirt to the keyring's key.
func (s Secret) define(conn *lv.Connect) error {
	what := "give libvirt the key of Ceph's client." + s.User
	key, err := s.key()
	if err != nil {
		return err
	}
	doc, err := (&libvirtxml.Secret{
		Ephemeral: "no", Private: "yes", UUID: s.ID, Description: "Seedbed: key of Ceph's client." + s.User,
		Usage: &libvirtxml.SecretUsage{Type: "ceph", Name: s.Name},
	}).Marshal()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	secret, err := conn.SecretDefineXML(doc, 0)
	if err != nil {
		return explain(what, err)
	}
	defer func() { _ = secret.Free() }()
	if err := secret.SetValue(key, 0); err != nil {
		return explain(what, err)
	}
	return nil
}

// defineSecrets sets the secrets in libvirt that a domain's disks name, as far as they are ours.
func (d *Driver) defineSecrets(conn *lv.Connect, dom *lv.Domain) error {
	if len(d.cfg.Secrets) == 0 {
		return nil
	}
	doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		return err
	}
	used, err := secretsOf(doc)
	if err != nil {
		return err
	}
	for _, s := range d.cfg.Secrets {
		if used[s.ID] {
			if err := s.define(conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// secretsOf returns the UUIDs of the secrets that a domain's disks name.
func secretsOf(doc string) (map[string]bool, error) {
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(doc); err != nil {
		return nil, fmt.Errorf("read the domain's XML: %w", err)
	}
	used := map[string]bool{}
	if dom.Devices == nil {
		return used, nil
	}
	for _, disk := range dom.Devices.Disks {
		for _, auth := range []*libvirtxml.DomainDiskAuth{disk.Auth, sourceAuth(disk.Source)} {
			if auth != nil && auth.Secret != nil {
				used[auth.Secret.UUID] = true
			}
		}
	}
	return used, nil
}

func sourceAuth(s *libvirtxml.DomainDiskSource) *libvirtxml.DomainDiskAuth {
	if s == nil || s.Network == nil {
		return nil
	}
	return s.Network.Auth
}
