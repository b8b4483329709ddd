package client

import (
	"context"
	"encoding/json"

	"seedbed"
)

// collections are where the objects of each kind are that can be published.
var collections = map[seedbed.PublishedKind]string{
	seedbed.PublishedImage:   "/images",
	seedbed.PublishedNetwork: "/networks",
	seedbed.PublishedProfile: "/profiles",

	seedbed.PublishedSystemTemplate:  systems,
	seedbed.PublishedNetworkTemplate: networks,
	seedbed.PublishedStorageTemplate: storages,
	seedbed.PublishedUserData:        "/userdata",
	seedbed.PublishedScript:          "/scripts",
	seedbed.PublishedOVA:             "/ovas",
}

// Publish says to which other projects an object is published, instead of those before, and returns the
// object as JSON. Its kind must be one of [seedbed.PublishedKinds].
func (c *Client) Publish(ctx context.Context, kind seedbed.PublishedKind, name string, to seedbed.Publication) (json.RawMessage, error) {
	return put[json.RawMessage](ctx, c, at(collections[kind], name)+"/published", "", to)
}
