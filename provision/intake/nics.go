package intake

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"seedbed"
)

// checkNICs returns ErrInvalid if a request cannot have the NICs that it asks for, made from the profile p.
func checkNICs(req seedbed.Request, p seedbed.Profile) error {
	bad := func(format string, args ...any) error {
		return seedbed.Errorf(seedbed.ErrInvalid, "nics: "+format, args...)
	}
	switch {
	case req.Network != "":
		return bad("network %s is given as well: expected only one of them", seedbed.Clip(req.Network))
	case len(req.NICs) == 0 || len(req.NICs) > seedbed.MaxNICs:
		return bad("there are %d: expected 1 to %d", len(req.NICs), seedbed.MaxNICs)
	case p.Script != "":
		return bad("profile %s has a script, which makes those of its network template: expected none", p.Name)
	}
	for i, n := range req.NICs {
		if err := n.Check(i); err != nil {
			return err
		}
		if n.MAC[0]&1 != 0 {
			return bad("MAC address %s of NIC %d is not a unicast address", n.MAC, i)
		}
		for j, other := range req.NICs[:i] {
			if n.MAC != (seedbed.MAC{}) && n.MAC == other.MAC {
				return bad("NICs %d and %d have the same MAC address %s", j, i, n.MAC)
			}
		}
	}
	return nil
}

// requestedNICs returns the NICs that a request asks for. Those in drawn have random MACs, which may be replaced.
func (in *Intake) requestedNICs(ctx context.Context, m tailored, req seedbed.Request) (all []seedbed.NIC, drawn []int, err error) {
	asked := slices.Clone(req.NICs)
	for i, n := range asked {
		if profiles := m.FirstNetwork(); n.Network == "" && profiles != "" {
			asked[i].Network = profiles
			err = in.look(ctx, &m, seedbed.PublishedNetwork, req.Project, &asked[i].Network)
		} else {
			asked[i].Network, err = in.networkKnown(ctx, req.Project, cmp.Or(n.Network, in.serving.Network))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return in.describedNICs(ctx, m, req.Project, asked)
}

// profileNICs returns the NICs that a profile gives an instance. The security groups of the request take the place of theirs.
func (in *Intake) profileNICs(ctx context.Context, m tailored, req seedbed.Request) (all []seedbed.NIC, drawn []int, err error) {
	asked := slices.Clone(m.NICs)
	for i := range asked {
		if len(req.SecurityGroups) > 0 {
			asked[i].Groups = nil
		}
	}
	return in.describedNICs(ctx, m, req.Project, asked)
}

// describedNICs returns the NICs that a request or a profile describes, for an instance of a project. Their networks have qualified
// names. Those in drawn have random MACs.
func (in *Intake) describedNICs(
	ctx context.Context, m tailored, project string, asked []seedbed.NICRequest,
) (all []seedbed.NIC, drawn []int, err error) {
	for i, n := range asked {
		nic := seedbed.NIC{Index: i, MAC: n.MAC, Addr: n.Addr, Network: n.Network, BandwidthIn: n.BandwidthIn, BandwidthOut: n.BandwidthOut,
			Secondary: slices.Concat(n.Secondary, seedbed.FreeAddrs(n.SecondaryCount, n.SecondaryCount6))}
		network, err := in.network(ctx, m, nic.Network)
		if err != nil {
			return nil, nil, err
		}
		if nic.Addr.Is6() { // the NIC has it by its MAC address
			if nic.MAC, err = network.Asks6(nic.MAC, nic.Addr); err != nil {
				return nil, nil, err
			}
			nic.Addr = netip.Addr{}
		}
		if _, err := network.Asks(nic.MAC, nic.Addr); err != nil {
			return nil, nil, err
		}
		for _, a := range n.Secondary {
			if err := network.Adds(nic.MAC, a); err != nil {
				return nil, nil, err
			}
		}
		if err := network.HasFree(i, n); err != nil {
			return nil, nil, err
		}
		if nic.MAC == (seedbed.MAC{}) {
			nic.MAC, drawn = in.macs.draw(), append(drawn, i)
		}
		for _, other := range all {
			if nic.MAC == other.MAC {
				return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "nics: NICs %d and %d would have the same MAC address %s", other.Index, i, nic.MAC)
			}
		}
		for _, a := range addresses(nic) {
			for _, other := range all {
				if nic.Network == other.Network && slices.Contains(addresses(other), a) {
					return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "nics: NICs %d and %d have the same address %s", other.Index, i, a)
				}
			}
		}
		if a := twice(addresses(nic)); a.IsValid() {
			return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "nics: NIC %d has the address %s twice", i, a)
		}
		nic.Groups = seedbed.QualifiedAll(cmp.Or(project, seedbed.DefaultProject), n.Groups)
		all = append(all, nic)
	}
	return all, drawn, nil
}

// only6 reports whether NICs are in networks with IPv6 alone, all of them.
func (in *Intake) only6(ctx context.Context, nics []seedbed.NIC) (bool, error) {
	for _, nic := range nics {
		n, err := in.store.Network(ctx, nic.Network)
		if err != nil || !n.Only6() {
			return false, err
		}
	}
	return len(nics) > 0, nil
}

// addresses returns the addresses that a NIC asks for.
func addresses(n seedbed.NIC) []netip.Addr {
	return slices.DeleteFunc(slices.Concat([]netip.Addr{n.Addr}, n.Secondary), seedbed.AnyFree)
}

// twice returns an address that is there more than once, or the zero Addr.
func twice(all []netip.Addr) netip.Addr {
	for i, a := range all {
		if slices.Contains(all[:i], a) {
			return a
		}
	}
	return netip.Addr{}
}

// grouped adds the security groups of a request, or else those of its profile, to the NICs that have none. It returns
// ErrInvalid for groups that do not exist.
func (in *Intake) grouped(ctx context.Context, req seedbed.Request, profiles []string, nics []seedbed.NIC) error {
	project, groups := cmp.Or(req.Project, seedbed.DefaultProject), req.SecurityGroups
	if len(groups) == 0 {
		groups = profiles
	}
	asked := map[string]bool{}
	for i := range nics {
		if len(nics[i].Groups) == 0 {
			nics[i].Groups = seedbed.QualifiedAll(project, groups)
		}
		for _, name := range nics[i].Groups {
			asked[name] = seedbed.ShortName(name) != seedbed.OpenGroup
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if seedbed.ProjectOf(name) != project {
			return seedbed.Errorf(seedbed.ErrInvalid, "security group %q is not one of project %s", seedbed.Clip(name), project)
		}
		if !asked[name] {
			continue
		}
		_, err := in.store.SecurityGroup(ctx, name)
		if errors.Is(err, seedbed.ErrNotFound) {
			err = seedbed.Errorf(seedbed.ErrInvalid, "%s", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
