package worker

import (
	"context"
	"io"
	"net"

	"seedbed"
)

// Cloner makes volumes.
type Cloner interface {
	// CloneVolume makes the volume that spec asks for, tagged with its instance and job, and
	// returns it. An existing volume with the same name, instance, image and size is returned
	// unchanged. Errors: ErrConflict if anything else has the name, ErrNotFound without the image,
	// ErrInvalid if the size is below the image's (or zero for a blank volume) or the name cannot
	// be used, ErrFull without room. After an error no partly made volume is left.
	CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error)
}

// Copier makes volumes with the content of others.
type Copier interface {
	// CopyVolume makes a volume like CloneVolume, with the content that another one has at one moment of the call, or had at its snapshot
	// spec.At, and of which it is independent afterwards. A second call of the same job continues the first. progress may be nil, as for
	// ImportImage. After an error, a volume that is not whole may be left, which StopFlatten and RemoveVolume remove, and the snapshot of
	// the other one, which RemoveSnapshot removes. Errors: those of CloneVolume; ErrNotFound without the other volume, ErrConflict if it
	// is not tagged with spec.Of, ErrInvalid if it is larger than the size, ErrInUse if the driver cannot copy a volume that is in use.
	CopyVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, progress func(seedbed.Progress)) (seedbed.VolumeInfo, error)
}

// Remover removes volumes.
type Remover interface {
	// RemoveVolume removes the volume of that name if it is tagged with id. An absent volume counts
	// as removed. A volume that is not tagged with id returns ErrConflict and is not touched.
	RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error
}

// ImageStore keeps the images that volumes are cloned from.
type ImageStore interface {
	// ImportImage makes an image from a file of this host, tagged with job, or with the content that a volume has at one moment of the
	// call, or had at its snapshot spec.At. An existing image with the same name and job is returned unchanged. progress may be nil; it
	// is called from one goroutine at a time, and never after the return. Errors: ErrNotFound without the file, ErrInvalid if the file is
	// not a usable disk image or has another digest, ErrConflict if the name is taken, ErrFull without room. After an error no partly
	// made image is left. For a volume, the snapshot of it that RemoveSnapshot removes may be left after an error, and the errors are
	// those of CopyVolume as well.
	ImportImage(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (seedbed.ImageInfo, error)
	// CheckImport returns ErrNotFound or ErrInvalid if ImportImage would not find the file of spec or
	// could not open it. It does not read the file.
	CheckImport(ctx context.Context, spec seedbed.ImageSpec) error
	// ImageDisk returns how a hypervisor reads the image of that name, which it must not write to. Errors: ErrNotFound without it,
	// ErrInvalid for a name that cannot be used, ErrConflict for one without the tag.
	ImageDisk(ctx context.Context, name string) (seedbed.Disk, error)
	// RemoveImage removes the image of that name if it is tagged with job. An absent image counts
	// as removed. An image that is not tagged with job returns ErrConflict, one that has clones
	// ErrInUse, and neither is touched.
	RemoveImage(ctx context.Context, job seedbed.JobID, name string) error
}

// Lister lists the contents of a pool.
type Lister interface {
	// Volumes returns all volumes that carry Seedbed's tag, or an error: never a part of them.
	Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error)
	// Images returns all images that carry Seedbed's tag, or an error: never a part of them.
	Images(ctx context.Context) ([]seedbed.ImageInfo, error)
	// Info returns the room in the pool, and whether the pool is shared. Fields that do not depend
	// on an answer of the storage are set even if there is an error.
	Info(ctx context.Context) (seedbed.PoolInfo, error)
}

// Pool is everything that the worker needs of a storage driver. Its methods may be called at the
// same time, and return soon after their context has ended.
type Pool interface {
	Cloner
	Copier
	Remover
	ImageStore
	Lister
	Snapshotter
	Trash
	Flattener
	Spooler
	Mapper
	Adopter
	Resizer
	Archiver
}

// Definer defines domains at the hypervisor.
type Definer interface {
	// DefineDomain defines the domain that spec asks for, tagged with its job. It does not start
	// the domain. A tagged domain with the same ID and name is not changed. A domain with the same
	// name and another ID, or the same ID and another name, or without the tag, returns ErrConflict
	// and is not touched.
	DefineDomain(ctx context.Context, spec seedbed.DomainSpec) error
	// SeedDomain makes the CD-ROM of an instance's domain, which need not be defined yet, or makes it again. A guest that
	// runs keeps the former one until it is started again. ErrInvalid for files that are not those of a seed.
	SeedDomain(ctx context.Context, s seedbed.Seed) error
	// UndefineDomain undefines the domain and removes its console log and its CD-ROM. An absent domain counts as
	// undefined. A domain that runs returns ErrInUse, one without the tag ErrConflict, and neither
	// is touched.
	UndefineDomain(ctx context.Context, id seedbed.InstanceID) error
	// UndefineKept is like UndefineDomain. It keeps the variables of the firmware and the state of the TPM for the next domain with the
	// same ID and name.
	UndefineKept(ctx context.Context, id seedbed.InstanceID) error
}

// Power switches domains on and off.
type Power interface {
	// StartDomain starts the domain; a domain that runs is not changed. Errors: ErrNotFound if it
	// is not defined, ErrConflict if it is not tagged.
	StartDomain(ctx context.Context, id seedbed.InstanceID) error
	// ShutdownDomain asks the domain's guest to shut down. It does not wait until the guest has,
	// because a guest may take its time, or ignore the request. It may be called again. A domain
	// that is off or absent needs no request. Errors: ErrConflict if it is not tagged, ErrInUse
	// while it is paused.
	ShutdownDomain(ctx context.Context, id seedbed.InstanceID) error
	// DestroyDomain switches the domain off at once. A domain that is off or absent counts as
	// switched off. ErrConflict if it is not tagged.
	DestroyDomain(ctx context.Context, id seedbed.InstanceID) error
}

// Mover takes domains from one node to another.
type Mover interface {
	// CopyDomain returns the domain as ReceiveDomain of another node takes it, with at most seedbed.MaxConsoleCopy of its console.
	// Errors: ErrNotFound for a domain that is not defined or not tagged, ErrInvalid if the variables of its firmware exceed
	// seedbed.MaxVariables.
	CopyDomain(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainCopy, error)
	// ReceiveDomain defines the domain without starting it. One with that ID and the copy's name that exists is not changed.
	// The copy's console, unless it is empty, is what the console shows of the time before. Errors: ErrConflict if the ID or the name is
	// another domain's, ErrInvalid for a copy that is not of a tagged domain of that ID.
	ReceiveDomain(ctx context.Context, c seedbed.DomainCopy) error
	// MigrateDomain takes the domain, which runs, to another hypervisor, where it may be defined already and is defined then. Here
	// the domain is off afterwards and stays defined. A migration of it that is under way is waited for, and one that has succeeded
	// is not repeated. If ctx ends, or after another error than ErrUnavailable, the domain runs here as before. progress may be nil;
	// it is called from one goroutine at a time, and never after the return. Errors: ErrNotFound for a domain that is not
	// defined, ErrConflict if it is not tagged, does not run, or cannot be migrated while it runs.
	MigrateDomain(ctx context.Context, m seedbed.Migration, progress func(seedbed.Progress)) error
	// StopMigration ends a migration of the domain that is under way from this hypervisor, and returns once there is none. A domain that is
	// not migrated, or absent, is not changed. ErrConflict if it is not tagged.
	StopMigration(ctx context.Context, id seedbed.InstanceID) error
}

// Inspector reports the domains.
type Inspector interface {
	// DomainState returns one tagged domain; ErrNotFound if the domain with that ID does not exist
	// or is not tagged.
	DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error)
	// Domains returns all tagged domains, including those that are off, or an error: never a part
	// of them.
	Domains(ctx context.Context) ([]seedbed.DomainInfo, error)
	// Console returns the end of the domain's serial console, at most tail bytes. It is empty for a
	// domain that has written nothing. ErrNotFound for a domain that is not defined or not tagged.
	Console(ctx context.Context, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error)
	// Screenshot returns what the screen of a domain that runs shows, as a PNG of at most seedbed.MaxScreenshot. Errors:
	// ErrNotFound, ErrConflict if the domain does not run, or has no screen or a too large one.
	Screenshot(ctx context.Context, id seedbed.InstanceID) ([]byte, error)
	// DomainXML returns the definitions of domains as libvirt's XML, as they are at the next start,
	// without passwords. Domains that are not defined or not tagged are not in the answer.
	DomainXML(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]string, error)
	// DomainUsage returns what the tagged domains that run have used, in no particular order. One of which the figures cannot be
	// read now is left out.
	DomainUsage(ctx context.Context) ([]seedbed.DomainUsage, error)
	// Report returns what the host has for guests, without its pools.
	Report(ctx context.Context) (seedbed.NodeReport, error)
}

// Terminal opens what people work at.
type Terminal interface {
	// OpenConsole opens the serial console of a domain that runs. Read waits for output, and returns io.EOF when the domain has
	// ended, or another error once the console is lost or closed. Write waits while the guest does not read, and returns
	// ErrUnavailable after some seconds. Close may be called more than once, and at any time. force takes the console from what
	// else has opened it. Errors: ErrNotFound for a domain that is not defined or not tagged, ErrConflict for one that is off
	// or has no serial console, ErrInUse if something else has opened the console and force is not set.
	OpenConsole(ctx context.Context, id seedbed.InstanceID, force bool) (io.ReadWriteCloser, error)
	// OpenScreen opens a connection to the VNC server of a domain that runs, without the server's password. It reads io.EOF when
	// the server ends it, as it does when the domain ends. There may be several at a time. Errors: ErrNotFound, ErrConflict if the
	// domain does not run, or has no screen.
	OpenScreen(ctx context.Context, id seedbed.InstanceID) (net.Conn, error)
}

// Agent talks with the QEMU guest agents of domains.
type Agent interface {
	// AskAgent asks the agent of a domain's guest (https://www.qemu.org/docs/master/interop/qemu-ga-ref.html). The request is JSON
	// with the members execute and arguments, and the answer JSON with the member return. The answer is the guest's: it has at most
	// some MiB, and may be anything. Errors: ErrNotFound; ErrConflict if the domain does not run, or there is no agent that answers;
	// ErrAgentRefuses; ErrTooLargeAnswer; ErrUnavailable if the agent has taken the request and does not answer within some seconds,
	// so what it was asked may have been done.
	AskAgent(ctx context.Context, id seedbed.InstanceID, request []byte) ([]byte, error)
}

// Watcher follows the domains.
type Watcher interface {
	// Watch calls event for every change of a tagged domain until ctx ends, and then returns the
	// context's error. The first event is always a resync, sent once changes are being followed;
	// another resync follows whenever changes may have been missed. event is called from one
	// goroutine at a time and must not block.
	Watch(ctx context.Context, event func(seedbed.DomainEvent)) error
}

// Checker checks the health of what a driver controls.
type Checker interface {
	// Health returns at least one check; it never fails as a whole.
	Health(ctx context.Context) []seedbed.Check
}

// Hypervisor is everything that the worker needs of a hypervisor driver. Its methods may be called
// at the same time, and return soon after their context has ended. If the hypervisor does not
// answer, they return ErrUnavailable.
//
// A Hypervisor that also implements Network reports the MAC addresses that others use.
type Hypervisor interface {
	Definer
	Power
	Mover
	Inspector
	Terminal
	Agent
	Watcher
	Checker
	DomainAdopter
	DomainResizer
	DomainChanger
	DiskAttacher
	DiskSnapshotter
	NICAttacher
}

// Network knows the other users of the node's networks.
type Network interface {
	// TakenMACs returns the MAC addresses of domains without Seedbed's tag and of neighbours, which
	// may be Seedbed's own instances.
	TakenMACs(ctx context.Context) ([]seedbed.TakenMAC, error)
}
