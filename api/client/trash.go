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

// binTimeout is for calls that may delete much.
const binTimeout = 2 * time.Minute

// Trash lists the removed volumes that still exist. An empty node means all nodes.
func (c *Client) Trash(ctx context.Context, node string) ([]wire.TrashItem, error) {
	return c.ListTrash(ctx, Selection{Where: map[string]string{"node": node}})
}

// RestoreVolume makes a removed volume a volume without an instance. If node is empty, all nodes
// are searched. If several nodes have that ID, the error is seedbed.ErrConflict, which names them.
func (c *Client) RestoreVolume(ctx context.Context, node, pool, id string) (seedbed.VolumeInfo, error) {
	return send[seedbed.VolumeInfo](ctx, c, call{method: http.MethodPost, path: at(at("/trash", pool), id) + "/restore", query: onNode(node)})
}

// DiscardVolume puts a restored volume back into the trash. It searches nodes like RestoreVolume.
// It returns nil if the pool keeps no trash, so that the volume is gone.
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

// PurgeVolume deletes a removed volume for good. It searches nodes like RestoreVolume.
func (c *Client) PurgeVolume(ctx context.Context, node, pool, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: at(at("/trash", pool), id), query: onNode(node), timeout: binTimeout})
}
