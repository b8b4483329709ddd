package server

import (
	"context"

	"seedbed"
)

// Groups reads and writes the security groups and the placement groups of projects.
type Groups interface {
	SecurityGroups(ctx context.Context) ([]seedbed.SecurityGroup, error)
	SecurityGroup(ctx context.Context, name string) (seedbed.SecurityGroup, error)
	CreateSecurityGroup(ctx context.Context, g seedbed.SecurityGroup) (seedbed.SecurityGroup, error)
	ChangeSecurityGroup(ctx context.Context, name string, change func(*seedbed.SecurityGroup) error) (seedbed.SecurityGroup, error)
	// DeleteSecurityGroup removes a security group that nothing uses; otherwise it returns seedbed.ErrInUse.
	DeleteSecurityGroup(ctx context.Context, name string, checks ...func(seedbed.SecurityGroup) error) error
	PlacementGroups(ctx context.Context) ([]seedbed.PlacementGroup, error)
	PlacementGroup(ctx context.Context, name string) (seedbed.PlacementGroup, error)
	CreatePlacementGroup(ctx context.Context, g seedbed.PlacementGroup) (seedbed.PlacementGroup, error)
	// DeletePlacementGroup removes a placement group that nothing uses; otherwise it returns seedbed.ErrInUse.
	DeletePlacementGroup(ctx context.Context, name string, checks ...func(seedbed.PlacementGroup) error) error
}

// Balance suggests moves of instances between nodes.
type Balance interface {
	Rebalance(ctx context.Context, by string, most int) (seedbed.Rebalancing, error)
}
