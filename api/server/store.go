package server

import (
	"context"
	"crypto/sha256"
	"io"
	"net/netip"
	"time"

	"seedbed"
)

// Store is what the API reads and writes. Its methods return ErrNotFound for an object that does
// not exist and ErrExists for a name that is taken.
type Store interface {
	Catalogue
	Instances
	Jobs
	Webhooks
	Site
	Groups
	Access
	Volumes
}

// Catalogue reads and writes what instances are made from. A template, a document or a script cannot
// be deleted while profiles name it: ErrInUse, naming them. Methods with a change function call it in
// the transaction that writes, possibly more than once; if it returns an error, nothing is written.
type Catalogue interface {
	seedbed.PartReader
	// Resolve returns the qualified name of what a request of a project names: its own, or what is published
	// to it.
	Resolve(ctx context.Context, kind seedbed.PublishedKind, project, name string) (string, error)
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Images(ctx context.Context) ([]seedbed.Image, error)
	// PublishImage says to which other projects an image is published.
	PublishImage(ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Image) error) (seedbed.Image, error)
	// OVAs returns the imported OVA images whose names match.
	OVAs(ctx context.Context, m seedbed.NameMatch) ([]seedbed.OVA, error)
	CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error)
	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	// ChangeProfile applies change to a profile. The name cannot change.
	ChangeProfile(ctx context.Context, name string, change func(*seedbed.Profile) error) (seedbed.Profile, error)
	// PublishProfile says to which other projects a profile is published.
	PublishProfile(ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Profile) error) (seedbed.Profile, error)
	DeleteProfile(ctx context.Context, name string, checks ...func(seedbed.Profile) error) error
	// ScriptedProfiles returns the profiles that have a script and whose names match.
	ScriptedProfiles(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Profile, error)
	CreateSystemTemplate(ctx context.Context, t seedbed.SystemTemplate) (seedbed.SystemTemplate, error)
	SystemTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.SystemTemplate, error)
	ChangeSystemTemplate(ctx context.Context, name string, change func(*seedbed.SystemTemplate) error) (seedbed.SystemTemplate, error)
	PublishSystemTemplate(
		ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.SystemTemplate) error,
	) (seedbed.SystemTemplate, error)
	DeleteSystemTemplate(ctx context.Context, name string, checks ...func(seedbed.SystemTemplate) error) error
	CreateNetworkTemplate(ctx context.Context, name string, mac seedbed.MACTemplate) (seedbed.NetworkTemplate, error)
	NetworkTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.NetworkTemplate, error)
	// ChangeNetworkTemplate applies change to a network template, and adds the NICs that have no ID.
	ChangeNetworkTemplate(ctx context.Context, name string, change func(*seedbed.NetworkTemplate) error) (seedbed.NetworkTemplate, error)
	PublishNetworkTemplate(
		ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.NetworkTemplate) error,
	) (seedbed.NetworkTemplate, error)
	DeleteNetworkTemplate(ctx context.Context, name string, checks ...func(seedbed.NetworkTemplate) error) error
	CreateStorageTemplate(ctx context.Context, name string) (seedbed.StorageTemplate, error)
	StorageTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.StorageTemplate, error)
	// ChangeStorageTemplate applies change to a storage template, and adds the disks that have no ID.
	ChangeStorageTemplate(ctx context.Context, name string, change func(*seedbed.StorageTemplate) error) (seedbed.StorageTemplate, error)
	PublishStorageTemplate(
		ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.StorageTemplate) error,
	) (seedbed.StorageTemplate, error)
	DeleteStorageTemplate(ctx context.Context, name string, checks ...func(seedbed.StorageTemplate) error) error
	CreateUserData(ctx context.Context, name, data string) (seedbed.UserDataDocument, error)
	UserDataDocuments(ctx context.Context, m seedbed.NameMatch) ([]seedbed.UserDataDocument, error)
	// ChangeUserData applies change to a document's data.
	ChangeUserData(ctx context.Context, name string, change func(*seedbed.UserDataDocument) error) (seedbed.UserDataDocument, error)
	PublishUserData(
		ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.UserDataDocument) error,
	) (seedbed.UserDataDocument, error)
	DeleteUserData(ctx context.Context, name string, checks ...func(seedbed.UserDataDocument) error) error
	CreateScript(ctx context.Context, name, text string) (seedbed.Script, error)
	Scripts(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Script, error)
	// ChangeScript applies change to a script's text, and ChangeScriptOptions to its options.
	ChangeScript(ctx context.Context, name string, change func(*seedbed.Script) error) (seedbed.Script, error)
	ChangeScriptOptions(ctx context.Context, name string, change func(*seedbed.Script) error) (seedbed.Script, error)
	PublishScript(ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Script) error) (seedbed.Script, error)
	DeleteScript(ctx context.Context, name string, checks ...func(seedbed.Script) error) error
	PublishOVA(ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.OVA) error) (seedbed.OVA, error)
	// Catalogue returns that of a project.
	Catalogue(ctx context.Context, project string) (seedbed.Catalogue, error)
	// ImportCatalogue imports a catalogue in one transaction. It writes nothing if there is a conflict.
	ImportCatalogue(ctx context.Context, c seedbed.Catalogue, how seedbed.CatalogueImport) (seedbed.CatalogueReport, error)
}

// Instances reads and writes the instances, what their guests are told and did, and long lists.
type Instances interface {
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	InstanceByName(ctx context.Context, n seedbed.InstanceName) (seedbed.Instance, error)
	// GuestEvents returns at most limit events, newest first.
	GuestEvents(ctx context.Context, id seedbed.InstanceID, limit int) ([]seedbed.GuestEvent, error)
	// ListInstances returns instances by project and name.
	ListInstances(ctx context.Context, q seedbed.InstanceQuery) ([]seedbed.Instance, error)
	// ListProfiles returns by name the profiles that a project may use, or those of all projects.
	ListProfiles(ctx context.Context, q seedbed.ProfileQuery) ([]seedbed.Profile, error)
	// ListJobs returns jobs, newest first.
	ListJobs(ctx context.Context, q seedbed.JobQuery) ([]seedbed.Job, error)
	// HasSnapshot reports whether a snapshot is recorded, also if its pool does not have it.
	HasSnapshot(ctx context.Context, id seedbed.InstanceID, name string) (bool, error)
	InstanceNames(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]string, error)
	Maintenance(ctx context.Context, node string, id seedbed.InstanceID) ([]seedbed.Maintenance, error)
	AddMaintenance(ctx context.Context, node string, id seedbed.InstanceID, m seedbed.Maintenance) (seedbed.Maintenance, error)
	// EndMaintenance marks an event as completed or canceled. It returns ErrConflict when the event
	// has ended.
	EndMaintenance(ctx context.Context, event, state string) (seedbed.Maintenance, error)
}

// Jobs reads and writes the jobs, with their stages, events and output, and what they left behind.
type Jobs interface {
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// FindJob returns the one job in a scope whose ID starts with prefix, which has at least eight
	// characters.
	FindJob(ctx context.Context, in seedbed.Scope, prefix string) (seedbed.Job, error)
	// CancelJob marks a job for undoing. It returns ErrConflict when the job has ended.
	CancelJob(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) error
	// ResumeJob queues a failed job again, at the stage that failed.
	ResumeJob(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) (seedbed.Job, error)
	LiveJobs(ctx context.Context, in seedbed.Scope, limit int) ([]seedbed.Job, error)
	Stages(ctx context.Context, id seedbed.JobID) ([]seedbed.Stage, error)
	// Events returns at most limit events with a number above after, oldest first.
	Events(ctx context.Context, id seedbed.JobID, after int64, limit int) ([]seedbed.Event, error)
	// JobOutput returns at most limit lines with a number above after, of one stage or, if stage is
	// empty, of all.
	JobOutput(ctx context.Context, id seedbed.JobID, stage string, after int64, limit int) ([]seedbed.JobOutput, error)
	// Hint returns a channel that the next write of this process closes.
	Hint() <-chan struct{}
	// EventsOfAll returns at most limit events of the jobs in a scope after a place in that order.
	EventsOfAll(ctx context.Context, in seedbed.Scope, after int64, limit int) ([]seedbed.NumberedEvent, error)
	// LastPlace returns the place of the newest event.
	LastPlace(ctx context.Context) (int64, error)
	// Orphans returns all orphans of undone jobs, oldest first.
	Orphans(ctx context.Context) ([]seedbed.Orphan, error)
	// Strays returns the resources that carry Seedbed's tag and have no owner in the database.
	Strays(ctx context.Context) ([]seedbed.Orphan, error)
	// UndoAgain undoes a job again. It returns ErrConflict, ErrNotFound or ErrInUse if that would
	// touch resources that something else owns by now.
	UndoAgain(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) (seedbed.Job, error)
}

// Webhooks reads and writes the receivers of webhooks that come in, and of those that go out.
type Webhooks interface {
	CreateHook(ctx context.Context, h seedbed.Hook) (seedbed.Hook, error)
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	Hooks(ctx context.Context) ([]seedbed.Hook, error)
	DeleteHook(ctx context.Context, name string, checks ...func(seedbed.Hook) error) error
	// UpdateHook changes everything except scheme and keys. It returns ErrConflict if the hook was
	// changed after h.Changed.
	UpdateHook(ctx context.Context, h seedbed.Hook, checks ...func(seedbed.Hook) error) (seedbed.Hook, error)
	// RotateHook adds a key. The previous keys are accepted until overlap has passed.
	RotateHook(
		ctx context.Context, name string, key seedbed.HookKey, overlap time.Duration, checks ...func(seedbed.Hook) error,
	) (seedbed.Hook, error)
	// RemoveHookKey removes a key if check accepts the hook with and without it.
	RemoveHookKey(ctx context.Context, name, id string, check func(was, left seedbed.Hook) error) (seedbed.Hook, error)
	// Deliveries returns deliveries, newest first, without payloads.
	Deliveries(ctx context.Context, q seedbed.DeliveryQuery) ([]seedbed.Delivery, error)
	// Rejections returns counts of deliveries whose sender was not accepted, the latest first.
	Rejections(ctx context.Context, q seedbed.RejectionQuery) ([]seedbed.Rejection, error)
	// Delivery returns one delivery, with its payload if that was kept.
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
	CreateEndpoint(ctx context.Context, e seedbed.Endpoint) (seedbed.Endpoint, error)
	Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error)
	Endpoints(ctx context.Context) ([]seedbed.Endpoint, error)
	DeleteEndpoint(ctx context.Context, name string, checks ...func(seedbed.Endpoint) error) error
	// ChangeEndpoint changes an endpoint. Deliveries in the outbox stay, in their order.
	ChangeEndpoint(
		ctx context.Context, name string, change seedbed.EndpointChange, checks ...func(seedbed.Endpoint) error,
	) (seedbed.Endpoint, error)
	// RotateEndpointKeys adds keys. The previous keys also sign until overlap has passed.
	RotateEndpointKeys(
		ctx context.Context, name string, keys []seedbed.EndpointKey, overlap time.Duration, checks ...func(seedbed.Endpoint) error,
	) (seedbed.Endpoint, error)
	// OutgoingDeliveries returns deliveries, newest first.
	OutgoingDeliveries(ctx context.Context, endpoint string, q seedbed.OutgoingQuery) ([]seedbed.Outgoing, error)
	Resend(ctx context.Context, endpoint, id string) (seedbed.Outgoing, error)
	Replay(ctx context.Context, endpoint string, since time.Time, missedOnly bool) (int, error)
}

// Site reads and writes the nodes and networks, and the settings that all guests share.
type Site interface {
	Node(ctx context.Context, name string) (seedbed.Node, error)
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
	AddNode(ctx context.Context, n seedbed.Node) (seedbed.Node, error)
	// Maintained reports whether lost nodes are not fenced by themselves, and SetMaintained switches that and reports whether it was so
	// already.
	Maintained(ctx context.Context) (bool, error)
	SetMaintained(ctx context.Context, on bool) (already bool, err error)
	// ChangeNode applies change to a node's worker address and its cordon.
	ChangeNode(ctx context.Context, name string, change func(*seedbed.Node) error) (seedbed.Node, error)
	// RemoveNode removes a node. It returns ErrInUse, naming what uses it.
	RemoveNode(ctx context.Context, name string, checks ...func(seedbed.Node) error) error
	Networks(ctx context.Context) ([]seedbed.Network, error)
	Leases(ctx context.Context, in seedbed.Scope) ([]seedbed.Lease, error)
	Site(ctx context.Context) (seedbed.Site, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
	// FreeSecondary returns the secondary addresses that a NIC of an instance would get now which asks for some, or why it cannot.
	FreeSecondary(ctx context.Context, inst seedbed.Instance, nic seedbed.NIC, asks []netip.Addr) ([]netip.Addr, error)
	// CountAddresses sets how many of their addresses are in use in networks.
	CountAddresses(ctx context.Context, networks []*seedbed.Network) error
	CreateNetwork(ctx context.Context, n seedbed.Network) (seedbed.Network, error)
	// NetworkLeases and Forwards return what the instances of a scope have in a network; Forwards without a name, in all.
	NetworkLeases(ctx context.Context, in seedbed.Scope, network string) ([]seedbed.NetworkLease, error)
	// The floating addresses that networks lend, and projects have.
	AllocateFloating(ctx context.Context, a seedbed.FloatingAddress) (seedbed.FloatingAddress, error)
	FloatingAddresses(ctx context.Context, in seedbed.Scope) ([]seedbed.FloatingAddress, error)
	FloatingAddress(ctx context.Context, addr netip.Addr) (seedbed.FloatingAddress, error)
	ReleaseFloating(ctx context.Context, addr netip.Addr, checks ...func(seedbed.FloatingAddress) error) error
	Forwards(ctx context.Context, in seedbed.Scope, network string) ([]seedbed.ForwardTo, error)
	// DeleteNetwork removes a network that nothing uses; otherwise it returns seedbed.ErrInUse.
	DeleteNetwork(ctx context.Context, name string, checks ...func(seedbed.Network) error) error
	ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (seedbed.Network, error)
	// PublishNetwork says to which other projects a network is published.
	PublishNetwork(ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Network) error) (seedbed.Network, error)
	Counts(ctx context.Context, in seedbed.Scope, since time.Time) (seedbed.Counts, error)
}

// Access reads and writes the projects, the tokens of the API, their quotas, the sessions of people, the
// audit log, and the answers to requests with an idempotency key.
type Access interface {
	CreateProject(ctx context.Context, p seedbed.Project) (seedbed.Project, error)
	Project(ctx context.Context, name string) (seedbed.Project, error)
	Projects(ctx context.Context) ([]seedbed.Project, error)
	// ChangeProject applies change to a project's description and quota.
	ChangeProject(ctx context.Context, name string, change func(*seedbed.Project) error) (seedbed.Project, error)
	// ProjectRates returns the rates of a project, from a cache.
	ProjectRates(ctx context.Context, name string) (seedbed.RateQuota, error)
	// ProjectUse returns what the instances and jobs of a project have.
	ProjectUse(ctx context.Context, name string) (seedbed.Use, error)
	// DeleteProject removes a project. It returns ErrInUse, naming what it has.
	DeleteProject(ctx context.Context, name string, checks ...func(seedbed.Project) error) error
	CreateToken(ctx context.Context, t seedbed.Token, sum [sha256.Size]byte) (seedbed.Token, error)
	// TokenOf finds a token by the digest of its secret, expired or not.
	TokenOf(ctx context.Context, sum [sha256.Size]byte) (seedbed.Token, error)
	Tokens(ctx context.Context) ([]seedbed.Token, error)
	Token(ctx context.Context, name string) (seedbed.Token, error)
	DeleteToken(ctx context.Context, name string, checks ...func(seedbed.Token) error) error
	// CreateRole adds a role that no other has the name of.
	CreateRole(ctx context.Context, r seedbed.CustomRole) (seedbed.CustomRole, error)
	// Role returns a role that was made. RoleOf is the same, but fast.
	Role(ctx context.Context, name seedbed.Role) (seedbed.CustomRole, error)
	CustomRoles(ctx context.Context) ([]seedbed.CustomRole, error)
	ChangeRole(ctx context.Context, name seedbed.Role, change func(*seedbed.CustomRole) error) (seedbed.CustomRole, error)
	// DeleteRole removes a role. It returns ErrInUse, naming the tokens that have it.
	DeleteRole(ctx context.Context, name seedbed.Role, checks ...func(seedbed.CustomRole) error) error
	RoleOf(ctx context.Context, name seedbed.Role) (seedbed.CustomRole, error)
	// ChangeToken applies change to a token, of which the role, the grants and the end can change.
	ChangeToken(ctx context.Context, name string, change func(*seedbed.Token) error) (seedbed.Token, error)
	SetTokenQuota(ctx context.Context, name string, q seedbed.TokenQuota, checks ...func(seedbed.Token) error) (seedbed.Token, error)
	// BeginSession begins a session of a person, which ends then, with the digest of its secret.
	BeginSession(ctx context.Context, p seedbed.Person, ends time.Time, from string, sum [sha256.Size]byte) (seedbed.Session, error)
	// SessionOf finds a session by the digest of its secret. It returns ErrNotFound if it has expired.
	SessionOf(ctx context.Context, sum [sha256.Size]byte) (seedbed.Session, error)
	Sessions(ctx context.Context) ([]seedbed.Session, error)
	Session(ctx context.Context, id string) (seedbed.Session, error)
	EndSession(ctx context.Context, id string, checks ...func(seedbed.Session) error) error
	// KeepSignIn keeps a step of a sign-in, or a ticket, until then. It returns ErrConflict if there was one of that ID.
	KeepSignIn(ctx context.Context, id [sha256.Size]byte, data []byte, until time.Time) error
	// TakeSignIn removes what KeepSignIn has kept, and returns it.
	TakeSignIn(ctx context.Context, id [sha256.Size]byte) ([]byte, error)
	// Audit returns entries, newest first. Note adds one.
	Note(ctx context.Context, what string) error
	Audit(ctx context.Context, q seedbed.AuditQuery) ([]seedbed.AuditEntry, error)
	// BeginRequest begins to carry out a request with an idempotency key, or returns its answer. It
	// returns ErrInUse while another caller carries it out, until nothing was heard of that for silence.
	BeginRequest(ctx context.Context, k seedbed.KeyedRequest, silence time.Duration) (_ seedbed.KeyedRequest, answer []byte, err error)
	// RenewRequest says that the request is still being carried out.
	RenewRequest(ctx context.Context, k seedbed.KeyedRequest) error
	// EndRequest keeps the answer, or forgets a request that failed and has changed nothing.
	EndRequest(ctx context.Context, k seedbed.KeyedRequest, answer []byte, failed bool) error
}

// Adoptions makes jobs that start or stop managing domains. A job is durable before the method
// returns.
type Adoptions interface {
	// Adopt takes a domain and its disks under management.
	Adopt(ctx context.Context, f seedbed.ForeignDomain, req seedbed.AdoptRequest, o seedbed.JobOptions) (seedbed.Receipt, error)
	// Forget stops managing an instance. Its domain and disks stay.
	Forget(ctx context.Context, instance seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error)
}

// Strangers lists the domains on the workers that belong to no instance. An empty node means all
// nodes.
type Strangers interface {
	ForeignDomains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error)
	ForeignDomain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error)
}

// Deliveries tests endpoints.
type Deliveries interface {
	// Test sends one event at once and returns the result.
	Test(ctx context.Context, endpoint string) (seedbed.Attempt, error)
}

// OVAIntake makes jobs that create and remove OVA images.
type OVAIntake interface {
	ImportOVA(ctx context.Context, name, script string, up seedbed.Upload, o seedbed.JobOptions) (seedbed.Receipt, error)
	RemoveOVA(ctx context.Context, name string, o seedbed.JobOptions) (seedbed.Receipt, error)
}

// Intake makes jobs of requests. A job is durable before the method returns.
type Intake interface {
	Balance
	Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error)
	Import(ctx context.Context, name, pool string, spec seedbed.ImportSpec, o seedbed.JobOptions) (seedbed.Receipt, error)
	// Plan returns what a create would make, and writes nothing.
	Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error)
	// PlanImport returns what an import would make, and writes nothing.
	PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error)
}

// Console reads the last tail bytes, at most, of an instance's serial console on a node.
type Console interface {
	Console(ctx context.Context, node string, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error)
}

// Domains reads the definitions of domains from the workers of nodes.
type Domains interface {
	// DomainXML returns the definitions of the domains that of lists by node, as libvirt's XML
	// without passwords. Those that do not exist, or whose worker does not answer, are left out.
	DomainXML(ctx context.Context, of map[string][]seedbed.InstanceID) map[seedbed.InstanceID]string
}

// Trash works on the workers' removed volumes that still exist.
type Trash interface {
	// Trash returns all removed volumes, of one node or, if node is empty, of all nodes. It returns
	// an error if any node fails.
	Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error)
	// RestoreVolume makes a removed volume a volume without an instance. If node is empty, the ID
	// must be unique among the nodes; otherwise it returns ErrConflict.
	RestoreVolume(ctx context.Context, node, pool, id string) (seedbed.VolumeInfo, error)
	// DiscardVolume puts a restored volume back into the trash. It returns nil if the pool removed
	// the volume at once.
	DiscardVolume(ctx context.Context, node, pool, name string) (*seedbed.TrashItem, error)
	// PurgeVolume deletes a removed volume for good. It does so before the volume's time has passed
	// only if early is set.
	PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error
}

// Uploads receives files for later imports.
type Uploads interface {
	// ReceiveUpload reads body to its end into a file of the pool, on the node that spec names or
	// on one that it chooses. It returns an error of body unchanged. When it fails, nothing of the
	// file stays.
	ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error)
	// DropUpload removes such a file.
	DropUpload(ctx context.Context, up seedbed.Upload) error
}

// VolumeKeeper is the part of VolumeJobs that does not change sizes.
type VolumeKeeper interface {
	// Flatten makes an instance's volumes independent of their image.
	Flatten(ctx context.Context, instance seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error)
	// Snapshot takes a snapshot of an instance's volumes.
	Snapshot(ctx context.Context, of seedbed.InstanceName, name string, f seedbed.Freeze, o seedbed.JobOptions) (seedbed.Receipt, error)
	// RemoveSnapshot removes a snapshot of an instance's volumes.
	RemoveSnapshot(ctx context.Context, instance seedbed.InstanceName, snapshot string, o seedbed.JobOptions) (seedbed.Receipt, error)
	// RemoveImage removes an image that nothing uses.
	RemoveImage(ctx context.Context, image string, o seedbed.JobOptions) (seedbed.Receipt, error)
}

// Snapshots reads the snapshots of a node's volumes from its worker.
type Snapshots interface {
	Snapshots(ctx context.Context, node, pool, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error)
}

// Receiving holds the functions of the webhook receiver that the API needs. All are required.
type Receiving struct {
	// Check returns ErrInvalid for a hook that could not work or would accept unauthenticated
	// deliveries.
	Check func(h seedbed.Hook) error
	// CheckKeys is the part of Check that checks whether the keys are enough.
	CheckKeys func(h seedbed.Hook) error
	// NewKey generates a secret for a scheme, and the text that operators copy. It returns
	// ErrInvalid if the sender generates the secret.
	NewKey func(h seedbed.HookSettings) (key []byte, secret string, err error)
	// ParseKey reads a secret in the form that operators copy.
	ParseKey func(h seedbed.HookSettings, secret string) ([]byte, error)
	// DryRun reports what a hook would do with a delivery.
	DryRun func(ctx context.Context, h seedbed.Hook, s seedbed.SampleDelivery) (seedbed.DryRun, error)
	// Redeliver processes a delivery of the history again.
	Redeliver func(ctx context.Context, hook, id string, o seedbed.JobOptions) (seedbed.Redelivery, error)
}
