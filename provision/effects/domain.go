package effects

import (
	"time"

	"seedbed"
)

// The effects on domains.
var (
	DefineDomain   = Order[seedbed.DomainSpec]{"define-domain"}
	UndefineDomain = Order[DomainRef]{"undefine-domain"}
	// UndefineKept undefines a domain that is defined again with the same disks: its firmware and its TPM keep what they have.
	UndefineKept = Order[DomainRef]{"undefine-domain-kept"}
	// SeedDomain makes the CD-ROM with an instance's metadata, or makes it again. UndefineDomain removes it.
	SeedDomain  = Order[seedbed.Seed]{"seed-domain"}
	StartDomain = Order[DomainRef]{"start-domain"}
	// ShutdownDomain asks the guest to shut down. It does not wait until the guest has.
	ShutdownDomain = Order[DomainRef]{"shutdown-domain"}
	DestroyDomain  = Order[DomainRef]{"destroy-domain"}
	ResizeDomain   = Order[DomainSize]{"resize-domain"}
	// ChangeDomain changes a domain, and its guest as far as that is possible while it runs.
	ChangeDomain = Effect[seedbed.DomainChange, DomainChanged]{"change-domain"}
	// RenameDomain gives a domain that is off another name.
	RenameDomain = Order[NamedDomain]{"rename-domain"}
	// AttachDisk attaches a volume to a domain, and to its guest if it runs. DetachDisk takes it away.
	AttachDisk = Order[DiskAttachment]{"attach-disk"}
	DetachDisk = Order[DiskSerial]{"detach-disk"}
	// LimitDisk says how fast an attached volume may be, from now on and at each later start.
	LimitDisk = Order[DiskLimits]{"limit-disk"}
	// AttachNIC attaches a NIC to a domain, and to its guest if it runs. DetachNIC takes it away.
	AttachNIC = Order[NICAttachment]{"attach-nic"}
	DetachNIC = Order[NICRef]{"detach-nic"}
	// MigrateDomain takes a domain that runs to the hypervisor of another node. Here it is off then, and still defined.
	MigrateDomain = Effect[seedbed.Migration, None]{"migrate-domain"}
	// StopMigration ends such a migration, unless it has succeeded, and returns once no migration is under way.
	StopMigration = Order[DomainRef]{"stop-migration"}
	// ReceiveDomain defines a domain of another node here, unless it is defined, and keeps the end of its console.
	ReceiveDomain = Order[seedbed.DomainCopy]{"receive-domain"}
	AdoptDomain   = Order[seedbed.DomainAdoption]{"adopt-domain"}
	ReleaseDomain = Order[seedbed.DomainAdoption]{"release-domain"}

	DomainState = Query[DomainRef, seedbed.DomainInfo]{"domain-state"}
	// Console returns the end of a domain's console, 1 byte to 16 MiB.
	Console = Query[ConsoleTail, []byte]{"console"}
	// Screenshot returns what a domain's screen shows, as a PNG of at most seedbed.MaxScreenshot.
	Screenshot = Query[DomainRef, []byte]{"screenshot"}
	// GuestExec has a guest's agent run a program. It returns only the program's ID.
	GuestExec = Query[GuestCommand, seedbed.GuestProcess]{"guest-exec"}
	// GuestWait returns when such a program has exited, or after some seconds. The output can be asked for again for some minutes,
	// unless the worker restarts.
	GuestWait = Query[GuestProcess, seedbed.GuestProcess]{"guest-wait"}
	// FreezeGuest has a guest's agent write out its file systems and freeze them. They thaw with ThawGuest, or after FreezeTime. The errors
	// are those of GuestExec: the guest is then not frozen, as far as its agent can be reached.
	FreezeGuest = Order[DomainRef]{"freeze-guest"}
	// ThawGuest thaws them. It returns how many were frozen until now.
	ThawGuest = Effect[DomainRef, int]{"thaw-guest"}
	// DomainXML returns the definitions of domains, without those that do not exist.
	DomainXML = Query[DomainRefs, map[seedbed.InstanceID]string]{"domain-xml"}
	// CopyDomain returns a domain as another node gets it.
	CopyDomain = Query[DomainRef, seedbed.DomainCopy]{"copy-domain"}
	// Watch sends every change of a domain. The first event is always a resync.
	Watch = Stream{"watch"}
	// ForeignDomains lists the domains that do not carry Seedbed's tag.
	ForeignDomains = Query[None, []seedbed.ForeignDomain]{"foreign-domains"}
	// ForeignDomain returns one of them, with the pools that can take its disks.
	ForeignDomain = Query[DomainName, seedbed.ForeignDomain]{"foreign-domain"}
)

// FreezeTime is how long a guest's file systems stay frozen at most.
const FreezeTime = time.Minute

type (
	// DomainRef names an instance's domain.
	DomainRef struct {
		ID seedbed.InstanceID `json:"id"`
	}
	// DomainRefs names the domains of 1 to MaxDomainXML instances.
	DomainRefs struct {
		IDs []seedbed.InstanceID `json:"ids"`
	}
	// GuestCommand is a program for a guest.
	GuestCommand struct {
		ID      seedbed.InstanceID   `json:"id"`
		Command seedbed.GuestCommand `json:"command"`
	}
	// GuestProcess is a program that runs in a guest.
	GuestProcess struct {
		ID      seedbed.InstanceID `json:"id"`
		Process int64              `json:"process"`
	}
	// DomainName names a domain that may not belong to an instance.
	DomainName struct {
		Name string `json:"name"`
	}
	// NamedDomain is the name that an instance's domain is to have, as seedbed.InstanceName.String has it.
	NamedDomain struct {
		ID   seedbed.InstanceID `json:"id"`
		Name string             `json:"name"`
	}
	// DomainSize is the size that a domain is to have; zero leaves a value unchanged.
	DomainSize struct {
		ID     seedbed.InstanceID `json:"id"`
		VCPUs  int                `json:"vcpus,omitempty"`
		Memory seedbed.Bytes      `json:"memory,omitempty"`
	}
	// DomainChanged names what a running guest gets only when it is started again: some of seedbed.HardwareFields.
	DomainChanged struct {
		Pending []string `json:"pending,omitempty"`
	}
	// DiskAttachment is a volume that is to be attached to a domain, as seedbed.AttachedDisk has it.
	DiskAttachment struct {
		ID     seedbed.InstanceID `json:"id"`
		Volume VolumeRef          `json:"volume"`
		Serial string             `json:"serial"`
		Bus    string             `json:"bus"`
		Device string             `json:"device"`
		Limits seedbed.IOLimits   `json:"limits,omitzero"`
	}
	// DiskLimits say how fast an attached volume of a domain may be.
	DiskLimits struct {
		DiskSerial
		Limits seedbed.IOLimits `json:"limits"`
	}
	// DiskSerial names an attached volume of a domain by its serial number.
	DiskSerial struct {
		ID     seedbed.InstanceID `json:"id"`
		Serial string             `json:"serial"`
	}
	// NICAttachment is a NIC that is to be attached to a domain.
	NICAttachment struct {
		ID  seedbed.InstanceID `json:"id"`
		NIC seedbed.DomainNIC  `json:"nic"`
	}
	// NICRef names a NIC of a domain by its MAC address.
	NICRef struct {
		ID  seedbed.InstanceID `json:"id"`
		MAC seedbed.MAC        `json:"mac"`
	}
	// ConsoleTail asks for the end of a domain's console.
	ConsoleTail struct {
		ID   seedbed.InstanceID `json:"id"`
		Tail seedbed.Bytes      `json:"tail"`
	}
)
