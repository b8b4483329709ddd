package client

import "seedbed/api/wire"

// The types of package wire under the names that callers know them by. They go
// once the command line names package wire.
type (
	EndpointRequest    = wire.EndpointRequest
	EndpointRotation   = wire.EndpointRotation
	EndpointTest       = wire.EndpointTest
	EventPage          = wire.EventPage
	Health             = wire.Health
	HookChange         = wire.HookChange
	HookKey            = wire.HookKey
	HookRequest        = wire.HookRequest
	ImageRequest       = wire.ImageRequest
	InstanceChange     = wire.InstanceChange
	JobStatus          = wire.JobStatus
	MaintenanceRequest = wire.MaintenanceRequest
	NetworkChange      = wire.NetworkChange
	NewEndpoint        = wire.NewEndpoint
	NewHook            = wire.NewHook
	NewToken           = wire.NewToken
	NodeChange         = wire.NodeChange
	NodeRequest        = wire.NodeRequest
	OutputPage         = wire.OutputPage
	Overview           = wire.Overview
	Snapshot           = wire.Snapshot
	TokenRequest       = wire.TokenRequest
	TrashItem          = wire.TrashItem
)
