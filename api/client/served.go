package client

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// ChangeInstance changes an instance, and what its guest is served.
func (c *Client) ChangeInstance(ctx context.Context, name string, change wire.InstanceChange) (seedbed.Instance, error) {
	return patch[seedbed.Instance](ctx, c, at("/instances", name), change)
}

// NodeMaintenance lists the events of a node: first the active ones, then the last that ended.
func (c *Client) NodeMaintenance(ctx context.Context, node string) ([]seedbed.Maintenance, error) {
	return get[[]seedbed.Maintenance](ctx, c, at("/nodes", node)+"/maintenance", nil)
}

// Maintenance lists the events of an instance: first the active ones, then the last that ended.
func (c *Client) Maintenance(ctx context.Context, name string) ([]seedbed.Maintenance, error) {
	return get[[]seedbed.Maintenance](ctx, c, at("/instances", name)+"/maintenance", nil)
}

// AnnounceNode announces an event to every guest of a node.
func (c *Client) AnnounceNode(ctx context.Context, node string, r wire.MaintenanceRequest) (seedbed.Maintenance, error) {
	return post[seedbed.Maintenance](ctx, c, at("/nodes", node)+"/maintenance", r)
}

// Announce announces an event to one instance.
func (c *Client) Announce(ctx context.Context, name string, r wire.MaintenanceRequest) (seedbed.Maintenance, error) {
	return post[seedbed.Maintenance](ctx, c, at("/instances", name)+"/maintenance", r)
}

// CompleteMaintenance ends an event that took place. It returns seedbed.ErrConflict when the event
// has ended.
func (c *Client) CompleteMaintenance(ctx context.Context, id string) (seedbed.Maintenance, error) {
	return post[seedbed.Maintenance](ctx, c, at("/maintenance", id)+"/complete", nil)
}

// CancelMaintenance ends an event that will not take place. It returns seedbed.ErrConflict when the
// event has ended.
func (c *Client) CancelMaintenance(ctx context.Context, id string) (seedbed.Maintenance, error) {
	return post[seedbed.Maintenance](ctx, c, at("/maintenance", id)+"/cancel", nil)
}

// Network returns a network, or seedbed.ErrNotFound.
func (c *Client) Network(ctx context.Context, name string) (seedbed.Network, error) {
	return get[seedbed.Network](ctx, c, at("/networks", name), nil)
}

// CreateNetwork makes a network, and returns it.
func (c *Client) CreateNetwork(ctx context.Context, r wire.NetworkRequest) (seedbed.Network, error) {
	return post[seedbed.Network](ctx, c, "/networks", r)
}

// DeleteNetwork removes a network. It returns seedbed.ErrInUse, with what uses it, if something does.
func (c *Client) DeleteNetwork(ctx context.Context, name string) error {
	return c.remove(ctx, at("/networks", name))
}

// NetworkLeases lists the addresses of a network that instances have, as s selects them.
func (c *Client) NetworkLeases(ctx context.Context, name string, s Selection) ([]seedbed.NetworkLease, error) {
	return selected[seedbed.NetworkLease](ctx, c, at("/networks", name)+"/leases", s)
}

// NetworkForwards lists the forwards into a network, as s selects them.
func (c *Client) NetworkForwards(ctx context.Context, name string, s Selection) ([]seedbed.ForwardTo, error) {
	return selected[seedbed.ForwardTo](ctx, c, at("/networks", name)+"/forwards", s)
}

// ChangeNetwork changes a network. Its nodes apply the change.
func (c *Client) ChangeNetwork(ctx context.Context, name string, change wire.NetworkChange) (seedbed.Network, error) {
	return patch[seedbed.Network](ctx, c, at("/networks", name), change)
}

// AllocateAddress allocates a floating address, and returns it.
func (c *Client) AllocateAddress(ctx context.Context, r wire.AddressRequest) (seedbed.FloatingAddress, error) {
	return post[seedbed.FloatingAddress](ctx, c, "/addresses", r)
}

// Address returns a floating address, or seedbed.ErrNotFound.
func (c *Client) Address(ctx context.Context, addr string) (seedbed.FloatingAddress, error) {
	return get[seedbed.FloatingAddress](ctx, c, at("/addresses", addr), nil)
}

// ReleaseAddress gives a floating address back. It returns seedbed.ErrInUse if an instance has it.
func (c *Client) ReleaseAddress(ctx context.Context, addr string) error {
	return c.remove(ctx, at("/addresses", addr))
}

// CreateSecurityGroup makes a security group, and returns it.
func (c *Client) CreateSecurityGroup(ctx context.Context, r wire.SecurityGroupRequest) (seedbed.SecurityGroup, error) {
	return post[seedbed.SecurityGroup](ctx, c, "/security-groups", r)
}

// SecurityGroup returns a security group, or seedbed.ErrNotFound.
func (c *Client) SecurityGroup(ctx context.Context, name string) (seedbed.SecurityGroup, error) {
	return get[seedbed.SecurityGroup](ctx, c, at("/security-groups", name), nil)
}

// ChangeSecurityGroup changes a security group. Its nodes apply the change.
func (c *Client) ChangeSecurityGroup(ctx context.Context, name string, change wire.SecurityGroupChange) (seedbed.SecurityGroup, error) {
	return patch[seedbed.SecurityGroup](ctx, c, at("/security-groups", name), change)
}

// DeleteSecurityGroup removes a security group. It returns seedbed.ErrInUse, with what uses it, if something does.
func (c *Client) DeleteSecurityGroup(ctx context.Context, name string) error {
	return c.remove(ctx, at("/security-groups", name))
}

// IdentityCertificate returns the certificate, in PEM, that verifies instance identity documents.
func (c *Client) IdentityCertificate(ctx context.Context) ([]byte, error) {
	var b []byte
	err := c.do(ctx, call{method: http.MethodGet, path: "/certificates/identity", raw: &b})
	return b, err
}

// AccessFilter selects events of an instance's guest. The zero value selects all.
type AccessFilter struct {
	// Max is the largest number of events, of which the newest are returned. 0 is the server's
	// default.
	Max int
	// Kind is one of seedbed's kinds of GuestEvent.
	Kind string
	// Path is a prefix of the path of a request.
	Path string
	// Status is a status such as "404", or a class such as "4xx".
	Status string
	// Since excludes the events before that time.
	Since time.Time
}

func (f AccessFilter) query() url.Values {
	q := given(map[string]string{"kind": f.Kind, "path": f.Path, "status": f.Status})
	if f.Max > 0 {
		q.Set("limit", strconv.Itoa(f.Max))
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	return q
}

// TraceQuery says which packet of an instance is traced. Without an address, it is what every guest needs.
type TraceQuery struct {
	NIC *int // nil means the one with the lowest index
	To  netip.Addr
	// Protocol is "tcp", "udp" or "icmp". Empty means tcp with a port, and icmp without.
	Protocol string
	Port     uint16
}

// Trace returns the ways of packets of an instance, and what stops them.
func (c *Client) Trace(ctx context.Context, name string, q TraceQuery) ([]seedbed.Trace, error) {
	v := url.Values{}
	if q.NIC != nil {
		v.Set("nic", strconv.Itoa(*q.NIC))
	}
	if q.To.IsValid() {
		v.Set("to", q.To.String())
	}
	if q.Protocol != "" {
		v.Set("protocol", q.Protocol)
	}
	if q.Port != 0 {
		v.Set("port", strconv.Itoa(int(q.Port)))
	}
	return get[[]seedbed.Trace](ctx, c, at("/instances", name)+"/trace", v)
}

// SetHardware starts a job that changes the hardware of an instance.
func (c *Client) SetHardware(ctx context.Context, name string, change seedbed.HardwareChange) (seedbed.Receipt, error) {
	return patch[seedbed.Receipt](ctx, c, at("/instances", name), wire.InstanceChange{Hardware: &wire.HardwareChange{HardwareChange: change}})
}

// PlanSetHardware returns what SetHardware would change, and when.
func (c *Client) PlanSetHardware(ctx context.Context, name string, change seedbed.HardwareChange) (seedbed.Plan, error) {
	return patch[seedbed.Plan](ctx, c, at("/instances", name),
		wire.InstanceChange{Hardware: &wire.HardwareChange{HardwareChange: change, DryRun: true}})
}
