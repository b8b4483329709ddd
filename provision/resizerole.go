package provision

import (
	"context"

	"seedbed"
)

// Resizer changes how large volumes and domains are. Both are idempotent.
type Resizer interface {
	// ResizeVolume makes a volume larger, also while its domain runs, whose guest is then told.
	ResizeVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error)
	// ResizeDomain gives a domain that is off other vcpus and memory; what is zero
	// stays. seedbed.ErrInUse while it runs, unless it has that size already.
	ResizeDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error
}
