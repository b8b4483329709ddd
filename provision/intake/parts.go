package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"seedbed"
)

func within(place string, err error) error { return fmt.Errorf("%s: %w", place, err) }

// storage returns all disks of the profile as one template. If the profile has an image, its clone
// comes first.
func (m tailored) storage(image seedbed.Image) *seedbed.StorageTemplate {
	if m.Image == "" {
		return m.parts.Storage
	}
	return withDisks([]seedbed.TemplateDisk{{Name: seedbed.DiskName(0), Pool: image.Pool, Source: image.Name}}, m.parts.Storage)
}

// network returns a network that the profile uses; ErrInvalid if it does not exist.
func (in *Intake) network(ctx context.Context, m tailored, name string) (seedbed.Network, error) {
	n, err := in.store.Network(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = noNetwork(m, name)
	}
	return n, err
}

// vni returns a network of the profile's network template, whose project must still be able to use it.
func (in *Intake) vni(ctx context.Context, m tailored, name string) (seedbed.Network, error) {
	_, err := in.store.Resolve(ctx, seedbed.PublishedNetwork, seedbed.ProjectOf(m.parts.Network.Name), seedbed.Explicit(name))
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Network{}, err
	}
	if err != nil {
		return seedbed.Network{}, noNetwork(m, name)
	}
	return in.network(ctx, m, name)
}

// reading returns what reads the network of a NIC: the first is on the profile's network, if that has one,
// and the others on those of its template.
func (in *Intake) reading(m tailored, nic int) func(context.Context, tailored, string) (seedbed.Network, error) {
	if nic == 0 && m.Network != "" {
		return in.network
	}
	return in.vni
}

// noNetwork returns the error for a network that a profile uses and that does not exist.
func noNetwork(m tailored, name string) error {
	if m.Script != "" { // as in PVC
		return seedbed.Errorf(seedbed.ErrInvalid, `The network VNI "%s" is not present on the cluster`, name)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses network %s, which does not exist", m.Name, name)
}

// disks returns an instance's volumes, still without names: a clone of the profile's image, if it
// has one, and then those of its storage template. The first volume has the size that the profile
// or the request sets, if any. With neither, it is a blank one in the pool blankIn, if that is given.
func (in *Intake) disks(
	ctx context.Context, m tailored, image seedbed.Image, size seedbed.Bytes, blankIn string,
) ([]seedbed.Volume, error) {
	var all []seedbed.Volume
	if m.Image != "" {
		all = append(all, seedbed.Volume{Pool: image.Pool, Size: image.Size, Image: image.Name})
	}
	if m.parts.Storage != nil {
		more, err := in.volumes(ctx, *m.parts.Storage, m.parts.OVA)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if len(all) == 0 && m.Script != "" {
		return []seedbed.Volume{}, nil
	}
	switch {
	case len(all) > 0:
	case blankIn == "":
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "profile %s has no disks: expected an image, or a storage template with disks", m.Name)
	case size == 0:
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"profile %s has no disks, and the request no size for a blank one: expected param disk", m.Name)
	default:
		all = []seedbed.Volume{{Pool: blankIn}}
	}
	if size != 0 {
		if first := all[0]; m.Image == "" && first.Image != "" && size < first.Size {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "disk is %s, but image %s has %s: expected at least that", size, first.Image, first.Size)
		}
		all[0].Size = size
	}
	for i := range all {
		all[i].Index = i
	}
	return all, nil
}

// nics returns the NICs of an instance whose profile has no list of them: one on the profile's network, if it has one, and then
// those of its network template. The NICs in drawn have random MACs, which may be replaced.
func (in *Intake) nics(ctx context.Context, m tailored, req seedbed.Request) (all []seedbed.NIC, drawn []int, err error) {
	if m.Network != "" {
		all, drawn = []seedbed.NIC{{MAC: in.macs.draw(), Network: m.Network}}, []int{0}
	}
	if m.parts.Network != nil {
		more, err := in.templateNICs(*m.parts.Network, req.Name)
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
	if len(all) == 0 && m.Script == "" && m.OVA == "" {
		return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "profile %s has no NICs: expected a network, or a network template with networks",
			m.Name)
	}
	for i, nic := range all {
		if _, err := in.reading(m, i)(ctx, m, nic.Network); err != nil {
			return nil, nil, err
		}
	}
	return all, drawn, nil
}

// number returns the number at the end of an instance's name modulo 16, or 0 without one. {vmid} in
// a MAC template stands for it (PVC's manual).
func number(name string) int {
	n := 0
	for _, c := range name[len(strings.TrimRight(name, "0123456789")):] {
		n = (n*10 + int(c-'0')) & 15
	}
	return n
}

// templateNICs returns the NICs of a network template for the instance called name.
func (in *Intake) templateNICs(t seedbed.NetworkTemplate, name string) (made []seedbed.NIC, err error) {
	if t.MAC != "" && len(t.Networks) > 1 && !t.MAC.PerNIC() {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"the MAC template %q of the network template %q gives all %d networks the same address: expected {netid} in it",
			t.MAC, t.Name, len(t.Networks))
	}
	for i, n := range t.Networks {
		nic := seedbed.NIC{Index: i, Network: n.VNI}
		if t.MAC == "" {
			nic.MAC = in.macs.draw()
		} else if nic.MAC, err = t.MAC.MAC(number(name), i); err != nil {
			return nil, err
		}
		made = append(made, nic)
	}
	return made, nil
}

// source returns the image of a template's disk, which the template's project must still be able to use. An OVA
// image, which may be nil, is used with its disks.
func (in *Intake) source(
	ctx context.Context, t seedbed.StorageTemplate, ova *seedbed.OVA, d seedbed.TemplateDisk,
) (seedbed.Image, error) {
	if ova.Has(d.Source) {
		return in.store.Image(ctx, d.Source)
	}
	name, err := in.store.Resolve(ctx, seedbed.PublishedImage, seedbed.ProjectOf(t.Name), seedbed.Explicit(d.Source))
	if err != nil {
		return seedbed.Image{}, err
	}
	return in.store.Image(ctx, name)
}

// volumes returns the volumes of a storage template, which may begin with the disks of an OVA image, still without
// names.
func (in *Intake) volumes(ctx context.Context, t seedbed.StorageTemplate, ova *seedbed.OVA) ([]seedbed.Volume, error) {
	made := []seedbed.Volume{}
	for i, d := range t.Disks {
		if err := in.poolKnown(ctx, d.Pool); errors.Is(err, seedbed.ErrNotFound) {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "pool %q is not present on the cluster: disk %s of the storage template %q is in it",
				d.Pool, d.Name, t.Name)
		} else if err != nil {
			return nil, err
		}
		v := seedbed.Volume{Pool: d.Pool, Index: i, Size: d.Size, Image: d.Source}
		if d.Source != "" {
			image, err := in.source(ctx, t, ova, d)
			if errors.Is(err, seedbed.ErrNotFound) {
				return nil, seedbed.Errorf(seedbed.ErrInvalid,
					"the source volume %s/%s could not be found: expected an image of that pool (seedbed image list)", d.Pool, d.Source)
			}
			if err != nil {
				return nil, err
			}
			v.Size = image.Size
		}
		made = append(made, v)
	}
	return made, nil
}
