package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
)

// catalogueTimeout is how long a whole catalogue may take.
const catalogueTimeout = 2 * time.Minute

// Catalogue is what machines are composed from, in JSON as the server wrote it.
func (c *Client) Catalogue(ctx context.Context) (json.RawMessage, error) {
	var raw []byte
	err := c.do(ctx, call{method: http.MethodGet, path: "/catalogue", raw: &raw, timeout: catalogueTimeout})
	return raw, err
}

// TakeOver has the server take a catalogue over in one transaction, or only try
// to; with keep what is there stays as it is. With a conflict nothing is changed,
// which is no error.
func (c *Client) TakeOver(ctx context.Context, catalogue json.RawMessage, try, keep bool) (report seedbed.CatalogueReport, err error) {
	query := url.Values{"dry_run": {strconv.FormatBool(try)}, "keep": {strconv.FormatBool(keep)}}
	err = c.do(ctx, call{method: http.MethodPost, path: "/catalogue", query: query, body: catalogue, answer: &report, timeout: catalogueTimeout})
	return report, err
}
