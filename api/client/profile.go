package client

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// settings returns p without the fields that the server sets.
func settings(p seedbed.Profile) seedbed.Profile {
	p.ID, p.Revision, p.Created, p.Changed, p.Published = 0, 0, time.Time{}, time.Time{}, nil
	return p
}

// CreateProfile creates a profile. It returns seedbed.ErrExists when the name is taken.
func (c *Client) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	return post[seedbed.Profile](ctx, c, "/profiles", settings(p))
}

// ChangeProfile replaces a profile by p; the name cannot change. p must have been read before: if
// the profile was changed since, the error is seedbed.ErrConflict.
func (c *Client) ChangeProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	return put[seedbed.Profile](ctx, c, at("/profiles", p.Name), wire.Tag(p.Revision, p.Created, p.Published), settings(p))
}

// Profiles lists the profiles.
func (c *Client) Profiles(ctx context.Context) ([]seedbed.Profile, error) {
	return c.ListProfiles(ctx, seedbed.ProfileQuery{})
}

// Profile returns a profile, or seedbed.ErrNotFound.
func (c *Client) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return get[seedbed.Profile](ctx, c, at("/profiles", name), nil)
}

// DeleteProfile removes a profile. Instances made from it stay.
func (c *Client) DeleteProfile(ctx context.Context, name string) error {
	return c.remove(ctx, at("/profiles", name))
}
