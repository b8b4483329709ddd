package intake

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"seedbed"
	"seedbed/provision/record"
)

// nicJob accepts a request to add a NIC to an instance, to remove one, or to take one to another network. Errors: seedbed.ErrNotFound for
// an instance or NIC that does not exist, ErrInvalid for a NIC that the instance cannot have, ErrExists for a MAC address or an address
// that is taken, ErrInUse for an instance with a live job, for a secondary address of another NIC, and for a NIC with something that is of
// its network, ErrConflict for the only NIC of an instance and for one that is neither running nor stopped, ErrForbidden for more
// addresses than a quota allows, ErrFull for a network without a free address.
func (in *Intake) nicJob(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (r seedbed.Receipt, err error) {
	inst, nic, drawn, err := in.nicOf(ctx, req)
	if err != nil {
		return r, err
	}
	kind := seedbed.NICActions()[req.Action]
	for draw := 1; ; draw++ {
		if err := in.foreignMAC(ctx, kind, inst.Node, nic.MAC); err == nil {
			r, err = in.store.Accept(ctx, seedbed.Acceptance{Job: jobOn(inst, kind, req.JobOptions), Delivery: delivery, NIC: &nic})
			if !errors.Is(err, seedbed.ErrExists) || draw == macDraws || !drawn {
				return r, err
			}
			if _, taken := in.store.FreeAddr(ctx, nic.Network, nic.MAC, nic.Addr); errors.Is(taken, seedbed.ErrExists) {
				return r, err // the address is, and not the MAC address
			}
		} else if draw == macDraws || !drawn {
			return r, err
		}
		nic.MAC = in.macs.another()
	}
}

// foreignMAC returns ErrExists for a new NIC whose MAC address is used on the node.
func (in *Intake) foreignMAC(ctx context.Context, kind seedbed.JobKind, node string, mac seedbed.MAC) error {
	if kind != seedbed.JobNICAdd || in.serving.MACTaken == nil {
		return nil
	}
	if by := in.serving.MACTaken(node, mac); by != "" {
		return macUsed(ctx, mac, node, by)
	}
	return nil
}

// nicOf returns the instance of a request about a NIC, and the NIC as it is asked for: the new one, the one that is removed, or the one
// that goes to another network, with that and the address that it asks for there. drawn is true if its MAC address is random.
func (in *Intake) nicOf(ctx context.Context, req seedbed.Request) (inst seedbed.Instance, nic seedbed.NIC, drawn bool, err error) {
	bad := func(format string, args ...any) error {
		return seedbed.Errorf(seedbed.ErrInvalid, req.Action+": "+format, args...)
	}
	switch adds, removes := req.Action == seedbed.DoNICAdd, req.Action == seedbed.DoNICRemove; {
	case adds && req.NIC != nil:
		err = bad("nic is given: a new NIC gets the lowest index that is free")
	case !adds && req.NIC == nil:
		err = bad("nic is missing: expected the index of the NIC")
	case removes && len(req.NICs) > 0:
		err = bad("nics is given: expected only the index of the NIC")
	case !removes && len(req.NICs) != 1:
		err = bad("there are %d nics: expected one", len(req.NICs))
	}
	if err != nil {
		return inst, nic, false, err
	}
	if inst, err = in.existing(ctx, req); err != nil {
		return inst, nic, false, err
	}
	if req.Action == seedbed.DoNICAdd {
		nic, drawn, err = in.newNIC(ctx, inst, req)
		return inst, nic, drawn, err
	}
	if nic, err = inst.NICNamed(strconv.Itoa(*req.NIC)); err != nil {
		return inst, nic, false, err
	}
	if err := in.ownNIC(ctx, inst, nic); err != nil {
		return inst, nic, false, err
	}
	network := func(name string) (seedbed.Network, error) { return in.store.Network(ctx, name) }
	if req.Action == seedbed.DoNICRemove {
		nic.Network = "" // see Acceptance.NIC
		err := inst.Removable(nic)
		if err == nil {
			err = inst.KeepsMetadata(inst.Without(nic.Index), network)
		}
		return inst, nic, false, err
	}
	if nic, err = in.movedNIC(ctx, inst, nic, req.NICs[0]); err == nil {
		err = inst.KeepsMetadata(append(inst.Without(nic.Index), nic), network)
	}
	return inst, nic, false, err
}

// newNIC returns the NIC that a request adds to an instance.
func (in *Intake) newNIC(ctx context.Context, inst seedbed.Instance, req seedbed.Request) (nic seedbed.NIC, drawn bool, err error) {
	asks := seedbed.Request{Project: inst.Project, NICs: req.NICs}
	if err := checkNICs(asks, seedbed.Profile{}); err != nil {
		return nic, false, err
	}
	all, draws, err := in.requestedNICs(ctx, tailored{}, asks)
	if err != nil {
		return nic, false, err
	}
	n, err := in.store.Network(ctx, all[0].Network)
	if err != nil {
		return nic, false, err
	}
	groups, err := in.groupsOfNew(ctx, inst, n)
	if err == nil {
		err = in.grouped(ctx, asks, groups, all)
	}
	if err != nil {
		return nic, false, err
	}
	nic = all[0]
	if nic.Index, err = inst.FreeNIC(); err != nil {
		return nic, false, err
	}
	return nic, len(draws) > 0, n.Keeps(nic)
}

// groupsOfNew returns the security groups that a further NIC of an instance is in without any of its own: those of its profile, as the NICs
// that it was made with, unless the profile no longer exists or nothing keeps a NIC of the network to groups.
func (in *Intake) groupsOfNew(ctx context.Context, inst seedbed.Instance, n seedbed.Network) ([]string, error) {
	if !n.Kind.Served() || inst.Profile == "" {
		return nil, nil
	}
	p, err := in.store.Profile(ctx, inst.Profile)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil
	}
	return p.SecurityGroups, err
}

// ownNIC returns ErrConflict for a NIC that the document of an instance's script has.
func (in *Intake) ownNIC(ctx context.Context, inst seedbed.Instance, nic seedbed.NIC) error {
	doc, err := in.store.ScriptDomain(ctx, inst.ID)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		return nil
	case err != nil:
		return err
	case record.MadeOf(doc, inst) && !nic.Added:
		return seedbed.Errorf(seedbed.ErrConflict,
			"NIC %d of instance %q is one of those that its script makes: only NICs that were added to it "+
				"are removed or taken to other networks", nic.Index, inst.Name)
	}
	return nil
}

// movedNIC returns a NIC as it is in the network that a request takes it to.
func (in *Intake) movedNIC(ctx context.Context, inst seedbed.Instance, nic seedbed.NIC, asks seedbed.NICRequest) (seedbed.NIC, error) {
	switch {
	case asks.Network == "":
		return nic, seedbed.Errorf(seedbed.ErrInvalid, "NIC %d: the network is missing: expected the one that it is to go to", nic.Index)
	case asks.MAC != (seedbed.MAC{}) || len(asks.Secondary) > 0 || asks.SecondaryCount != 0 || asks.SecondaryCount6 != 0 ||
		asks.Groups != nil || asks.BandwidthIn != 0 || asks.BandwidthOut != 0:
		return nic, seedbed.Errorf(seedbed.ErrInvalid, "NIC %d: expected only a network and an address: its MAC address stays, and its security "+
			"groups, rates and secondary addresses change at once, without a job (seedbed vm security-groups, vm bandwidth, address assign)",
			nic.Index)
	}
	if err := nic.Movable(inst.Name); err != nil {
		return nic, err
	}
	name, err := in.networkKnown(ctx, inst.Project, asks.Network)
	if err != nil {
		return nic, err
	}
	if name == nic.Network {
		return nic, seedbed.Errorf(seedbed.ErrConflict, "NIC %d of instance %q is in network %q already: expected another",
			nic.Index, inst.Name, name)
	}
	n, err := in.store.Network(ctx, name)
	if err != nil {
		return nic, err
	}
	if asks.Addr.Is6() { // the NIC has it by its MAC address
		if _, err = n.Asks6(nic.MAC, asks.Addr); err != nil {
			return nic, err
		}
		asks.Addr = netip.Addr{}
	}
	_, err = n.Asks(nic.MAC, asks.Addr)
	nic.Network, nic.Addr, nic.Addr6 = name, asks.Addr, netip.Addr{}
	return nic, err
}

// planNIC returns what a job on a NIC would make of the NIC, and why it would not be accepted.
func (in *Intake) planNIC(ctx context.Context, kind seedbed.JobKind, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	p.Stages = in.stages(&seedbed.Job{Kind: kind})
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return p, note(&p, err)
	}
	inst, nic, drawn, err := in.nicOf(ctx, req)
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory = inst.Profile, inst.Image, inst.Node, inst.VCPUs, inst.Memory
	if seedbed.IsTenant(ctx) {
		p.Node = ""
	}
	if err != nil {
		return p, note(&p, err)
	}
	if inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: it must be running or stopped", inst.Name, inst.State))
	}
	running := inst.State == seedbed.InstanceRunning
	if kind == seedbed.JobNICRemove {
		p.NICs = inst.Without(nic.Index)
		if with := nic.Releases(); with != "" {
			p.Notes = append(p.Notes, "released with NIC "+fmt.Sprint(nic.Index)+": "+with)
		}
	} else {
		p.Node = inst.Node // where the MAC address must be free
		err = in.planNICs(ctx, &p, []seedbed.NIC{nic}, func(int) bool { return drawn || kind == seedbed.JobNICSet })
		if kind == seedbed.JobNICSet && len(p.NICs) == 1 {
			p.NICs[0].MAC, p.NICs[0].Groups = nic.MAC, slices.Clone(nic.Groups)
		}
		if drawn {
			p.Notes = append(p.Notes, drawnMACs)
		}
		if seedbed.IsTenant(ctx) {
			p.Node = ""
		}
	}
	if running && kind != seedbed.JobNICAdd {
		p.Notes = append(p.Notes, "the guest runs, and must let go of the NIC")
	}
	return p, err
}
