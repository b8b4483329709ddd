package client

import (
	"context"
	"net/http"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// Power says how an instance is switched off. By default, its guest is asked to shut down, and is
// switched off if it has not done so in time.
type Power struct {
	// Force switches off at once.
	Force bool
	// Soft makes the job fail if the guest does not shut down in time. The instance then stays on.
	Soft bool
	// Grace is how long the guest has to shut down. Zero is the configured time.
	Grace time.Duration
}

func (p Power) request() wire.PowerRequest {
	r := wire.PowerRequest{Force: p.Force, Soft: p.Soft}
	if p.Grace != 0 {
		r.Grace = p.Grace.String()
	}
	return r
}

// StartInstance starts a job that starts an instance's domain.
func (c *Client) StartInstance(ctx context.Context, name string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/start", nil)
}

// StopInstance starts a job that shuts an instance down, or switches it off.
func (c *Client) StopInstance(ctx context.Context, name string, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/stop", p.request())
}

// RebootInstance starts a job that stops an instance in the same way and starts it again.
func (c *Client) RebootInstance(ctx context.Context, name string, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/reboot", p.request())
}

// Move says how an instance goes to another node.
type Move struct {
	// Node is the node; empty leaves that to the placement.
	Node string
	// Method is live, cold or, for an instance that is stopped, empty; Power says how the guest is switched off for cold.
	Method string
	Power
	// Back takes it to its home, and Stay makes the node where it goes the one where it stays.
	Back, Stay bool
}

func (m Move) request() wire.MigrateRequest {
	return wire.MigrateRequest{PowerRequest: m.Power.request(), Node: m.Node, Method: m.Method, Back: m.Back, Stay: m.Stay}
}

// MigrateInstance starts a job that takes an instance to another node.
func (c *Client) MigrateInstance(ctx context.Context, name string, m Move) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/migrate", m.request())
}

// PlanMigrate returns where MigrateInstance would take the instance.
func (c *Client) PlanMigrate(ctx context.Context, name string, m Move) (seedbed.Plan, error) {
	r := m.request()
	r.DryRun = true
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/migrate", r)
}

// RebuildInstance starts a job that gives an instance new disks. It sends only name, profile,
// image, params and confirm of the request. Empty fields change nothing.
func (c *Client) RebuildInstance(ctx context.Context, r seedbed.Request, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", r.Name)+"/rebuild", wire.RebuildRequest{
		PowerRequest: p.request(), Profile: r.Profile, Image: r.Image, Params: r.Params, Confirm: r.Confirm,
	})
}

// Plan returns what a create would make or, for the action rebuild, a rebuild. It sends only
// action, name, profile, image, params, hold, protected, node, network and ready of the request.
func (c *Client) Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error) {
	if r.Action == seedbed.DoPlan {
		r.Action = ""
	}
	return post[seedbed.Plan](ctx, c, "/plan", wire.PlanRequest{
		Action: r.Action, Name: r.Name, Profile: r.Profile, Image: r.Image, Params: r.Params, NewInstance: newInstance(r),
	})
}

// NICs lists the NICs of an instance.
func (c *Client) NICs(ctx context.Context, name string) ([]seedbed.NIC, error) {
	return selected[seedbed.NIC](ctx, c, at("/instances", name)+"/nics", Selection{})
}

// AddNIC starts a job that adds a NIC to an instance.
func (c *Client) AddNIC(ctx context.Context, name string, n seedbed.NICRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/nics", n)
}

// PlanAddNIC returns what AddNIC would add.
func (c *Client) PlanAddNIC(ctx context.Context, name string, n seedbed.NICRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/nics", wire.NICRequest{NICRequest: n, DryRun: true})
}

// SetNIC starts a job that takes a NIC of an instance to another network. nic is its index or its MAC address.
func (c *Client) SetNIC(ctx context.Context, name, nic string, change wire.NICChange) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{method: http.MethodPatch, path: at(at("/instances", name)+"/nics", nic), body: change})
}

// PlanSetNIC returns what SetNIC would make of the NIC.
func (c *Client) PlanSetNIC(ctx context.Context, name, nic string, change wire.NICChange) (seedbed.Plan, error) {
	change.DryRun = true
	return send[seedbed.Plan](ctx, c, call{method: http.MethodPatch, path: at(at("/instances", name)+"/nics", nic), body: change})
}

// RemoveNIC starts a job that removes a NIC of an instance. nic is its index or its MAC address.
func (c *Client) RemoveNIC(ctx context.Context, name, nic string) (seedbed.Receipt, error) {
	return c.removal(ctx, at(at("/instances", name)+"/nics", nic))
}

// PlanRemoveNIC returns what RemoveNIC would leave.
func (c *Client) PlanRemoveNIC(ctx context.Context, name, nic string) (seedbed.Plan, error) {
	return send[seedbed.Plan](ctx, c, call{method: http.MethodDelete, path: at(at("/instances", name)+"/nics", nic),
		query: given(map[string]string{"dry_run": "true"})})
}
