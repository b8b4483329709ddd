package client

import (
	"context"
	"fmt"
	"net/http"

	"seedbed"
)

// profileBody is a profile without what the server sets.
type profileBody struct {
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

	Params          []seedbed.Param   `json:"params,omitempty"`
	Expressions     map[string]string `json:"expressions,omitempty"`
	System          string            `json:"system_template,omitempty"`
	NetworkTemplate string            `json:"network_template,omitempty"`
	Storage         string            `json:"storage_template,omitempty"`
	Document        string            `json:"userdata_document,omitempty"`
	Follow          seedbed.Follow    `json:"userdata,omitempty"`
	Protected       bool              `json:"protected,omitempty"`
	Hold            bool              `json:"hold,omitempty"`
}

func bodyOf(p seedbed.Profile) profileBody {
	return profileBody{
		p.Name, p.Image, p.VCPUs, p.Memory, p.DiskSize, p.Network, p.SSHKeys, p.UserData, p.Ready,
		p.VendorData, p.VendorDataInUserData, p.Datasource, p.Metadata, p.Tags,
		p.Params, p.Expressions, p.System, p.NetworkTemplate, p.Storage, p.Document, p.Follow, p.Protected, p.Hold,
	}
}

// CreateProfile makes a profile; seedbed.ErrExists when the name is taken.
func (c *Client) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	return post[seedbed.Profile](ctx, c, "/profiles", bodyOf(p))
}

// ChangeProfile makes a profile what p says, in all but its name. p is one that
// was read before: seedbed.ErrConflict when it was changed since.
func (c *Client) ChangeProfile(ctx context.Context, p seedbed.Profile) (made seedbed.Profile, err error) {
	tag := fmt.Sprintf(`"%d-%d"`, p.Revision, p.Created.UnixMicro())
	err = c.do(ctx, call{method: http.MethodPut, path: at("/profiles", p.Name), body: bodyOf(p), match: tag, answer: &made})
	return made, err
}

// Profiles lists the profiles.
func (c *Client) Profiles(ctx context.Context) ([]seedbed.Profile, error) {
	return c.ListProfiles(ctx, seedbed.ProfileQuery{})
}

// ProfileEntries lists the profiles of both kinds.
func (c *Client) ProfileEntries(ctx context.Context) ([]seedbed.ProfileEntry, error) {
	return get[[]seedbed.ProfileEntry](ctx, c, "/catalogue/profiles", nil)
}

// Profile is one profile, or seedbed.ErrNotFound.
func (c *Client) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return get[seedbed.Profile](ctx, c, at("/profiles", name), nil)
}

// DeleteProfile removes a profile; instances that were made from it stay.
func (c *Client) DeleteProfile(ctx context.Context, name string) error {
	return c.remove(ctx, at("/profiles", name))
}
