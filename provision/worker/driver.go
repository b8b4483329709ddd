package worker

import (
	"context"

	"seedbed"
)

// Cloner makes volumes.
type Cloner interface {
	// CloneVolume makes the volume that spec asks for, tagged with its instance
	// and job, and returns it. A volume of that name with the same instance, image
	// and size is returned as it is. Errors: ErrConflict when the name is taken by
	// anything else, ErrNotFound without the image, ErrInvalid when the size is
	// below the image's (or zero for a blank volume) or the name is not usable,
	// ErrFull without room. Whatever the error, no half-made volume stays.
	CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error)
}

// Remover removes volumes.
type Remover interface {
	// RemoveVolume removes the volume of that name when it is tagged with id. One
	// that is absent is removed already; one that is not tagged with id gives
	// ErrConflict and is not touched.
	RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error
}

// ImageStore keeps the images that volumes are cloned from.
type ImageStore interface {
	// ImportImage makes an image from a file of this host, tagged with job. An
	// image of that name with the same job is returned as it is. progress may be
	// nil; it is called from one goroutine at a time, and never after the return.
	// Errors: ErrNotFound without the file, ErrInvalid when the file is not a disk
	// image that can be used or has another digest, ErrConflict when the name is
	// taken, ErrFull without room. Whatever the error, no half-made image stays.
	ImportImage(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (seedbed.ImageInfo, error)
	// RemoveImage removes the image of that name when it is tagged with job. One
	// that is absent is removed already; one that is not tagged with job gives
	// ErrConflict, one that has clones ErrInUse, and neither is touched.
	RemoveImage(ctx context.Context, job seedbed.JobID, name string) error
}

// Lister says what is in a pool.
type Lister interface {
	// Volumes are all volumes that carry Seedbed's tag, or an error: never a part of them.
	Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error)
	// Images are all images that carry Seedbed's tag, or an error: never a part of them.
	Images(ctx context.Context) ([]seedbed.ImageInfo, error)
	// Info is the room in the pool, and whether it is shared. What needs no answer
	// of the storage is there even with an error.
	Info(ctx context.Context) (seedbed.PoolInfo, error)
}

// Pool is everything that the worker asks of a storage driver. Its methods may
// be called at the same time, and return soon after their context has ended.
type Pool interface {
	Cloner
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
}

// Definer makes domains known to the hypervisor.
type Definer interface {
	// DefineDomain defines the domain that spec asks for, tagged with its job, and
	// does not start it. A tagged domain with the same ID and name stays as it is. A domain
	// with the same name and another ID, or the same ID and another name, or
	// without the tag, gives ErrConflict and is not touched.
	DefineDomain(ctx context.Context, spec seedbed.DomainSpec) error
	// UndefineDomain makes the hypervisor forget the domain and removes its console
	// log. One that is absent is undefined already; one that runs gives ErrInUse,
	// one without the tag ErrConflict, and neither is touched.
	UndefineDomain(ctx context.Context, id seedbed.InstanceID) error
}

// Power switches domains on and off.
type Power interface {
	// StartDomain starts the domain; one that runs is started already. ErrNotFound
	// when it is not defined, ErrConflict when it is not tagged.
	StartDomain(ctx context.Context, id seedbed.InstanceID) error
	// ShutdownDomain asks the domain's guest to shut down, and does not wait until
	// it has: a guest may take its time, or not listen. It may be asked again. One
	// that is off or absent is off already. ErrConflict when it is not tagged, ErrInUse
	// while it is paused.
	ShutdownDomain(ctx context.Context, id seedbed.InstanceID) error
	// DestroyDomain switches the domain off at once; one that is off or absent is
	// off already. ErrConflict when it is not tagged.
	DestroyDomain(ctx context.Context, id seedbed.InstanceID) error
}

// Inspector says what domains there are.
type Inspector interface {
	// DomainState is one tagged domain; ErrNotFound when there is none of that ID, or it is not tagged.
	DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error)
	// Domains are all tagged domains, off ones included, or an error: never a part of them.
	Domains(ctx context.Context) ([]seedbed.DomainInfo, error)
	// Console is the end of the domain's serial console, at most tail bytes of it;
	// empty for a domain that has written nothing, ErrNotFound for one that is not
	// defined or not tagged.
	Console(ctx context.Context, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error)
	// Report is what the host has for guests, without its pools.
	Report(ctx context.Context) (seedbed.NodeReport, error)
}

// Watcher follows the domains.
type Watcher interface {
	// Watch calls event for every change of a tagged domain until ctx ends, and
	// then returns the context's error. The first event is always a resync, sent when changes
	// from then on are followed; another comes whenever changes may have been
	// missed. event is called from one goroutine at a time and must not block.
	Watch(ctx context.Context, event func(seedbed.DomainEvent)) error
}

// Checker looks at the health of what it drives.
type Checker interface {
	// Health is at least one check; it never fails as a whole.
	Health(ctx context.Context) []seedbed.Check
}

// Hypervisor is everything that the worker asks of a hypervisor driver. Its
// methods may be called at the same time, and return soon after their context
// has ended. One that does not answer gives ErrUnavailable.
//
// One that is a Network, too, says which MAC addresses others use.
type Hypervisor interface {
	Definer
	Power
	Inspector
	Watcher
	Checker
	DomainAdopter
	DomainResizer
}

// Network knows who else is on the node's networks.
type Network interface {
	// TakenMACs are the MAC addresses of domains without our tag and of neighbours,
	// which may be our own instances'.
	TakenMACs(ctx context.Context) ([]seedbed.TakenMAC, error)
}
