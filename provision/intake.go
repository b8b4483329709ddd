package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"seedbed"
	"seedbed/provision/template"
)

// Accepter records an accepted request in one transaction.
type Accepter interface {
	Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error)
}

// Definitions are what an instance is made from.
type Definitions interface {
	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	Profiles(ctx context.Context) ([]seedbed.Profile, error)
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
}

// Addresses tells which address a new instance would get.
type Addresses interface {
	// FreeAddr is the lowest free address of a network; seedbed.ErrFull when there is none.
	FreeAddr(ctx context.Context, network string) (netip.Addr, error)
}

// Existing is what was accepted before.
type Existing interface {
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// Delivery is the webhook with that ID that came to hook; seedbed.ErrNotFound when none did.
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
}

// IntakeStore is everything that the intake asks of the database.
type IntakeStore interface {
	Accepter
	Definitions
	Existing
	Addresses
	Compositions
}

// Intake checks what is asked for and records it as a job.
type Intake struct {
	store   IntakeStore
	serving Serving
	node    string
}

// NewIntake makes an intake.
func NewIntake(store IntakeStore, serving Serving) *Intake {
	return &Intake{store: store, serving: serving, node: serving.Node}
}

// macDraws is how often a taken MAC is drawn anew: 2^24 addresses make a second
// collision in a row a sign of something else.
const macDraws = 4

// Submit accepts a request to create or remove an instance; the delivery is the
// webhook that asked, nil when none did. Once it returns without error the job
// is durable. A repeated delivery gives its first receipt, even when what it asks
// for could not be accepted any more. Errors: seedbed.ErrInvalid for a wrong name,
// profile or parameter, ErrExists with the holder for a name in use, ErrInUse with
// the holder for an instance that has a live job, ErrNotFound for removing what is
// not there, ErrFull for a network without addresses, ErrConflict for a delivery
// ID that came with another body.
func (in *Intake) Submit(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	receipt, err := in.submit(ctx, req, delivery)
	if err == nil || delivery == nil || errors.Is(err, seedbed.ErrUnavailable) {
		return receipt, err
	}
	return in.repeated(ctx, *delivery, err)
}

func (in *Intake) submit(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	switch req.Action {
	case "create":
		return in.create(ctx, req, delivery)
	case "remove":
		return in.remove(ctx, req, delivery)
	case seedbed.DoStart:
		return in.power(ctx, seedbed.JobStart, req, delivery)
	case seedbed.DoStop:
		return in.power(ctx, seedbed.JobStop, req, delivery)
	case seedbed.DoReboot:
		return in.power(ctx, seedbed.JobReboot, req, delivery)
	case seedbed.DoRebuild:
		return in.rebuild(ctx, req, delivery)
	}
	return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "action %q is unknown: want create, remove, rebuild, start, stop or reboot", clip(req.Action))
}

// repeated finds the receipt of a delivery that was accepted before; cause is
// why it cannot be accepted now.
func (in *Intake) repeated(ctx context.Context, d seedbed.Delivery, cause error) (seedbed.Receipt, error) {
	first, err := in.store.Delivery(ctx, d.Hook, d.ID)
	switch {
	case err != nil, first.Job == "": // it was refused before, too
		return seedbed.Receipt{}, cause
	case first.SHA256 != d.SHA256:
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "delivery %s came before with another body: want a new webhook-id for a new request", d.ID)
	}
	job, err := in.store.Job(ctx, first.Job)
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("job of delivery %s: %w", d.ID, err)
	}
	return seedbed.Receipt{Job: job.ID, State: job.State, Duplicate: true}, nil
}

func (in *Intake) create(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	inst, compose, _, err := in.prepare(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	for draw := 1; ; draw++ {
		receipt, err := in.store.Accept(ctx, seedbed.Acceptance{
			Job:      seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate, State: seedbed.JobQueued, Subject: inst.Name, Instance: inst.ID, Node: in.node},
			Delivery: delivery,
			Instance: &inst,
			Compose:  compose,
		})
		if !errors.Is(err, seedbed.ErrExists) || draw == macDraws {
			return receipt, err
		}
		if _, nameErr := in.store.InstanceByName(ctx, req.Name); !errors.Is(nameErr, seedbed.ErrNotFound) {
			return receipt, err // the name is taken, not the address
		}
		inst.NICs[0].MAC = seedbed.NewMAC()
	}
}

// prepare makes the instance that a create asks for, with what its documents
// are composed by and the image that it is cloned from, and writes nothing.
func (in *Intake) prepare(ctx context.Context, req seedbed.Request) (inst seedbed.Instance, compose func(seedbed.Instance) (seedbed.Documents, error), image seedbed.Image, err error) {
	profile, err := in.profile(ctx, req.Profile)
	if err != nil {
		return inst, nil, image, err
	}
	s, err := shapeOf(profile, req.Params)
	if err != nil {
		return inst, nil, image, err
	}
	made, err := in.sourcesOf(profile.Ready, s).read()
	if err != nil {
		return inst, nil, image, err
	}
	if err := s.checkRest(made); err != nil {
		return inst, nil, image, err
	}
	image, err = in.image(ctx, profile, s)
	if err != nil {
		return inst, nil, image, err
	}
	if _, err := in.store.Network(ctx, profile.Network); errors.Is(err, seedbed.ErrNotFound) {
		return inst, nil, image, seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses network %s, which does not exist", profile.Name, profile.Network)
	} else if err != nil {
		return inst, nil, image, err
	}
	inst, compose, err = in.newInstance(req.Name, profile, image, s, made)
	return inst, compose, image, err
}

func (in *Intake) profile(ctx context.Context, name string) (seedbed.Profile, error) {
	if name == "" {
		return seedbed.Profile{}, seedbed.Errorf(seedbed.ErrInvalid, "profile is missing: want the name of one%s", in.profileNames(ctx))
	}
	p, err := in.store.Profile(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		return p, seedbed.Errorf(seedbed.ErrInvalid, "profile %q does not exist%s", clip(name), in.profileNames(ctx))
	}
	return p, err
}

// profileNames lists the existing profiles for a message, if they are few.
func (in *Intake) profileNames(ctx context.Context) string {
	all, err := in.store.Profiles(ctx)
	switch {
	case err != nil || len(all) > 10:
		return ""
	case len(all) == 0:
		return "; there is none yet (seedbed profile add)"
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return "; there are: " + strings.Join(names, ", ")
}

func (in *Intake) image(ctx context.Context, p seedbed.Profile, s shape) (seedbed.Image, error) {
	image, err := in.store.Image(ctx, p.Image)
	if errors.Is(err, seedbed.ErrNotFound) {
		return image, seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses image %s, which does not exist", p.Name, p.Image)
	}
	if err == nil && image.State == seedbed.ImageActive && s.disk != 0 && s.disk < image.Size {
		err = seedbed.Errorf(seedbed.ErrInvalid, "disk is %s, and image %s has %s: want at least that", s.disk, image.Name, image.Size)
	}
	return image, err
}

// newInstance is the instance; compose is set where its documents need the
// addresses that it gets in the database.
func (in *Intake) newInstance(name string, p seedbed.Profile, image seedbed.Image, s shape, made recipe) (inst seedbed.Instance, compose func(seedbed.Instance) (seedbed.Documents, error), err error) {
	var token string
	if p.Ready == seedbed.ReadyReport {
		token = newReportToken()
	}
	values := func(inst seedbed.Instance) template.Values {
		return template.Values{Guest: Renderer{Region: in.serving.Renderer.Region, Zone: in.serving.Renderer.Zone}.Of(inst, seedbed.Guest{}), Params: s.rest}
	}
	var docs seedbed.Documents
	if len(made.templates()) > 0 {
		compose = func(inst seedbed.Instance) (seedbed.Documents, error) { return made.fill(token, values(inst)) }
	} else if docs, err = made.fill(token, template.Values{}); err != nil {
		return inst, nil, err
	}
	id, disk := seedbed.NewInstanceID(), s.disk
	if disk == 0 {
		disk = image.Size
	}
	return seedbed.Instance{
		ID: id, Name: name, Profile: p.Name, Image: image.Name, Node: in.node, State: seedbed.InstanceProvisioning,
		VCPUs: s.vcpus, Memory: s.memory, Ready: p.Ready, UserData: docs.UserData, VendorData: docs.VendorData, SSHKeys: s.sshKeys, ReportToken: token,
		Datasource: s.datasource, Metadata: s.metadata.WithDefaults(seedbed.MetadataOptions{}), Tags: s.tags,
		NICs:    []seedbed.NIC{{MAC: seedbed.NewMAC(), Network: p.Network}},
		Volumes: []seedbed.Volume{{Name: string(id) + "-0", Pool: image.Pool, Size: disk, Image: image.Name}},
	}, compose, nil
}

// remove asks for an instance's end.
func (in *Intake) remove(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	inst, err := in.existing(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job:      seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRemove, State: seedbed.JobQueued, Subject: inst.Name, Instance: inst.ID, Node: inst.Node},
		Delivery: delivery,
	})
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Import accepts a request to make the image name in pool from a file on the
// worker's host. Errors: seedbed.ErrInvalid for a wrong name, path or digest,
// ErrExists for a name in use.
func (in *Intake) Import(ctx context.Context, name, pool string, spec seedbed.ImportSpec) (seedbed.Receipt, error) {
	if err := seedbed.CheckName("image", name); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := seedbed.CheckName("pool", pool); err != nil {
		return seedbed.Receipt{}, err
	}
	if !filepath.IsAbs(spec.Path) || filepath.Clean(spec.Path) != spec.Path || len(spec.Path) > 4096 || strings.ContainsRune(spec.Path, 0) {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "path %q is not usable: want the clean absolute path of a disk image on the worker's host", clip(spec.Path))
	}
	spec.SHA256 = strings.ToLower(spec.SHA256)
	if spec.SHA256 != "" && !sha256Form.MatchString(spec.SHA256) {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "sha256 is no digest: want 64 hexadecimal digits, or none")
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode import of %s: %w", name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job:   seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImport, State: seedbed.JobQueued, Subject: name, Spec: raw, Node: in.node},
		Image: &seedbed.Image{Name: name, Pool: pool, State: seedbed.ImageImporting, Source: spec.Path, SHA256: spec.SHA256},
	})
}
