package provision

import (
	"crypto/sha256"
	"encoding/hex"

	"seedbed"
)

// GuestOf is the record that the guest plane serves an instance from.
func GuestOf(inst seedbed.Instance) seedbed.Guest {
	g := seedbed.Guest{
		ID: inst.ID, Name: inst.Name, Profile: inst.Profile, Image: inst.Image, VCPUs: inst.VCPUs, Memory: inst.Memory,
		SSHKeys: inst.SSHKeys, ReportToken: inst.ReportToken, Created: inst.Created, Node: inst.Node,
	}
	for _, nic := range inst.NICs {
		g.NICs = append(g.NICs, seedbed.GuestNIC{ID: nic.ID, MAC: nic.MAC, Network: nic.Network, Addr: nic.Addr})
	}
	if inst.UserData != nil {
		sum := sha256.Sum256(inst.UserData)
		g.UserData = &seedbed.Blob{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(inst.UserData))}
	}
	return g
}

// domainOf is the domain that an instance asks for; disks are in the order of
// its volumes, bridges are by network name.
func domainOf(inst seedbed.Instance, job seedbed.JobID, disks []seedbed.Disk, bridges map[string]string) seedbed.DomainSpec {
	spec := seedbed.DomainSpec{
		ID: inst.ID, Name: inst.Name, VCPUs: inst.VCPUs, Memory: inst.Memory,
		Disks: disks, Profile: inst.Profile, Job: job,
	}
	for _, nic := range inst.NICs {
		spec.NICs = append(spec.NICs, seedbed.DomainNIC{Tap: nic.ID.Tap(), MAC: nic.MAC, Bridge: bridges[nic.Network]})
	}
	return spec
}
