package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"seedbed"
)

// Adopt accepts a request to bring a domain, as its node's worker describes it, and its disks under
// management. The instance belongs to the default project, and takes the domain's name, UUID, MAC
// addresses and size. It is served metadata like any other, but no user-data. Errors:
// seedbed.ErrConflict with every reason why the domain cannot be adopted, ErrInvalid for an address,
// ErrExists with the holder for a name or an address in use.
func (in *Intake) Adopt(ctx context.Context, f seedbed.ForeignDomain, req seedbed.AdoptRequest,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := seedbed.CheckTags(req.Tags); err != nil {
		return seedbed.Receipt{}, err
	}
	inst := seedbed.Instance{
		ID: f.ID, Project: seedbed.DefaultProject, Name: f.Name, Node: f.Node,
		State: seedbed.InstanceProvisioning, VCPUs: f.VCPUs, Memory: f.Memory,
		Ready: seedbed.ReadyStarted, Held: true, Datasource: seedbed.DatasourceNone, Tags: req.Tags,
		System: seedbed.System{Serial: true},
	}
	inst.Metadata = inst.Metadata.WithDefaults(seedbed.MetadataOptions{})
	problems := f.Problems
	nics, wrong, err := in.adoptedNICs(ctx, f, req.Addresses)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if problems = append(problems, wrong...); len(problems) > 0 {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "domain %q cannot be adopted as it is: %s", f.Name,
			strings.Join(problems, "; "))
	}
	inst.NICs = nics
	var spec seedbed.AdoptSpec
	for i, d := range f.Disks {
		inst.Volumes = append(inst.Volumes,
			seedbed.Volume{Name: fmt.Sprintf("%s-%d", f.ID, i), Pool: d.Pool, Index: i, Size: d.Size, Image: d.Image})
		spec.Sources = append(spec.Sources, d.Source)
	}
	if len(f.Disks) > 0 {
		inst.Image = f.Disks[0].Image
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the adoption of %s: %w", f.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobAdopt, State: seedbed.JobQueued, Subject: f.Name, Instance: f.ID,
			Node: f.Node, Spec: raw, JobOptions: o},
		Instance: &inst,
	})
}

// adoptedNICs returns the domain's NICs on the networks of their bridges. problems names the NICs
// whose bridge belongs to no network.
func (in *Intake) adoptedNICs(ctx context.Context, f seedbed.ForeignDomain,
	addresses []string) (nics []seedbed.NIC, problems []string, err error) {
	if len(addresses) > len(f.NICs) {
		return nil, nil, seedbed.Errorf(seedbed.ErrInvalid,
			"%d addresses for %d NICs: expected at most one for each, in their order", len(addresses),
			len(f.NICs))
	}
	all, err := in.store.Networks(ctx)
	if err != nil {
		return nil, nil, err
	}
	byBridge, names := map[string]seedbed.Network{}, []string{}
	for _, n := range all {
		byBridge[n.Bridge] = n
		names = append(names, fmt.Sprintf("%s (%s)", n.Name, n.Bridge))
	}
	for i, n := range f.NICs {
		nic := seedbed.NIC{Index: i, MAC: n.MAC, Groups: []string{seedbed.OpenGroup}} // what it does goes on
		network, ok := byBridge[n.Bridge]
		if !ok {
			problems = append(problems,
				fmt.Sprintf(
					"NIC %s is on bridge %q, which does not belong to a network: expected one of %s", n.MAC, n.Bridge, strings.Join(names, ", ")))
			continue
		}
		nic.Network = network.Name
		if i < len(addresses) && addresses[i] != "" {
			if nic.Addr, err = netip.ParseAddr(addresses[i]); err == nil {
				_, err = network.Asks(nic.MAC, nic.Addr)
			}
			if err != nil {
				return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "address %q of NIC %s: %v", seedbed.Clip(addresses[i]), n.MAC, err)
			}
		}
		nics = append(nics, nic)
	}
	return nics, problems, nil
}

// Forget accepts a request to stop managing the instance name. Its domain and disks are left
// unchanged. The errors are those of Flatten.
func (in *Intake) Forget(ctx context.Context, name seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.onVolumes(ctx, seedbed.JobForget, name, o)
}
