package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"seedbed"
)

// binTimeout is for what may have much to delete.
const binTimeout = 2 * time.Minute

// TrashItem is a volume that was removed and still exists.
type TrashItem struct {
	seedbed.TrashItem
	// InstanceName is the name that its instance had, as far as it is known still.
	InstanceName string `json:"instance_name,omitempty"`
}

// Trash lists what was removed and still exists, on that node or without its name on all.
func (c *Client) Trash(ctx context.Context, node string) ([]TrashItem, error) {
	return get[[]TrashItem](ctx, c, "/trash", onNode(node))
}

// RestoreVolume makes what is in a pool's trash a volume again, of no instance.
func (c *Client) RestoreVolume(ctx context.Context, pool, id string) (seedbed.VolumeInfo, error) {
	return post[seedbed.VolumeInfo](ctx, c, at(at("/trash", pool), id)+"/restore", nil)
}

// DiscardVolume puts a restored volume back into the trash; the answer is nil
// when its pool keeps none, so that it is gone.
func (c *Client) DiscardVolume(ctx context.Context, pool, name string) (*TrashItem, error) {
	body := struct {
		Pool string `json:"pool"`
		Name string `json:"name"`
	}{pool, name}
	var answer []byte
	err := c.do(ctx, call{method: http.MethodPost, path: "/trash", body: body, raw: &answer, timeout: binTimeout})
	if err != nil || len(answer) == 0 {
		return nil, err
	}
	item := new(TrashItem)
	if err := json.Unmarshal(answer, item); err != nil {
		return nil, fmt.Errorf("POST /trash: the answer is not Seedbed's (is %s its API?): %w", c.where, err)
	}
	return item, nil
}

// PurgeVolume removes what is in a pool's trash for good: that of a node, or
// without its name that which nodes share, or any.
func (c *Client) PurgeVolume(ctx context.Context, node, pool, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: at(at("/trash", pool), id), query: onNode(node), timeout: binTimeout})
}
