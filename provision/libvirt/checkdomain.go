//go:build libvirt

package libvirt

import (
	"context"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// document returns the document that defines a domain.
func document(spec seedbed.DomainSpec, host Host) (string, error) {
	if spec.Script == nil {
		return DomainXML(spec, host)
	}
	doc, _, err := ScriptedXML(spec, host)
	return doc, err
}

// CheckDomain implements worker.DomainChecker.
func (d *Driver) CheckDomain(ctx context.Context, spec seedbed.DomainSpec) ([]string, error) {
	if spec.Script == nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "domain %s has no document to check", spec.Name)
	}
	return call(ctx, d, "check domain "+spec.Name, "", func(_ context.Context, conn *lv.Connect) ([]string, error) {
		host, err := d.host(conn)
		if err != nil {
			return nil, err
		}
		_, notes, err := ScriptedXML(spec, host)
		return notes, err
	})
}
