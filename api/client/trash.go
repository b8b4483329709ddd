package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// binTimeout is for what may have much to delete.
const binTimeout = 2 * time.Minute

// Trash lists what was removed and still exists, on that node or without its name on all.
func (c *Client) Trash(ctx context.Context, node string) ([]wire.TrashItem, error) {
	return get[[]wire.TrashItem](ctx, c, "/trash", onNode(node))
}

// RestoreVolume makes what is in a pool's trash a volume again, of no instance: that
// of a node, or without its name the only one; seedbed.ErrConflict, which names the
// nodes, when several have one of that ID.
func (c *Client) RestoreVolume(ctx context.Context, node, pool, id string) (seedbed.VolumeInfo, error) {
	var v seedbed.VolumeInfo
	err := c.do(ctx, call{method: http.MethodPost, path: at(at("/trash", pool), id) + "/restore", query: onNode(node), answer: &v})
	return v, err
}

// DiscardVolume puts a restored volume back into the trash, on the nodes of
// RestoreVolume; the answer is nil when its pool keeps none, so that it is gone.
func (c *Client) DiscardVolume(ctx context.Context, node, pool, name string) (*wire.TrashItem, error) {
	body := wire.DiscardRequest{Pool: pool, Name: name}
	var answer []byte
	err := c.do(ctx, call{method: http.MethodPost, path: "/trash", query: onNode(node), body: body, raw: &answer, timeout: binTimeout})
	if err != nil || len(answer) == 0 {
		return nil, err
	}
	item := new(wire.TrashItem)
	if err := json.Unmarshal(answer, item); err != nil {
		return nil, fmt.Errorf("POST /trash: the answer is not Seedbed's (is %s its API?): %w", c.where, err)
	}
	return item, nil
}

// PurgeVolume removes what is in a pool's trash for good, on the nodes of RestoreVolume.
func (c *Client) PurgeVolume(ctx context.Context, node, pool, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: at(at("/trash", pool), id), query: onNode(node), timeout: binTimeout})
}
