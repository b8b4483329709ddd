package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// Selection says which objects of a list to read.
type Selection struct {
	// Where holds the filters, by the names of the query's parameters, such as state. An empty value
	// does not restrict the selection.
	Where map[string]string
	// Scope is the scope of all projects, or otherwise that of the project that the client acts in.
	Scope seedbed.Scope
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// selected reads the objects of a list that s selects, page by page.
func selected[T any](ctx context.Context, c *Client, path string, s Selection) ([]T, error) {
	return pages[T](ctx, c, path, scoped(given(s.Where), s.Scope), s.Limit)
}

// ListNetworks lists the managed networks, as s selects them. It reads them page by page.
func (c *Client) ListNetworks(ctx context.Context, s Selection) ([]seedbed.Network, error) {
	return selected[seedbed.Network](ctx, c, "/networks", s)
}

// ListSecurityGroups lists the security groups, as s selects them. It reads them page by page.
func (c *Client) ListSecurityGroups(ctx context.Context, s Selection) ([]seedbed.SecurityGroup, error) {
	return selected[seedbed.SecurityGroup](ctx, c, "/security-groups", s)
}

// ListAddresses lists the floating addresses, as s selects them. It reads them page by page.
func (c *Client) ListAddresses(ctx context.Context, s Selection) ([]seedbed.FloatingAddress, error) {
	return selected[seedbed.FloatingAddress](ctx, c, "/addresses", s)
}

// ListLeases lists the DHCP leases, as s selects them. It reads them page by page.
func (c *Client) ListLeases(ctx context.Context, s Selection) ([]seedbed.Lease, error) {
	return selected[seedbed.Lease](ctx, c, "/leases", s)
}

// ListNodes lists the nodes, as s selects them. It reads them page by page.
func (c *Client) ListNodes(ctx context.Context, s Selection) ([]seedbed.NodeStatus, error) {
	return selected[seedbed.NodeStatus](ctx, c, "/nodes", s)
}

// ListProjects lists the projects that the caller sees, as s selects them. It reads them page by page.
func (c *Client) ListProjects(ctx context.Context, s Selection) ([]seedbed.Project, error) {
	return selected[seedbed.Project](ctx, c, "/projects", s)
}

// ListTokens lists the tokens, without their secrets, as s selects them. It reads them page by
// page.
func (c *Client) ListTokens(ctx context.Context, s Selection) ([]seedbed.Token, error) {
	return selected[seedbed.Token](ctx, c, "/tokens", s)
}

// ListRoles lists the roles, as s selects them. It reads them page by page.
func (c *Client) ListRoles(ctx context.Context, s Selection) ([]wire.Role, error) {
	return selected[wire.Role](ctx, c, "/roles", s)
}

// ListImages lists the images, as s selects them. It reads them page by page.
func (c *Client) ListImages(ctx context.Context, s Selection) ([]seedbed.Image, error) {
	return selected[seedbed.Image](ctx, c, "/images", s)
}

// ListVolumes lists the volumes and the disks of instances, as s selects them. It reads them page by page.
func (c *Client) ListVolumes(ctx context.Context, s Selection) ([]seedbed.ProjectVolume, error) {
	return selected[seedbed.ProjectVolume](ctx, c, "/volumes", s)
}

// ListHooks lists the hooks, as s selects them. It reads them page by page.
func (c *Client) ListHooks(ctx context.Context, s Selection) ([]seedbed.Hook, error) {
	return selected[seedbed.Hook](ctx, c, "/hooks", s)
}

// ListEndpoints lists the endpoints, as s selects them. It reads them page by page.
func (c *Client) ListEndpoints(ctx context.Context, s Selection) ([]seedbed.Endpoint, error) {
	return selected[seedbed.Endpoint](ctx, c, "/endpoints", s)
}

// ListOrphans lists the orphans of jobs that were undone, and the strays, as s selects them. It
// reads them page by page.
func (c *Client) ListOrphans(ctx context.Context, s Selection) ([]seedbed.Orphan, error) {
	return selected[seedbed.Orphan](ctx, c, "/orphans", s)
}

// ListTrash lists the removed volumes that still exist, as s selects them. It reads them page by
// page.
func (c *Client) ListTrash(ctx context.Context, s Selection) ([]wire.TrashItem, error) {
	return selected[wire.TrashItem](ctx, c, "/trash", s)
}

// ListDomains lists the domains that belong to no instance, in short form, as s selects them. It
// reads them page by page.
func (c *Client) ListDomains(ctx context.Context, s Selection) ([]seedbed.ForeignDomain, error) {
	return selected[seedbed.ForeignDomain](ctx, c, "/domains", s)
}

// ListAudit lists the entries of the audit log, newest first, as s selects them. It reads them
// page by page.
func (c *Client) ListAudit(ctx context.Context, s Selection) ([]seedbed.AuditEntry, error) {
	return selected[seedbed.AuditEntry](ctx, c, "/audit", s)
}

// ListDeliveries lists the received deliveries, newest first, as s selects them. It reads them
// page by page.
func (c *Client) ListDeliveries(ctx context.Context, s Selection) ([]seedbed.Delivery, error) {
	return selected[seedbed.Delivery](ctx, c, "/deliveries", s)
}

// ListRejections lists the counts of deliveries whose sender was not accepted, the latest first,
// as s selects them. It reads them page by page.
func (c *Client) ListRejections(ctx context.Context, s Selection) ([]seedbed.Rejection, error) {
	return selected[seedbed.Rejection](ctx, c, "/deliveries/rejected", s)
}

// ListSnapshots lists the snapshots of an instance, oldest first, as s selects them. It reads them
// page by page.
func (c *Client) ListSnapshots(ctx context.Context, name string, s Selection) ([]wire.Snapshot, error) {
	return selected[wire.Snapshot](ctx, c, at("/instances", name)+"/snapshots", s)
}

// ListOutgoing lists the deliveries to an endpoint, newest first, as s selects them. It reads them
// page by page.
func (c *Client) ListOutgoing(ctx context.Context, name string, s Selection) ([]seedbed.Outgoing, error) {
	return selected[seedbed.Outgoing](ctx, c, at("/endpoints", name)+"/deliveries", s)
}

// ListAccess lists the events of an instance's guest, newest first, as s selects them. It reads
// them page by page.
func (c *Client) ListAccess(ctx context.Context, name string, s Selection) ([]seedbed.GuestEvent, error) {
	return selected[seedbed.GuestEvent](ctx, c, at("/instances", name)+"/access", s)
}
