package intake

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// The size of an instance that is made from an image without a profile, unless the request sets it.
// A larger image makes a larger disk.
const (
	launchVCPUs  = 1
	launchMemory = seedbed.GiB
	launchDisk   = 10 * seedbed.GiB
)

// origin returns what a create makes its instance from: the profile that it names or, for a create
// from an image, or from an ISO image to a blank disk, a profile without a name. A network in the request takes the place of the
// profile's, or of that of its first NIC.
func (in *Intake) origin(ctx context.Context, req seedbed.Request) (p seedbed.Profile, err error) {
	switch iso, _ := req.Params["cdrom"].(string); {
	case req.Image == "" && req.Profile == "" && iso != "":
		p = unnamed()
		p.DiskSize, p.Ready = launchDisk, seedbed.ReadyStarted
		if len(req.NICs) == 0 {
			req.Network = cmp.Or(req.Network, in.serving.Network)
		}
	case req.Image == "":
		p, err = in.profile(ctx, req.Project, req.Profile)
	case req.Profile != "":
		err = seedbed.Errorf(seedbed.ErrInvalid, "profile %s and image %s are both given: expected only one, since the profile has its image",
			seedbed.Clip(req.Profile), seedbed.Clip(req.Image))
	default:
		p, err = in.nameless(ctx, req.Project, req.Image)
		if len(req.NICs) == 0 {
			req.Network = cmp.Or(req.Network, in.serving.Network)
		}
	}
	switch {
	case err != nil:
		return p, err
	case req.NICs != nil:
		return p, checkNICs(req, p)
	case req.Network == "":
		return p, nil
	}
	templated := p.NetworkTemplate+p.Expressions["network_template"] != "" && p.Network+p.Expressions["network"] == ""
	if templated || p.Script != "" {
		return p, seedbed.Errorf(seedbed.ErrInvalid,
			"network: profile %s has its networks from a network template or a script: expected no network", p.Name)
	}
	if req.Network, err = in.networkKnown(ctx, req.Project, req.Network); err != nil {
		return p, err
	}
	if len(p.NICs) > 0 {
		p.NICs = slices.Clone(p.NICs)
		p.NICs[0].Network = req.Network
		return p, nil
	}
	p.Network, p.Expressions = req.Network, maps.Clone(p.Expressions)
	delete(p.Expressions, "network")
	return p, nil
}

// nameless returns a profile for instances that a project makes from an image.
func (in *Intake) nameless(ctx context.Context, project, name string) (p seedbed.Profile, err error) {
	qualified, err := in.store.Resolve(ctx, seedbed.PublishedImage, project, name)
	var image seedbed.Image
	if err == nil {
		image, err = in.store.Image(ctx, qualified)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist: expected one of seedbed image list", name)
	}
	p = unnamed()
	p.Image, p.DiskSize = qualified, max(launchDisk, image.Size)
	return p, err
}

// unnamed returns what instances without a profile have in common.
func unnamed() seedbed.Profile {
	return seedbed.Profile{
		VCPUs: launchVCPUs, Memory: launchMemory, SSHKeys: []string{},
		Tags: map[string]string{}, Ready: seedbed.ReadyMetadata, Follow: seedbed.FollowPinned, Datasource: seedbed.DatasourceEC2,
	}
}

// networkKnown returns the qualified name of a network that a request of a project names. It refuses one
// that the project may not use.
func (in *Intake) networkKnown(ctx context.Context, project, name string) (string, error) {
	qualified, err := in.store.Resolve(ctx, seedbed.PublishedNetwork, project, name)
	if !errors.Is(err, seedbed.ErrNotFound) {
		return qualified, err
	}
	all, err := in.store.Networks(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, n := range all {
		if n.Published.Lets(project, n.Name) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	if names == nil {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist, and no other is published to project %s", name, project)
	}
	return "", seedbed.Errorf(seedbed.ErrInvalid, "network %q does not exist; there are: %s", name, strings.Join(names, ", "))
}

// relaunched returns the profile for a rebuild of an instance that has none, and the request's
// parameters with the documents that the instance was made with. image is that of the request.
func (in *Intake) relaunched(ctx context.Context, now seedbed.Instance, image string, given map[string]any) (seedbed.Profile,
	map[string]any, error) {
	if image == "" && now.Image != "" {
		image = seedbed.Explicit(now.Image)
	}
	switch {
	case image == "":
		return seedbed.Profile{}, nil, seedbed.Errorf(seedbed.ErrInvalid,
			"instance %q has neither a profile nor an image: expected one of them to rebuild it from%s", now.Name, in.profileNames(ctx, now.Project))
	case len(now.Volumes) > 1:
		return seedbed.Profile{}, nil, seedbed.Errorf(seedbed.ErrConflict,
			"instance %q has %d disks and no profile that says what they are made from: expected a profile", now.Name, len(now.Volumes))
	}
	p, err := in.nameless(ctx, now.Project, image)
	p.DiskSize, p.Ready, p.Datasource = 0, now.Ready, cmp.Or(now.Datasource, p.Datasource)
	return p, over(ownDocuments(now.Params, given), given), err
}

// documentParams are the parameters of a request that hold documents, as text and in base64.
var documentParams = [][2]string{{"user_data", "user_data_base64"}, {"vendor_data", "vendor_data_base64"}}

// ownDocuments returns those of an instance's parameters that hold its documents, without those that
// a request replaces.
func ownDocuments(stored, given map[string]any) map[string]any {
	kept := map[string]any{}
	for _, pair := range documentParams {
		for _, name := range pair {
			if v, ok := stored[name]; ok && given[pair[0]] == nil && given[pair[1]] == nil {
				kept[name] = v
			}
		}
	}
	if v, ok := stored[vendorInUser]; ok {
		kept[vendorInUser] = v
	}
	return kept
}

// vendorInUser is the parameter that sends vendor-data as part of the user-data.
const vendorInUser = "vendor_data_in_user_data"

// storedParams returns the parameters of a request that an instance keeps: those that its templates
// read and, without a profile that has them, its documents.
func (m tailored) storedParams(s shape) map[string]any {
	if m.Name != "" {
		return s.rest
	}
	if own := ownDocuments(m.given, nil); len(own) > 0 {
		return over(s.rest, own)
	}
	return s.rest
}
