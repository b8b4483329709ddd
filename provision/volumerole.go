package provision

import (
	"context"

	"seedbed"
)

// TrashBin is what was removed and is still there.
type TrashBin interface {
	// Trash is everything that is in a node's trash or came back from it, or an error:
	// never a part of it. What is in a pool that nodes share names no node.
	Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error)
	// PurgeVolume removes an item for good; seedbed.ErrInUse when its time is not over, unless early.
	PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error
}
