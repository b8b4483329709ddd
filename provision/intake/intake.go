package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"seedbed"
	"seedbed/provision/placement"
	"seedbed/provision/record"
	"seedbed/provision/template"
)

// Store is the part of the database that the intake uses.
type Store interface {
	// Accept records an accepted request in one transaction.
	Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error)

	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	// ProfileNames returns at most limit names of profiles that a project may use.
	ProfileNames(ctx context.Context, project string, limit int) ([]string, error)
	// ProfilesWith returns the profiles that name a user-data document.
	ProfilesWith(ctx context.Context, document string) ([]seedbed.Profile, error)
	seedbed.PartReader
	// Resolve returns the qualified name of what a request of a project names, or ErrNotFound if that does
	// not exist, or is not published to the project.
	Resolve(ctx context.Context, kind seedbed.PublishedKind, project, name string) (string, error)
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
	Networks(ctx context.Context) ([]seedbed.Network, error)
	// FreeAddr returns the address of a network that a NIC would get which asks for want or, without want,
	// for none. It returns seedbed.ErrInvalid for one that no NIC may have, ErrExists for one that is taken,
	// and ErrFull if none is free.
	FreeAddr(ctx context.Context, network string, mac seedbed.MAC, want netip.Addr) (netip.Addr, error)
	SecurityGroup(ctx context.Context, name string) (seedbed.SecurityGroup, error)
	// Instances returns all instances.
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	PlacementGroup(ctx context.Context, name string) (seedbed.PlacementGroup, error)

	InstanceByName(ctx context.Context, n seedbed.InstanceName) (seedbed.Instance, error)
	// ProjectVolume returns the volume of a project with that name, or a disk of an instance, which has no ID.
	ProjectVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error)
	// BackupTarget returns a target of backups, with its secrets.
	BackupTarget(ctx context.Context, name string) (seedbed.BackupTarget, error)
	// FindJob returns the job in a scope whose ID starts with prefix.
	FindJob(ctx context.Context, in seedbed.Scope, prefix string) (seedbed.Job, error)
	// EarlierReceipt returns the receipt of a delivery that was accepted before, or nil if it was
	// not. It returns ErrConflict if the delivery's ID was accepted with another body.
	EarlierReceipt(ctx context.Context, d seedbed.Delivery) (*seedbed.Receipt, error)

	record.DomainScripts
	placement.Hosts
}

// Intake checks requests and records them as jobs.
type Intake struct {
	store   Store
	serving Serving
	placer  *placement.Placer
	macs    macs
	// stages returns the names of the stages that a job would have.
	stages func(*seedbed.Job) []string
}

// New makes an intake. stages returns the names of a job's stages, for what a dry run shows.
func New(store Store, serving Serving, stages func(*seedbed.Job) []string) *Intake {
	return &Intake{store: store, serving: serving, placer: placement.New(store, serving.Node, serving.Placement), stages: stages}
}

// macDraws is how often a taken MAC is replaced by a new random one. With 2^24 addresses, a second
// collision in a row points to another cause.
const macDraws = 4

// Submit accepts a request to create, remove, rebuild, migrate, start, stop or reboot an instance, to add, remove or change a NIC of it,
// to resize, change, rename or clone it (changeJob), to take, remove or restore a snapshot of it, or to make, remove or change a volume
// (changeVolume). delivery is the webhook that carried the request, or nil. The job is durable once Submit returns without
// error. A repeated delivery returns its first receipt, even if the request could no longer be
// accepted. Errors: seedbed.ErrInvalid for a wrong name, profile or parameter, ErrExists with the
// holder for a name in use, ErrInUse with the holder for an instance that has a live job (a removal
// of an instance that is being made cancels that job instead), ErrNotFound for an instance that
// does not exist, ErrFull for a network without free addresses, ErrConflict for a delivery ID that
// was used with another body.
func (in *Intake) Submit(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	req.Project = cmp.Or(req.Project, seedbed.DefaultProject)
	receipt, err := in.submit(ctx, req, delivery)
	if err == nil || delivery == nil || errors.Is(err, seedbed.ErrUnavailable) {
		return receipt, err
	}
	first, earlier := in.store.EarlierReceipt(ctx, *delivery)
	switch {
	case errors.Is(earlier, seedbed.ErrConflict):
		return seedbed.Receipt{}, earlier
	case earlier != nil || first == nil:
		return seedbed.Receipt{}, err
	}
	return *first, nil
}

func (in *Intake) submit(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	var err error
	if _, ok := seedbed.VolumeActions()[req.Action]; ok {
		if req.JobOptions, err = in.resolve(ctx, req.Project, req.JobOptions); err != nil {
			return seedbed.Receipt{}, err
		}
		return in.changeVolume(ctx, req, delivery)
	}
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	_, ofNIC := seedbed.NICActions()[req.Action]
	if (req.Network != "" || req.NICs != nil && !ofNIC || req.SecurityGroups != nil) && req.Action != seedbed.DoCreate {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid,
			"action %s has no network and no nics: %s, %s and %s change those of an instance",
			seedbed.Clip(req.Action), seedbed.DoNICAdd, seedbed.DoNICSet, seedbed.DoNICRemove)
	}
	if req.Node != "" && req.Action != seedbed.DoCreate && req.Action != seedbed.DoMigrate && req.Action != seedbed.DoClone {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "action %s has no param node: only %s takes an instance to another one",
			seedbed.Clip(req.Action), seedbed.DoMigrate)
	}
	if req.JobOptions, err = in.resolve(ctx, req.Project, req.JobOptions); err != nil {
		return seedbed.Receipt{}, err
	}
	if ofNIC {
		return in.nicJob(ctx, req, delivery)
	}
	if _, ok := seedbed.SnapshotActions()[req.Action]; ok {
		return in.snapshotJob(ctx, req, delivery)
	}
	if _, ok := seedbed.ChangeActions()[req.Action]; ok {
		return in.changeJob(ctx, req, delivery)
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
	case seedbed.DoMigrate:
		return in.migrate(ctx, req, delivery)
	case seedbed.DoBackup:
		return in.backUp(ctx, req, delivery)
	}
	return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid,
		"action %q is unknown: expected create, remove, rebuild, start, stop, reboot, migrate, nic-add, nic-remove, nic-set, resize, set, "+
			"rename, clone, snapshot, snapshot-remove, snapshot-restore, backup or an action on a volume", seedbed.Clip(req.Action))
}

func (in *Intake) create(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (receipt seedbed.Receipt, err error) {
	m, err := in.tailorNew(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	made, err := in.prepare(ctx, req, m)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	spec, err := made.spec()
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the create of %s: %w", req.Name, err)
	}
	reservation, err := in.placer.Choose(ctx, made.demand)
	if err != nil {
		return seedbed.Receipt{}, unplaced(ctx, err)
	}
	defer func() { reservation.Settle(err == nil && !receipt.Duplicate) }()
	warnings, err := in.room(ctx, reservation.Node, made.demand.Sizes, true)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	inst := made.inst
	inst.Node = reservation.Node
	if made.script != nil {
		inst.Volumes, inst.Image = []seedbed.Volume{}, "" // the script makes them
	}
	for draw := 1; ; draw++ {
		job := jobOn(inst, seedbed.JobCreate, made.options)
		job.Spec = spec
		if job.ID, err = in.newJob(ctx, m.Profile); err != nil {
			return seedbed.Receipt{}, err
		}
		receipt, err := in.acceptNew(ctx, seedbed.Acceptance{
			Job:      job,
			Delivery: delivery,
			Instance: &inst,
			Compose:  made.compose,
			Script:   made.script,
			Warnings: warnings,
		})
		if !errors.Is(err, seedbed.ErrExists) || draw == macDraws || len(made.drawn) == 0 {
			return receipt, err
		}
		if _, nameErr := in.store.InstanceByName(ctx, seedbed.Named(req.Project, req.Name)); !errors.Is(nameErr, seedbed.ErrNotFound) {
			return receipt, err // the name is taken, not the address
		}
		for _, i := range made.drawn {
			inst.NICs[i].MAC = in.macs.another()
		}
	}
}

// newJob returns the ID of a new job. The first group of the ID is unique for a profile with a
// script, because PVC's clients identify the job by it.
func (in *Intake) newJob(ctx context.Context, p seedbed.Profile) (seedbed.JobID, error) {
	if p.Script == "" {
		return seedbed.NewJobID(), nil
	}
	return in.distinctJob(ctx)
}

// distinctJob returns a new ID whose first group no other job's ID has.
func (in *Intake) distinctJob(ctx context.Context) (seedbed.JobID, error) {
	for {
		id := seedbed.NewJobID()
		_, err := in.store.FindJob(ctx, seedbed.AllProjects(), id.Short())
		if errors.Is(err, seedbed.ErrNotFound) {
			return id, nil
		}
		if err != nil && !errors.Is(err, seedbed.ErrConflict) {
			return "", err
		}
	}
}

// recipeOf parses the documents of a profile, and gives s the parameters that they read: those of
// the request and, for an existing instance, the stored ones.
func (in *Intake) recipeOf(m tailored, s *shape, stored map[string]any) (recipe, error) {
	src := in.sourcesOf(m.Ready, *s)
	src.declared = m.Params
	docs, err := src.read()
	if err != nil {
		return docs, err
	}
	if m.Params != nil {
		s.rest = m.params
		return docs, nil
	}
	if err := s.checkRest(docs); err != nil {
		return docs, err
	}
	for name, v := range stored {
		if _, given := s.rest[name]; !given && docs.reads(name) {
			if s.rest == nil {
				s.rest = map[string]any{}
			}
			s.rest[name] = v
		}
	}
	return docs, nil
}

// fit sets what the profile or the request says about an instance, apart from its size.
func (in *Intake) fit(i *seedbed.Instance, m tailored, s shape) {
	i.Source, i.Params = m.source(), m.storedParams(s)
	i.Protected, i.Held, i.Follow = m.Protected, m.Hold, s.follow
	if s.protected != nil {
		i.Protected = *s.protected
	}
	if s.hold != nil {
		i.Held = *s.hold
	}
	i.System = seedbed.System{Serial: true}
	if m.parts.System != nil {
		i.System = seedbed.SystemOf(*m.parts.System)
	}
	i.System.BootFrom, i.System.Firmware, i.System.TPM = seedbed.BootsFrom(s.bootFrom), s.firmware, s.tpm
	i.System.Restart, i.System.Priority = seedbed.Restarts(s.restart), s.priority
	if i.System.Restart == seedbed.RestartAlways { // its node must not start what was started on another one
		i.System.Autostart = false
	}
}

// profile returns the profile that a request of a project names. What the project may not use is ErrInvalid,
// like what does not exist.
func (in *Intake) profile(ctx context.Context, project, name string) (p seedbed.Profile, err error) {
	if name == "" {
		return p, seedbed.Errorf(seedbed.ErrInvalid, "profile is missing: expected the name of a profile, or an image%s",
			in.profileNames(ctx, project))
	}
	qualified, err := in.store.Resolve(ctx, seedbed.PublishedProfile, project, name)
	if err == nil {
		p, err = in.store.Profile(ctx, qualified)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		return p, seedbed.Errorf(seedbed.ErrInvalid, "profile %q does not exist%s", seedbed.Clip(name), in.profileNames(ctx, project))
	}
	return p, err
}

// profileNames lists the profiles that a project may use for a message, if there are only a few.
func (in *Intake) profileNames(ctx context.Context, project string) string {
	const few = 10
	names, err := in.store.ProfileNames(ctx, project, few+1)
	switch {
	case err != nil || len(names) > few:
		return ""
	case len(names) == 0:
		return "; there is none yet (seedbed profile add)"
	}
	return "; there are: " + strings.Join(names, ", ")
}

func (in *Intake) image(ctx context.Context, p seedbed.Profile, s shape) (seedbed.Image, error) {
	if p.Image == "" { // its disks are those of its storage template
		return seedbed.Image{}, nil
	}
	image, err := in.store.Image(ctx, p.Image)
	if errors.Is(err, seedbed.ErrNotFound) {
		return image, seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses image %s, which does not exist", p.Name, p.Image)
	}
	if err == nil && image.State == seedbed.ImageActive && s.disk != 0 && s.disk < image.Size {
		err = seedbed.Errorf(seedbed.ErrInvalid, "disk is %s, but image %s has %s: expected at least that", s.disk, image.Name, image.Size)
	}
	return image, err
}

// newInstance returns the instance without node, NICs and volumes. compose is not nil if its
// documents need the addresses that the database will assign.
func (in *Intake) newInstance(name seedbed.InstanceName, p seedbed.Profile, s shape, made recipe) (inst seedbed.Instance,
	compose func(seedbed.Instance) (seedbed.Documents, error), err error) {
	var token string
	if p.Ready == seedbed.ReadyReport {
		token = newReportToken()
	}
	values := func(inst seedbed.Instance) template.Values {
		return template.Values{Guest: in.place(inst), Params: s.rest}
	}
	var docs seedbed.Documents
	if len(made.templates()) > 0 {
		compose = func(inst seedbed.Instance) (seedbed.Documents, error) { return made.fill(token, values(inst)) }
	} else if docs, err = made.fill(token, template.Values{}); err != nil {
		return inst, nil, err
	} else if p.Script != "" && docs.UserData == nil {
		docs.UserData = []byte{}
	}
	return seedbed.Instance{
		ID: s.datasource.NewInstanceID(), Project: name.Project, Name: name.Name, Profile: p.Name, State: seedbed.InstanceProvisioning,
		VCPUs: s.vcpus, Memory: s.memory, Ready: p.Ready, UserData: docs.UserData, VendorData: docs.VendorData, SSHKeys: s.sshKeys,
		ReportToken: token,
		Datasource:  s.datasource, Metadata: s.metadata.WithDefaults(seedbed.MetadataOptions{}), Tags: s.tags,
	}, compose, nil
}

// remove accepts a request to remove an instance.
func (in *Intake) remove(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	inst, err := in.existing(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job := jobOn(inst, seedbed.JobRemove, req.JobOptions)
	if req.KeepDisks {
		if job.Spec, err = json.Marshal(seedbed.Removal{KeepDisks: true}); err != nil {
			return seedbed.Receipt{}, fmt.Errorf("encode the removal of %s: %w", req.Name, err)
		}
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Confirm: req.Confirm})
}

// acceptNew records a request that makes an instance. It refuses a foreign MAC on the node with
// ErrExists, like the MAC of another instance.
func (in *Intake) acceptNew(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	if in.serving.MACTaken != nil {
		for _, nic := range a.Instance.NICs {
			if by := in.serving.MACTaken(a.Instance.Node, nic.MAC); by != "" {
				return seedbed.Receipt{}, macUsed(ctx, nic.MAC, a.Instance.Node, by)
			}
		}
	}
	return in.store.Accept(ctx, a)
}
