package intake

import (
	"context"
	"fmt"

	"seedbed"
)

// byCDROM reports whether a new instance gets its metadata by CD-ROM, and then makes what it is made from fit: the datasource
// is NoCloud, and nothing tells when the guest has read its user-data. Unless the request or the profile says which way, it is
// the service if the first NIC reaches that, since cloud-init asks by this one.
func (in *Intake) byCDROM(ctx context.Context, req seedbed.Request, m *tailored, s *shape, nics []seedbed.NIC) (why string, err error) {
	switch s.metadata.By {
	case seedbed.MetadataCDROM:
		why = "as was asked for"
	case "":
		if why, err = in.unserved(ctx, *m, nics); err != nil {
			return "", err
		}
		if m.Script != "" || s.datasource == seedbed.DatasourceNone {
			why = "" // it gets none
		}
	}
	if why == "" {
		s.metadata.By = seedbed.MetadataService
		return "", nil
	}
	if err := cdromFits(*m, *s, m.given); err != nil {
		return "", err
	}
	if req.Ready != "" && req.Ready != seedbed.ReadyStarted {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "ready %s: the guest gets its metadata by CD-ROM, so that nothing is heard of it: "+
			"expected started", req.Ready)
	}
	onCDROM(m, s)
	return why, nil
}

// unserved returns why the first of some NICs does not reach the metadata service, or "".
func (in *Intake) unserved(ctx context.Context, m tailored, nics []seedbed.NIC) (string, error) {
	if len(nics) == 0 {
		return "since it has no NIC", nil
	}
	n, err := in.network(ctx, m, nics[0].Network)
	switch {
	case err != nil:
		return "", err
	case n.Bare():
		return fmt.Sprintf("since nothing gives its first NIC an address, which is in the network %s without a prefix", n.Name), nil
	case n.Kind.Served():
		return "", nil
	}
	return fmt.Sprintf("since no node serves its first NIC, which is in the direct network %s", n.Name), nil
}

// keepable returns ErrInvalid if a network does not keep one of the NICs to what it has.
func (in *Intake) keepable(ctx context.Context, m tailored, nics []seedbed.NIC) error {
	for _, nic := range nics {
		n, err := in.network(ctx, m, nic.Network)
		if err == nil {
			err = n.Keeps(nic)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scriptable returns ErrInvalid if a script would make a domain with a NIC in a direct network.
func (in *Intake) scriptable(ctx context.Context, m tailored, nics []seedbed.NIC) error {
	if m.Script == "" {
		return nil
	}
	for _, nic := range nics {
		n, err := in.network(ctx, m, nic.Network)
		if err != nil {
			return err
		}
		if !n.Kind.Served() {
			return seedbed.Errorf(seedbed.ErrInvalid, "NIC %d is in the direct network %s, and the script of profile %s makes the domain: "+
				"expected another network, or a profile without a script", nic.Index, n.Name, m.Name)
		}
	}
	return nil
}

// keepsWay makes what a rebuild makes an instance from fit the way in which that gets its metadata, which is kept.
func keepsWay(now seedbed.Instance, m *tailored, s *shape, given map[string]any) error {
	was := now.Metadata.WithDefaults(seedbed.MetadataOptions{}).By
	if _, asked := given["metadata_by"]; asked && s.metadata.By != was {
		return seedbed.Errorf(seedbed.ErrInvalid, "param metadata_by: instance %q gets its metadata by %s, and a rebuild keeps that: "+
			"expected no such param, or a new instance", now.Name, was)
	}
	s.metadata.By = was
	if was != seedbed.MetadataCDROM {
		return nil
	}
	if err := cdromFits(*m, *s, given); err != nil {
		return err
	}
	onCDROM(m, s)
	return nil
}

// cdromFits returns ErrInvalid if an instance cannot get its metadata by CD-ROM.
func cdromFits(m tailored, s shape, given map[string]any) error {
	if m.Script != "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "metadata by CD-ROM is not for profile %s, whose script makes the domain: "+
			"expected the service, or a profile without a script", m.Name)
	}
	_, asked := given["datasource"]
	if s.datasource == seedbed.DatasourceNone || asked && s.datasource != seedbed.DatasourceNoCloud {
		return seedbed.Errorf(seedbed.ErrInvalid, "datasource %s: the guest gets its metadata by CD-ROM, which cloud-init reads as nocloud: "+
			"expected that, or no datasource", s.datasource)
	}
	return nil
}

func onCDROM(m *tailored, s *shape) {
	s.metadata.By, s.datasource, m.Ready = seedbed.MetadataCDROM, seedbed.DatasourceNoCloud, seedbed.ReadyStarted
}

// way says how the instance gets its metadata.
func (m prepared) way() string {
	if m.inst.Metadata.By == seedbed.MetadataCDROM {
		return fmt.Sprintf("it gets its metadata by CD-ROM, %s: what changes there reaches the guest at its next start, and its job ends once "+
			"the guest is started", m.why)
	}
	return "it gets its metadata by the service of its node"
}
