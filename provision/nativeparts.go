package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
)

func within(place string, err error) error { return fmt.Errorf("%s: %w", place, err) }

// checkParts refuses a profile whose templates a machine without a script cannot
// carry out.
func (in *Intake) checkParts(m tailored) error {
	if m.parts.Storage == nil {
		return nil
	}
	var needs []string
	for _, d := range m.parts.Storage.Disks {
		if what := cmp.Or(d.Mountpoint, d.Filesystem); what != "" {
			needs = append(needs, fmt.Sprintf("disk %s (%s)", d.Name, what))
		}
	}
	if needs != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %s has no script, and its storage template %q wants filesystems made on %s: want disks that are clones, or blank without filesystem and mountpoint",
			m.Name, m.Storage, strings.Join(needs, ", "))
	}
	return nil
}

// disks are an instance's volumes, still without names: a clone of the profile's
// image, when it has one, and then those of its storage template. The first has
// the size that the profile or the request says, if it says one.
func (in *Intake) disks(ctx context.Context, m tailored, image seedbed.Image, size seedbed.Bytes) ([]seedbed.Volume, error) {
	var all []seedbed.Volume
	if m.Image != "" {
		all = append(all, seedbed.Volume{Pool: image.Pool, Size: image.Size, Image: image.Name})
	}
	if m.parts.Storage != nil {
		more, err := in.volumes(ctx, *m.parts.Storage)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "profile %s gives no disk: want an image, or a storage template with disks", m.Name)
	}
	if size != 0 {
		if first := all[0]; m.Image == "" && first.Image != "" && size < first.Size {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "disk is %s, and image %s has %s: want at least that", size, first.Image, first.Size)
		}
		all[0].Size = size
	}
	for i := range all {
		all[i].Index = i
	}
	return all, nil
}

// nics are an instance's NICs: one on the profile's network, when it has one,
// and then those of its network template. The MACs of drawn may be drawn again.
func (in *Intake) nics(ctx context.Context, m tailored, name string) (all []seedbed.NIC, drawn []int, err error) {
	if m.Network != "" {
		all, drawn = []seedbed.NIC{{MAC: in.macs.draw(), Network: m.Network}}, []int{0}
	}
	if m.parts.Network != nil {
		more, err := nics(*m.parts.Network, name)
		if err != nil {
			return nil, nil, err
		}
		for _, nic := range more {
			if m.parts.Network.MAC == "" {
				drawn = append(drawn, len(all))
			}
			nic.Index = len(all)
			all = append(all, nic)
		}
	}
	if len(all) == 0 {
		return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "profile %s gives no NIC: want a network, or a network template with networks", m.Name)
	}
	for _, nic := range all {
		if _, err := in.store.Network(ctx, nic.Network); errors.Is(err, seedbed.ErrNotFound) {
			return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses network %s, which does not exist", m.Name, nic.Network)
		} else if err != nil {
			return nil, nil, err
		}
	}
	return all, drawn, nil
}
