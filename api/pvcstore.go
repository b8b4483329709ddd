package api

import (
	"context"

	"seedbed"
)

// SystemTemplates are, like NetworkTemplates and StorageTemplates, the templates of
// PVC's provisioner. Their methods give ErrInUse, naming who uses it, for what
// cannot be deleted.
type SystemTemplates interface {
	CreateSystemTemplate(ctx context.Context, t seedbed.SystemTemplate) (seedbed.SystemTemplate, error)
	SystemTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.SystemTemplate, error)
	ChangeSystemTemplate(ctx context.Context, name string, change func(*seedbed.SystemTemplate) error) (seedbed.SystemTemplate, error)
	DeleteSystemTemplate(ctx context.Context, name string) error
}

// NetworkTemplates are a machine's NICs.
type NetworkTemplates interface {
	CreateNetworkTemplate(ctx context.Context, name string, mac seedbed.MACTemplate) (seedbed.NetworkTemplate, error)
	NetworkTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.NetworkTemplate, error)
	DeleteNetworkTemplate(ctx context.Context, name string) error
}

// TemplateNetworks are the parts of network templates.
type TemplateNetworks interface {
	// AddTemplateNetwork adds a NIC; a second on one network only if again is set.
	AddTemplateNetwork(ctx context.Context, template, vni string, again bool) error
	RemoveTemplateNetwork(ctx context.Context, template, vni string) error
}

// StorageTemplates are a machine's disks.
type StorageTemplates interface {
	CreateStorageTemplate(ctx context.Context, name string) (seedbed.StorageTemplate, error)
	StorageTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.StorageTemplate, error)
	DeleteStorageTemplate(ctx context.Context, name string) error
}

// TemplateDisks are the parts of storage templates.
type TemplateDisks interface {
	AddTemplateDisk(ctx context.Context, template string, d seedbed.TemplateDisk) error
	RemoveTemplateDisk(ctx context.Context, template, name string) error
}

// UserDataDocuments are the user-data that profiles share.
type UserDataDocuments interface {
	CreateUserData(ctx context.Context, name, data string) (seedbed.UserDataDocument, error)
	UserDataDocuments(ctx context.Context, m seedbed.NameMatch) ([]seedbed.UserDataDocument, error)
	SetUserData(ctx context.Context, name, data string) error
	DeleteUserData(ctx context.Context, name string) error
}

// ScriptOptions are what provisioning scripts are let out for and bounded by.
type ScriptOptions interface {
	SetScriptOptions(ctx context.Context, name string, change func(*seedbed.ScriptOptions)) error
}

// Scripts are the provisioning scripts.
type Scripts interface {
	CreateScript(ctx context.Context, name, text string) (seedbed.Script, error)
	Scripts(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Script, error)
	SetScript(ctx context.Context, name, text string) error
	DeleteScript(ctx context.Context, name string) error
}

// ScriptedProfiles are the profiles that PVC knows.
type ScriptedProfiles interface {
	// ScriptedProfiles are those with a script whose names match.
	ScriptedProfiles(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Profile, error)
}

// LiveJobs are the jobs that have not ended, oldest first.
type LiveJobs interface {
	LiveJobs(ctx context.Context, limit int) ([]seedbed.Job, error)
}

// Provisioner is what PVC's provisioner keeps.
type Provisioner interface {
	SystemTemplates
	NetworkTemplates
	TemplateNetworks
	StorageTemplates
	TemplateDisks
	UserDataDocuments
	Scripts
	ScriptOptions
	ScriptedProfiles
	LiveJobs
}
