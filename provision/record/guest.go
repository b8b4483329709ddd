package record

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"slices"

	"seedbed"
)

// Renderer makes the records from which guest planes serve instances.
type Renderer struct {
	// Region and Zone are where the instances are placed.
	Region, Zone string
	// Key signs identity documents; nil leaves them unsigned.
	Key *rsa.PrivateKey
}

// Of returns the record of an instance as it is now, without its documents and maintenance events,
// which the store adds. old is the record so far, or the zero value if there is none. Its signature
// is kept as long as it is valid, and so are the names of its disks.
func (r Renderer) Of(inst seedbed.Instance, old seedbed.Guest) seedbed.Guest {
	g := seedbed.Guest{
		ID: inst.ID, Account: inst.Account, Name: inst.Name, Profile: inst.Profile, Image: inst.Image, VCPUs: inst.VCPUs, Memory: inst.Memory,
		SSHKeys: inst.SSHKeys, Options: concise(inst.Metadata), Region: r.Region, Zone: r.Zone, Spot: inst.Spot, Expiry: inst.Expiry,
		Password:    inst.Password,
		ReportToken: inst.ReportToken, Created: inst.Created, Node: inst.Node, Arriving: old.Arriving,
	}
	if inst.Project != seedbed.DefaultProject {
		g.Project = inst.Project
	}
	if len(inst.Tags) > 0 {
		g.Tags = inst.Tags
	}
	if inst.State == seedbed.InstanceRemoving {
		g.Action = seedbed.ActionShutdown
	}
	for _, nic := range inst.NICs {
		if nic.State == seedbed.NICPromised {
			continue
		}
		g.NICs = append(g.NICs, seedbed.GuestNIC{ID: nic.ID, MAC: nic.MAC, Network: nic.Network, Addr: nic.Addr,
			Secondary: nic.Secondary, Groups: nic.Groups, BandwidthIn: nic.BandwidthIn,
			BandwidthOut: nic.BandwidthOut, Forwards: nic.Forwards, Floating: nic.Floating, Floating6: nic.Floating6,
			Index: nic.Index, Hidden: nic.State != seedbed.NICAttached})
	}
	own := slices.DeleteFunc(slices.Clone(old.Disks), func(d seedbed.GuestDisk) bool { return d.Attached })
	for i, v := range inst.Volumes {
		device := inst.System.Disk(i)
		if len(own) == len(inst.Volumes) { // the names in the domain: a script may have chosen them
			device = own[i].Device
		}
		g.Disks = append(g.Disks, seedbed.GuestDisk{Device: device, Size: v.Size})
	}
	for _, v := range inst.Attached {
		if v.State == seedbed.VolumeAttached {
			g.Disks = append(g.Disks, seedbed.GuestDisk{Device: seedbed.DeviceOf(v), Size: v.Size, Attached: true})
		}
	}
	g.Signature = r.sign(g, old)
	return g
}

// sign signs the identity document (RFC 8017 RSASSA-PKCS1-v1_5 with SHA-256). It keeps a valid old
// signature: verifying takes a thirtieth of the time of signing, and most changes of a record leave
// its document unchanged.
func (r Renderer) sign(g, old seedbed.Guest) []byte {
	if r.Key == nil {
		return nil
	}
	doc := g.IdentityDocument()
	sum := sha256.Sum256(doc)
	if len(old.Signature) > 0 && bytes.Equal(doc, old.IdentityDocument()) &&
		rsa.VerifyPKCS1v15(&r.Key.PublicKey, crypto.SHA256, sum[:], old.Signature) == nil {
		return old.Signature
	}
	signature, err := rsa.SignPKCS1v15(nil, r.Key, crypto.SHA256, sum[:])
	if err != nil {
		return nil // no key that ParseIdentity accepts is too short for a digest
	}
	return signature
}

// concise omits options that have their default value; most records have no others.
func concise(o seedbed.MetadataOptions) seedbed.MetadataOptions {
	def := seedbed.MetadataOptions{}.WithDefaults(seedbed.MetadataOptions{})
	drop := func(v *string, d string) {
		if *v == d {
			*v = ""
		}
	}
	drop(&o.Endpoint, def.Endpoint)
	drop(&o.Tokens, def.Tokens)
	drop(&o.Tags, def.Tags)
	drop(&o.InstanceID, def.InstanceID)
	drop(&o.TargetState, def.TargetState)
	o.By = "" // what is served is the same
	if o.HopLimit == def.HopLimit {
		o.HopLimit = 0
	}
	return o
}
