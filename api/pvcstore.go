package api

import (
	"context"

	"seedbed"
)

// SystemTemplates stores system templates. Its methods, and those of NetworkTemplates and
// StorageTemplates, return ErrInUse, naming the users, for a template that cannot be deleted.
type SystemTemplates interface {
	CreateSystemTemplate(ctx context.Context, t seedbed.SystemTemplate) (seedbed.SystemTemplate, error)
	SystemTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.SystemTemplate, error)
	ChangeSystemTemplate(ctx context.Context, name string, change func(*seedbed.SystemTemplate) error) (seedbed.SystemTemplate, error)
	DeleteSystemTemplate(ctx context.Context, name string) error
}

// NetworkTemplates stores the templates of instances' NICs.
type NetworkTemplates interface {
	CreateNetworkTemplate(ctx context.Context, name string, mac seedbed.MACTemplate) (seedbed.NetworkTemplate, error)
	NetworkTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.NetworkTemplate, error)
	DeleteNetworkTemplate(ctx context.Context, name string) error
}

// TemplateNetworks changes the networks of network templates.
type TemplateNetworks interface {
	// AddTemplateNetwork adds a NIC. A second NIC in the same network needs again.
	AddTemplateNetwork(ctx context.Context, template, vni string, again bool) error
	RemoveTemplateNetwork(ctx context.Context, template, vni string) error
}

// StorageTemplates stores the templates of instances' disks.
type StorageTemplates interface {
	CreateStorageTemplate(ctx context.Context, name string) (seedbed.StorageTemplate, error)
	StorageTemplates(ctx context.Context, m seedbed.NameMatch) ([]seedbed.StorageTemplate, error)
	DeleteStorageTemplate(ctx context.Context, name string) error
}

// TemplateDisks changes the disks of storage templates.
type TemplateDisks interface {
	AddTemplateDisk(ctx context.Context, template string, d seedbed.TemplateDisk) error
	RemoveTemplateDisk(ctx context.Context, template, name string) error
}

// UserDataDocuments stores the user-data that profiles share.
type UserDataDocuments interface {
	CreateUserData(ctx context.Context, name, data string) (seedbed.UserDataDocument, error)
	UserDataDocuments(ctx context.Context, m seedbed.NameMatch) ([]seedbed.UserDataDocument, error)
	SetUserData(ctx context.Context, name, data string) error
	DeleteUserData(ctx context.Context, name string) error
}

// ScriptOptions changes the privilege and the limits of provisioning scripts.
type ScriptOptions interface {
	SetScriptOptions(ctx context.Context, name string, change func(*seedbed.ScriptOptions)) error
}

// Scripts stores the provisioning scripts.
type Scripts interface {
	CreateScript(ctx context.Context, name, text string) (seedbed.Script, error)
	Scripts(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Script, error)
	SetScript(ctx context.Context, name, text string) error
	DeleteScript(ctx context.Context, name string) error
}

// ScriptedProfiles reads the profiles that PVC's API knows.
type ScriptedProfiles interface {
	// ScriptedProfiles returns the profiles that have a script and whose names match.
	ScriptedProfiles(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Profile, error)
}

// LiveJobs reads the jobs that have not ended, oldest first.
type LiveJobs interface {
	LiveJobs(ctx context.Context, limit int) ([]seedbed.Job, error)
}

// Provisioner stores what PVC's provisioner manages.
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
