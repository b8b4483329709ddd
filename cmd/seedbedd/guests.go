package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/identity"
	"seedbed/metadata"
	"seedbed/provision/intake"
	"seedbed/provision/placement"
	"seedbed/provision/record"
	"seedbed/store"
)

// settingIdentity is the setting that holds the key that signs identity documents, and its
// certificate. All control hosts share it.
const settingIdentity = "metadata.identity"

// openServing returns what this installation serves its guests. It also publishes the settings that
// all guest planes share.
func openServing(ctx context.Context, db *store.DB, c config.Config) (intake.Serving, error) {
	pair, err := identityPair(ctx, db, c.Identity)
	if err != nil {
		return intake.Serving{}, err
	}
	vendor, err := vendorData(c.Metadata)
	if err != nil {
		return intake.Serving{}, err
	}
	s := intake.Serving{
		Node: c.Node, Network: c.Network.Name, VendorData: vendor, MaxUserData: c.Metadata.MaxUserData,
		Renderer: record.Renderer{Region: c.Metadata.Region, Zone: c.Metadata.Zone, Key: pair.Key},
	}
	for _, p := range c.Storage.Pools {
		s.Pools = append(s.Pools, p.Name)
	}
	s.Placement = placement.Config{Selector: c.Placement.Selector, MemoryOvercommit: c.Placement.MemoryOvercommit.Bound(),
		VCPUOvercommit: c.Placement.VCPUOvercommit.Bound(), TolerateFailures: c.Placement.TolerateFailures}
	if !c.Hypervisor {
		s.Node = ""
	}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("metadata.vendor_data %s: %w", c.Metadata.VendorData, err)
	}
	return s, db.SetSite(ctx, seedbed.Site{Domain: c.Metadata.Domain, Partition: c.Metadata.Partition, Certificate: pair.Certificate.Raw})
}

// identityPair returns the key pair of the configured files or, without them, the one of the
// database, which is created at the first start.
func identityPair(ctx context.Context, db *store.DB, c config.Identity) (identity.Pair, error) {
	if c.Key != "" {
		return identity.Load(c.Key, c.Certificate)
	}
	var failed error
	text, err := db.SettingOnce(ctx, settingIdentity, func() []byte {
		text, err := identity.New()
		failed = err
		return text
	})
	if failed != nil {
		return identity.Pair{}, failed
	}
	if err != nil {
		return identity.Pair{}, err
	}
	return identity.Parse(text)
}

// vendorData reads the installation's vendor-data. It returns nil if none is configured.
func vendorData(c config.Metadata) ([]byte, error) {
	if c.VendorData == "" {
		return nil, nil
	}
	f, err := os.Open(c.VendorData)
	if err != nil {
		return nil, fmt.Errorf("metadata.vendor_data: %w", err)
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, int64(c.MaxUserData)+1))
	if err != nil {
		return nil, fmt.Errorf("metadata.vendor_data: %w", err)
	}
	return doc, nil
}

// served returns a function that renders what an instance would get from the guest plane.
func served(db *store.DB, renderer record.Renderer) func(context.Context, seedbed.Instance, string) ([]byte, string, bool, error) {
	return func(ctx context.Context, i seedbed.Instance, path string) (body []byte, contentType string, ok bool, err error) {
		v, err := view(ctx, db, renderer, i)
		if err != nil {
			return nil, "", false, err
		}
		body, contentType, ok = metadata.Render(v, path)
		return body, contentType, ok, nil
	}
}

// view collects the data for an instance's answers.
func view(ctx context.Context, db *store.DB, renderer record.Renderer, i seedbed.Instance) (v metadata.View, err error) {
	v.Guest = renderer.Of(i, seedbed.Guest{})
	switch doc, err := db.ScriptDomain(ctx, i.ID); {
	case err == nil:
		v.Guest = record.AsScripted(v.Guest, i, doc)
	case !errors.Is(err, seedbed.ErrNotFound):
		return v, err
	}
	v.Documents = seedbed.Documents{UserData: i.UserData, VendorData: i.VendorData}
	if v.Guest.Maintenance, err = db.Maintenance(ctx, "", i.ID); err != nil {
		return v, err
	}
	if v.Maintenance, err = db.Maintenance(ctx, i.Node, ""); err != nil {
		return v, err
	}
	if v.Networks, err = db.Networks(ctx); err != nil {
		return v, err
	}
	v.Site, err = db.Site(ctx)
	return v, err
}

// change returns a function that changes an instance and what its guest is served.
func change(db *store.DB, renderer record.Renderer) func(context.Context, seedbed.InstanceName,
	func(*seedbed.Instance) error) (seedbed.Instance, error) {
	return func(ctx context.Context, name seedbed.InstanceName, change func(*seedbed.Instance) error) (seedbed.Instance, error) {
		return db.ChangeInstance(ctx, name, change, renderer.Of)
	}
}
