package api_test

import (
	"context"
	"time"

	"seedbed"
)

// UpdateHook, and the methods below it, change an object after a second writer.
func (i interrupted) UpdateHook(ctx context.Context, h seedbed.Hook, checks ...func(seedbed.Hook) error) (made seedbed.Hook, err error) {
	err = written(ctx, h.Name, i.limit, func() error {
		h.Changed = time.Time{} // only the tag says that there was another
		made, err = i.DB.UpdateHook(ctx, h, checks...)
		return err
	})
	return made, err
}

func (i interrupted) RotateHook(
	ctx context.Context, n string, key seedbed.HookKey, overlap time.Duration, checks ...func(seedbed.Hook) error,
) (h seedbed.Hook, err error) {
	err = written(ctx, n, i.limit, func() error {
		h, err = i.DB.RotateHook(ctx, n, key, overlap, checks...)
		return err
	})
	return h, err
}

// widen changes an endpoint, as a second writer.
func (i interrupted) widen(ctx context.Context, name string) error {
	e, err := i.DB.Endpoint(ctx, name)
	if err == nil {
		private := !e.AllowPrivate
		_, err = i.DB.ChangeEndpoint(ctx, name, seedbed.EndpointChange{AllowPrivate: &private})
	}
	return err
}

func (i interrupted) ChangeEndpoint(
	ctx context.Context, n string, change seedbed.EndpointChange, checks ...func(seedbed.Endpoint) error,
) (e seedbed.Endpoint, err error) {
	err = written(ctx, n, i.widen, func() error {
		e, err = i.DB.ChangeEndpoint(ctx, n, change, checks...)
		return err
	})
	return e, err
}

func (i interrupted) RotateEndpointKeys(
	ctx context.Context, n string, keys []seedbed.EndpointKey, overlap time.Duration, checks ...func(seedbed.Endpoint) error,
) (e seedbed.Endpoint, err error) {
	err = written(ctx, n, i.widen, func() error {
		e, err = i.DB.RotateEndpointKeys(ctx, n, keys, overlap, checks...)
		return err
	})
	return e, err
}

func (i interrupted) DeleteEndpoint(ctx context.Context, n string, checks ...func(seedbed.Endpoint) error) error {
	return written(ctx, n, i.widen, func() error { return i.DB.DeleteEndpoint(ctx, n, checks...) })
}

// raise changes a token's quota, as a second writer.
func (i interrupted) raise(ctx context.Context, name string) error {
	t, err := i.DB.Token(ctx, name)
	if err == nil {
		t.Quota.VCPUs++
		_, err = i.DB.SetTokenQuota(ctx, name, t.Quota)
	}
	return err
}

func (i interrupted) SetTokenQuota(
	ctx context.Context, n string, q seedbed.TokenQuota, checks ...func(seedbed.Token) error,
) (t seedbed.Token, err error) {
	err = written(ctx, n, i.raise, func() error {
		t, err = i.DB.SetTokenQuota(ctx, n, q, checks...)
		return err
	})
	return t, err
}

func (i interrupted) DeleteToken(ctx context.Context, n string, checks ...func(seedbed.Token) error) error {
	return written(ctx, n, i.raise, func() error { return i.DB.DeleteToken(ctx, n, checks...) })
}
