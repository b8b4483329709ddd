package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"seedbed"
)

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var v T
	err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, answer: &v})
	return v, err
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var v T
	err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, answer: &v})
	return v, err
}

func (c *Client) remove(ctx context.Context, path string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path})
}

func limit(n int) url.Values {
	if n <= 0 {
		return nil
	}
	return url.Values{"limit": {strconv.Itoa(n)}}
}

func at(collection, name string) string { return collection + "/" + url.PathEscape(name) }

// ImageRequest asks for an image to be imported.
type ImageRequest struct {
	Name string `json:"name"`
	// Path is the file on the worker's host.
	Path string `json:"path"`
	// Pool is empty for the default pool.
	Pool string `json:"pool,omitempty"`
	// SHA256 is the digest that the file must have; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
}

// ImportImage starts an import job.
func (c *Client) ImportImage(ctx context.Context, r ImageRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/images", r)
}

// Images lists the images.
func (c *Client) Images(ctx context.Context) ([]seedbed.Image, error) {
	return get[[]seedbed.Image](ctx, c, "/images", nil)
}

// Image is one image, or seedbed.ErrNotFound.
func (c *Client) Image(ctx context.Context, name string) (seedbed.Image, error) {
	return get[seedbed.Image](ctx, c, at("/images", name), nil)
}

// CreateProfile makes a profile; seedbed.ErrExists when the name is taken.
func (c *Client) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	type profile struct { // without what the server sets
		Name     string        `json:"name"`
		Image    string        `json:"image"`
		VCPUs    int           `json:"vcpus"`
		Memory   seedbed.Bytes `json:"memory"`
		DiskSize seedbed.Bytes `json:"disk_size"`
		Network  string        `json:"network"`
		SSHKeys  []string      `json:"ssh_keys"`
		UserData []byte        `json:"user_data"`
		Ready    seedbed.Ready `json:"ready"`

		VendorData           []byte                  `json:"vendor_data"`
		VendorDataInUserData bool                    `json:"vendor_data_in_user_data"`
		Datasource           seedbed.Datasource      `json:"datasource,omitempty"`
		Metadata             seedbed.MetadataOptions `json:"metadata"`
		Tags                 map[string]string       `json:"tags"`
	}
	return post[seedbed.Profile](ctx, c, "/profiles", profile{
		p.Name, p.Image, p.VCPUs, p.Memory, p.DiskSize, p.Network, p.SSHKeys, p.UserData, p.Ready,
		p.VendorData, p.VendorDataInUserData, p.Datasource, p.Metadata, p.Tags,
	})
}

// Profiles lists the profiles.
func (c *Client) Profiles(ctx context.Context) ([]seedbed.Profile, error) {
	return get[[]seedbed.Profile](ctx, c, "/profiles", nil)
}

// Profile is one profile, or seedbed.ErrNotFound.
func (c *Client) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return get[seedbed.Profile](ctx, c, at("/profiles", name), nil)
}

// DeleteProfile removes a profile; instances that were made from it stay.
func (c *Client) DeleteProfile(ctx context.Context, name string) error {
	return c.remove(ctx, at("/profiles", name))
}

// Networks lists the managed networks.
func (c *Client) Networks(ctx context.Context) ([]seedbed.Network, error) {
	return get[[]seedbed.Network](ctx, c, "/networks", nil)
}

// Leases lists the DHCP leases.
func (c *Client) Leases(ctx context.Context) ([]seedbed.Lease, error) {
	return get[[]seedbed.Lease](ctx, c, "/leases", nil)
}
