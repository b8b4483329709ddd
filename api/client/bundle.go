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

// catalogueTimeout bounds a request that transfers a whole catalogue.
const catalogueTimeout = 2 * time.Minute

// Catalogue returns the whole catalogue, in JSON as the server wrote it.
func (c *Client) Catalogue(ctx context.Context) (json.RawMessage, error) {
	var raw []byte
	err := c.do(ctx, call{method: http.MethodGet, path: "/catalogue", raw: &raw, timeout: catalogueTimeout})
	return raw, err
}

// ImportCatalogue imports a catalogue in one transaction. With try it only reports what would change. With
// keep it leaves existing objects unchanged. A conflict is not an error: the report names it, and
// nothing changes.
func (c *Client) ImportCatalogue(
	ctx context.Context, catalogue json.RawMessage, try, keep bool,
) (report seedbed.CatalogueReport, err error) {
	query := url.Values{"dry_run": {strconv.FormatBool(try)}, "keep": {strconv.FormatBool(keep)}}
	err = c.do(ctx,
		call{method: http.MethodPost, path: "/catalogue", query: query, body: catalogue, answer: &report, timeout: catalogueTimeout})
	return report, err
}
